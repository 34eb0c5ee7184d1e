"""The root cause is what the first rank to fail said; what follows, what is harmless and what was survived is told apart."""

from __future__ import annotations

from pathlib import Path

from stackproof.triage.causes import Diagnosis
from stackproof.triage.rules import CONSEQUENCE

from .making import TRACEBACK, folder_report, report, signatures

DUPLICATE = "n:73:73 [0] NCCL WARN Duplicate GPU detected : rank 0 and rank 2 both on CUDA device 73010\n"
MEMORY = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
DISK = "OSError: [Errno 28] No space left on device: 'x'\n"
WATCHDOG = (
    "[rank{0}]:[E1218 20:27:21.426 ProcessGroupNCCL.cpp:629] [Rank {0}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=1, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600081 milliseconds\n"
)
TABLE = "  rank      : {0} (local_rank: {0})\n  exitcode  : {1} (pid: 7{0})\n"
MASK = "export ZE_AFFINITY_MASK=0.1\ntorchrun --nproc_per_node 2 x.py\n"


def traceback(rank: int, exception: str) -> str:
    """Return a rank's traceback."""
    return "".join(f"[rank{rank}]: {line}\n" for line in (TRACEBACK + exception).splitlines())


def judged(folder: Path, text: str) -> Diagnosis:
    """Judge a log."""
    return report(folder, text).judgement


def root(judgement: Diagnosis) -> tuple[str, tuple[str, int]]:
    """Return the signature, or the title of an unknown end, and who was first."""
    assert judgement.root is not None
    return judgement.root.signature or judgement.root.title, judgement.root.who[0]


def test_first_rank_in_the_log_is_the_root_cause(tmp_path: Path) -> None:
    found = judged(tmp_path, traceback(1, DISK) + traceback(0, MEMORY))
    assert root(found) == ("disk-full", ("rank", 1))
    assert [row.signature for row in found.others] == ["cuda-out-of-memory"]


def test_unknown_exception_before_the_others_time_out_is_the_root_cause(tmp_path: Path) -> None:
    text = traceback(3, "ValueError: no image") + WATCHDOG.format(0) + WATCHDOG.format(1) + TABLE.format(0, -6)
    found = judged(tmp_path, text)
    assert root(found) == ("it raised ValueError: no image", ("rank", 3))
    assert [row.signature for row in found.consequences] == ["nccl-watchdog-timeout"]
    assert found.others == []


def test_only_consequences_say_that_the_cause_is_elsewhere(tmp_path: Path) -> None:
    found = judged(tmp_path, WATCHDOG.format(2) + WATCHDOG.format(0))
    assert root(found) == ("nccl-watchdog-timeout", ("rank", 2))
    assert found.root is not None
    assert found.root.kind == CONSEQUENCE
    assert found.collective == "allreduce"


def test_silent_signal_is_the_cause_where_the_others_lost_a_peer(tmp_path: Path) -> None:
    lost = "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:1"
    found = judged(tmp_path, traceback(0, lost) + TABLE.format(0, 1) + TABLE.format(1, -7))
    assert root(found) == ("it was ended by SIGBUS", ("rank", 1))
    assert found.others == []


def test_exit_codes_say_nothing_where_something_was_said(tmp_path: Path) -> None:
    assert judged(tmp_path, traceback(0, MEMORY) + TABLE.format(0, 1) + TABLE.format(1, 1)).others == []
    assert root(judged(tmp_path, TABLE.format(1, 3))) == ("it ended with exit code 3", ("rank", 1))


def test_abort_of_nobody_in_particular_is_no_cause_beside_a_lost_peer(tmp_path: Path) -> None:
    threw = "terminate called after throwing an instance of 'c10::DistBackendError'\n"
    text = (
        WATCHDOG.format(0)
        + threw
        + threw
        + "[ERROR] [launch.py:325:sigkill_handler] ['python'] exits with return code = -6\n"
    )
    found = judged(tmp_path, text)
    assert root(found) == ("nccl-watchdog-timeout", ("rank", 0))
    assert found.others == []
    assert root(judged(tmp_path, threw))[0].startswith("it said terminate called")


def test_chain_of_exceptions_names_its_beginning(tmp_path: Path) -> None:
    link = "\nDuring handling of the above exception, another exception occurred:\n\n"
    found = judged(tmp_path, TRACEBACK + "KeyError: 'a'\n" + link + TRACEBACK + "ValueError: b\n")
    assert found.root is not None
    assert found.root.cause == "no known signature: it raised ValueError: b, which began as: KeyError: 'a'"
    assert judged(tmp_path, TRACEBACK + "KeyError: 'a'\n" + TRACEBACK + "ValueError: b\n").root != found.root


def test_unknown_end_tells_the_last_collective_and_the_first_complaint(tmp_path: Path) -> None:
    text = (
        "[rank1]: n:1:1 [0] NCCL WARN odd thing\n[rank1]: Traceback (most recent call last):\n"
        '[rank1]:   File "/x/torch/distributed/distributed_c10d.py", line 2501, in all_gather\n[rank1]: RuntimeError: odd\n'
    )
    found = judged(tmp_path, text)
    assert found.root is not None
    assert found.root.cause.endswith("it raised RuntimeError: odd; before that it said odd thing")
    assert found.collective == "all_gather"


def test_exception_that_the_run_survived_is_no_failure(tmp_path: Path) -> None:
    text = TRACEBACK + "requests.ReadTimeout: telemetry\n"
    survived = judged(tmp_path, text + "{'train_runtime': 9.0, 'train_loss': 1.0}\n")
    assert survived.root is None
    assert [row.signature for row in survived.survived] == ["read-timed-out"]
    assert judged(tmp_path, text + "step 1\n").root is not None
    assert judged(tmp_path, "{'train_runtime': 9.0}\n" + text).root is not None


def test_failure_after_the_end_is_no_survival(tmp_path: Path) -> None:
    text = traceback(1, "ValueError: a") + "{'train_runtime': 9.0}\n" + traceback(0, DISK)
    assert judged(tmp_path, text).survived == []


def test_likely_slip_does_not_hide_an_exception(tmp_path: Path) -> None:
    found = judged(tmp_path, MASK + TRACEBACK + "ValueError: no\n")
    assert root(found)[0] == "xpu-affinity-mask-tile"
    assert [row.title for row in found.others] == ["it raised ValueError: no"]
    found = judged(tmp_path, "[rank0]: " + DUPLICATE + "x\n" * 20 + traceback(0, "DistBackendError: NCCL error"))
    assert (found.others, [row.title for row in found.consequences]) == ([], ["it raised DistBackendError: NCCL error"])


def test_harmless_message_is_no_failure(tmp_path: Path) -> None:
    found = judged(tmp_path, "[W1 x OperatorEntry.cpp:218] Warning: Warning only once for all operators\n")
    assert found.root is None
    assert signatures(found) == {"xpu-kernel-override"}


def test_hand_that_ended_the_run_is_told(tmp_path: Path) -> None:
    found = judged(tmp_path, "step 1\n" + TRACEBACK + "KeyboardInterrupt\n")
    assert found.root is not None
    assert (found.root.kind, found.root.title) == (CONSEQUENCE, "it raised KeyboardInterrupt")


def test_files_are_ordered_by_their_times(tmp_path: Path) -> None:
    files = {
        "attempt_0/0/stderr.log": f"2026-01-01 10:00:09 step\n{TRACEBACK}{DISK}",
        "attempt_0/1/stderr.log": f"2026-01-01 10:00:02 step\n{TRACEBACK}{MEMORY}",
    }
    found = folder_report(tmp_path, files).judgement
    assert root(found) == ("cuda-out-of-memory", ("rank", 1))
    assert found.ordered


def test_files_without_times_say_that_the_order_is_not_known(tmp_path: Path) -> None:
    files = {"rank0.log": TRACEBACK + "ValueError: x\n", "rank1.log": TRACEBACK + MEMORY}
    found = folder_report(tmp_path, files).judgement
    assert root(found) == ("cuda-out-of-memory", ("rank", 1))
    assert not found.ordered


def test_condition_that_does_not_hold_keeps_a_signature_out(tmp_path: Path) -> None:
    assert judged(tmp_path, "export ZE_AFFINITY_MASK=0.1\npython x.py\n").root is None
    assert judged(tmp_path, MASK).root is not None

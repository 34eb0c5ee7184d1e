"""How ranks ended, in the words of launchers, shells, kernels and the processes themselves."""

from __future__ import annotations

from pathlib import Path

import pytest

from stackproof.triage import deaths, rules
from stackproof.triage.deaths import Death, People, Weight

from .making import TRACEBACK, evidence


def found(folder: Path, text: str) -> list[Death]:
    """Return the deaths in a log."""
    seen = evidence(folder, text, rules.probes())
    return [death for death in deaths.deaths(seen, People(seen)) if death.weight is not Weight.SENTENCE]


ENDS = {
    "torchrun's table": (
        "  rank      : 3 (local_rank: 1)\n  exitcode  : -9 (pid: 77)\n",
        ("rank", 3),
        Weight.SIGNAL,
        "was ended by SIGKILL",
    ),
    "its exit code": (
        "  rank      : 3 (local_rank: 1)\n  exitcode  : 1 (pid: 77)\n",
        ("rank", 3),
        Weight.EXIT,
        "ended with exit code 1",
    ),
    "what it ended itself": (
        "  rank      : 3 (local_rank: 1)\n  exitcode  : -15 (pid: 77)\n",
        ("rank", 3),
        Weight.FOLLOWED,
        "was ended by SIGTERM",
    ),
    "its agent": (
        "E1 x] failed (exitcode: -11) local_rank: 2 (pid: 9) of binary: python",
        ("rank", 2),
        Weight.SIGNAL,
        "was ended by SIGSEGV",
    ),
    "an abort": (
        "E1 x] failed (exitcode: -6) local_rank: 2 (pid: 9) of binary: python",
        ("rank", 2),
        Weight.EXIT,
        "was ended by SIGABRT",
    ),
    "spawn": ("process 1 terminated with signal SIGBUS", ("rank", 1), Weight.SIGNAL, "was ended by SIGBUS"),
    "DeepSpeed": (
        "[ERROR] [launch.py:325:sigkill_handler] ['python'] exits with return code = -9",
        ("file", 0),
        Weight.SIGNAL,
        "was ended by SIGKILL",
    ),
    "srun": ("srun: error: node1: task 3: Killed", ("rank", 3), Weight.SIGNAL, "was ended by SIGKILL"),
    "srun's exit code": (
        "srun: error: node1: tasks 2-3: Exited with exit code 139",
        ("rank", 2),
        Weight.SIGNAL,
        "was ended by SIGSEGV",
    ),
    "Intel MPI": (
        "=   RANK 1 PID 4312 RUNNING AT node2\n=   KILLED BY SIGNAL: 11 (Segmentation fault)\n",
        ("rank", 1),
        Weight.SIGNAL,
        "was ended by SIGSEGV",
    ),
    "Open MPI": (
        "mpirun noticed that process rank 2 with PID 91 on node n exited on signal 9 (Killed).",
        ("rank", 2),
        Weight.SIGNAL,
        "was ended by SIGKILL",
    ),
    "faulthandler": ("Fatal Python error: Segmentation fault\n", ("file", 0), Weight.SIGNAL, "was ended by SIGSEGV"),
    "the shell": (
        "run.sh: line 3:  4711 Killed                  python x.py",
        ("file", 0),
        Weight.SIGNAL,
        "was ended by SIGKILL",
    ),
    "C++": (
        "terminate called after throwing an instance of 'std::bad_alloc'\n  what():  std::bad_alloc\n",
        ("file", 0),
        Weight.EXIT,
        "said terminate called after throwing an instance of 'std::bad_alloc': std::bad_alloc",
    ),
    "a dump at a deadline": (
        "[rank1]: Timeout (0:00:30)!\n",
        ("rank", 1),
        Weight.SIGNAL,
        "hung until its deadline (a dump of its stack follows in the log)",
    ),
    "pytest": ("E   RuntimeError: no\n", ("file", 0), Weight.SIGNAL, "said RuntimeError: no"),
    "an exception": (TRACEBACK + "ValueError: no\n", ("file", 0), Weight.EXCEPTION, "raised ValueError: no"),
    "a launcher's exception": (
        TRACEBACK + "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n",
        ("file", 0),
        Weight.FOLLOWED,
        "raised torch.distributed.elastic.multiprocessing.errors.ChildFailedError:",
    ),
    "a library": ("n:1:1 [0] NCCL WARN odd", ("pid", 1), Weight.HINT, "said odd"),
}


@pytest.mark.parametrize("name", ENDS)
def test_end_names_rank_and_cause(tmp_path: Path, name: str) -> None:
    text, who, weight, what = ENDS[name]
    (death,) = found(tmp_path, text)
    assert (death.who, death.weight, death.what) == (who, weight, what)


@pytest.mark.parametrize(
    "text",
    [
        "[launch.py:1:main] ['python'] exits with return code = 0",
        "Exception ignored in: <function f at 0x1>\n" + TRACEBACK + "AttributeError: no\n",
        "--- Logging error ---\n" + TRACEBACK + "TypeError: no\n",
        "the process was Killed by us",
        "rank 3 exitcode 1",
        "Timeout (ms)",
    ],
)
def test_what_is_no_end(tmp_path: Path, text: str) -> None:
    assert found(tmp_path, text) == []


def test_an_exception_is_told_once(tmp_path: Path) -> None:
    assert len(found(tmp_path, TRACEBACK + "ValueError: no\n")) == 1
    (bare,) = found(tmp_path, "ValueError: no\n")
    assert (bare.weight, bare.what) == (Weight.EXCEPTION, "raised ValueError: no")


@pytest.mark.parametrize(
    "line",
    [
        "node1:77:78 [0] NCCL INFO comm 0x1 rank 5 nranks 8 cudaDev 0 busId 1 - Init START",
        "#  Rank  5 Group  0 Pid     77 on node1 device  0 [0x00] NVIDIA A10G",
        "2025:11:26-12:43:48:(77) |CCL_INFO| coord: global [ idx 5, cnt 8 ], local [ idx 5, cnt 8 ]",
        "PY rank5/8 pid=77 backend=ccl",
        "  rank      : 5 (local_rank: 1)\n  exitcode  : 1 (pid: 77)",
    ],
)
def test_lines_that_say_which_process_is_which_rank(tmp_path: Path, line: str) -> None:
    seen = evidence(tmp_path, f"2025:11:26-12:43:47:(77) |CCL_ERROR| odd\n{line}\n", rules.probes())
    people = People(seen)
    assert people.known(("pid", 77)) == ("rank", 5)
    assert people.known(("pid", 78)) == ("pid", 78)
    assert ("rank", 5) in {death.who for death in deaths.deaths(seen, people)}

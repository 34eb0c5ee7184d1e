"""Ranks of somebody else's launcher: they meet, prove the group, and rank 0 writes the record of all, also when one fails."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from stackproof import ROOT
from stackproof.base import files, processes
from stackproof.base.errors import Refusal
from stackproof.ranks import join as joining
from stackproof.ranks.blame import Traces
from stackproof.ranks.join import judge
from stackproof.ranks.launchers import Placement, Spec, note_failure
from stackproof.record import reading, writer
from stackproof.record.records import Check, Record, Verdict

from .joiners import join, open_mpi, plain


def record(folder: Path) -> Record:
    return reading.read(folder / "record.json")


def reasons(folder: Path) -> dict[str, tuple[Verdict, str]]:
    return {check.id: (check.verdict, check.reason) for check in record(folder).checks}


def left_over(folder: Path) -> list[str]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if str(folder) in command and int(process.name) != os.getpid() and "pytest" not in command:
            found.append(command)
    return found


@pytest.mark.slow
def test_ranks_of_mpirun_meet_over_a_file_and_prove_the_group(tmp_path: Path) -> None:
    meeting = ("--rendezvous", f"file://{tmp_path}", "--run", "first")
    ended = join(tmp_path / "logs", [open_mpi(rank, 2) for rank in (0, 1)], *meeting)
    assert [0, 0] == [one.returncode for one in ended], [one.stderr[-500:] for one in ended]
    found = record(tmp_path / "logs")
    assert (found.verdict, found.provenance["launcher"]) == (Verdict.PASSED, "mpirun (Open MPI)")
    assert ["environment", "preflight", "bring_up", "collectives", "training"] == [check.id for check in found.checks]
    assert {"rank 0.device", "rank 1.device"} <= found.checks[2].figures.keys()
    assert "PASSED  cpu: 5 passed" in ended[0].stdout
    assert ended[1].stdout == ""
    assert list(tmp_path.glob("*.store")) == []


@pytest.mark.slow
def test_ranks_meet_over_a_port_and_run_a_program(tmp_path: Path) -> None:
    with socket.create_server(("localhost", 0)) as free:
        port = free.getsockname()[1]
    meeting = {"MASTER_ADDR": "localhost", "MASTER_PORT": str(port)}
    program = ("--program", "tests.ranks.rank_programs:report")
    ended = join(tmp_path, [{**plain(rank, 2), **meeting} for rank in (0, 1)], *program)
    assert [0, 0] == [one.returncode for one in ended], [one.stderr[-500:] for one in ended]
    assert "rank_programs:report ended on 2 ranks" in reasons(tmp_path)["program"][1]
    assert "rank 1 was here" in (tmp_path / "rank1.log").read_text()
    left = files.parse_json((tmp_path / "rank0.json").read_bytes(), "rank0.json", strict=True)
    assert [["nan", "-inf"]] * 2 == [result["not numbers"] for result in left["ranks"]]


ENDED = "ended with exit code 0, before its program had come to its end, in 'adding numbers'"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "verdict", "said"),
    [
        ("crash_on_one", Verdict.CRASHED, "rank 1 ended with signal SIGSEGV in 'touching memory'"),
        ("leave_quietly_0", Verdict.CRASHED, f"rank 0 {ENDED}"),
        ("leave_quietly_1", Verdict.CRASHED, f"rank 1 {ENDED}"),
        ("leave_by_sys_exit", Verdict.CRASHED, f"rank 1 {ENDED}"),
        (
            "hang_on_one",
            Verdict.HUNG,
            "rank 1 hung in 'first half' (rank 0 in 'second half'); all ranks were ended after 40",
        ),
        ("hang_at_the_end", Verdict.HUNG, "rank 1 hung in 'writing a checkpoint' (rank 0 in 'leaving the group')"),
        ("sum_on_one", Verdict.HUNG, "rank 0 did not call number 2 of the world, all_reduce of 8 float32, SUM (rank_"),
        (
            "send_another_dtype",
            Verdict.FAILED,
            "rank 0 and rank 1 called different things as number 1 of the messages from rank 0 to rank 1: rank 0 send of 8 float32 (",
        ),
        (
            "forget_a_message",
            Verdict.HUNG,
            "rank 0 did not send number 1 of the messages from rank 0 to rank 1, irecv of 8 float32 (rank_programs.py:",
        ),
        (
            "prove_without_a_barrier",
            Verdict.FAILED,
            "rank 0 failed in 'barrier': RuntimeError: the barrier let rank 0 go before rank 1 came",
        ),
        (
            "another_operator_once",
            Verdict.FAILED,
            "rank 1 and rank 0 did not call the same of the world: of 2200 calls one differs",
        ),
        (
            "other_buffers_on_one",
            Verdict.FAILED,
            "rank 0 and rank 1 called different things as number 3 of the world: rank 0 broadcast of 19 float32, root 0 (rank_",
        ),
        (
            "skip_on_one",
            Verdict.FAILED,
            "rank 1 skipped number 2 of the world, all_reduce of 8 float64, SUM (rank_programs.py:",
        ),
    ],
)
def test_a_rank_that_fails_is_named_by_rank_0(tmp_path: Path, program: str, verdict: Verdict, said: str) -> None:
    options = ("--rendezvous", f"file://{tmp_path}", "--run", "x", "--program", f"tests.ranks.rank_programs:{program}")
    ended = join(tmp_path / "logs", [plain(rank, 2) for rank in (0, 1)], *options, "--deadline", "40")
    found = reasons(tmp_path / "logs")["program"]
    assert (found[0], found[1][: len(said)]) == (verdict, said)
    assert ended[0].returncode == (5 if verdict is Verdict.HUNG else 1)
    assert left_over(tmp_path) == []


@pytest.mark.slow
def test_variables_that_only_one_rank_has_are_named_with_the_failure(tmp_path: Path) -> None:
    places = [plain(0, 2), {**plain(1, 2), "TORCH_NCCL_TRACE_BUFFER_SIZE": "9"}]
    program = ("--program", "tests.ranks.rank_programs:crash_on_one")
    join(tmp_path / "logs", places, "--rendezvous", f"file://{tmp_path}", "--run", "x", *program)
    differs = "; the ranks' variables differ: TORCH_NCCL_TRACE_BUFFER_SIZE is not set on rank 0 and 9 on rank 1"
    assert reasons(tmp_path / "logs")["program"][1].endswith(differs)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("places", "words"),
    [
        ((plain(0, 2), plain(1, 3)), "rank 1 was started with 3 ranks, and rank 0 with 2"),
        ((plain(0, 2), plain(1, 2), plain(1, 2)), "two processes claim to be rank 1 of 2"),
        (
            (plain(0, 2), {**plain(1, 2), "TORCH_DISTRIBUTED_DEBUG": "DETAIL"}),
            "rank 1 has TORCH_DISTRIBUTED_DEBUG DETAIL, and rank 0 below DETAIL: all ranks of a group need the same",
        ),
        (
            (plain(0, 3), plain(2, 3), plain(2, 3)),
            "two processes claim to be rank 2 of 3, and rank 1 did not come",
        ),
    ],
)
def test_ranks_that_are_not_of_one_group_are_refused(
    tmp_path: Path, places: tuple[dict[str, str], ...], words: str
) -> None:
    meeting = ("--rendezvous", f"file://{tmp_path}", "--run", "x", "--deadline", "60")
    ended = join(tmp_path / "logs", places, *meeting)
    assert any(one.returncode == 2 and words in one.stderr for one in ended), [one.stderr[-500:] for one in ended]


@pytest.mark.slow
def test_two_processes_of_rank_0_are_named_as_that(tmp_path: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("localhost", 0))
        meeting = {"MASTER_ADDR": "localhost", "MASTER_PORT": str(unused.getsockname()[1])}
    ended = join(tmp_path / "logs", [{**plain(0, 2), **meeting}] * 2, "--deadline", "40")
    assert any("another process that was started as rank 0" in one.stderr for one in ended), [
        one.stderr for one in ended
    ]


@pytest.mark.slow
@pytest.mark.parametrize("missing", [0, 1])
def test_a_rank_that_does_not_come_is_named(tmp_path: Path, missing: int) -> None:
    meeting = ("--rendezvous", f"file://{tmp_path}", "--run", "x", "--deadline", "60")
    (ended,) = join(tmp_path / "logs", [plain(1 - missing, 2)], *meeting)
    assert ended.returncode == 2
    assert f"rank {missing} of 2 did not come: it was not started" in ended.stderr
    if missing:  # else nobody is there to write a record
        assert reasons(tmp_path / "logs")["preflight"][0] is Verdict.FAILED


@pytest.mark.slow
def test_a_rank_that_does_not_come_to_the_port_is_named_and_those_that_came_are_not(tmp_path: Path) -> None:
    with socket.create_server(("localhost", 0)) as free:
        meeting = {"MASTER_ADDR": "localhost", "MASTER_PORT": str(free.getsockname()[1])}
    ended = join(tmp_path / "logs", [{**plain(rank, 3), **meeting} for rank in (0, 1)], "--deadline", "40")
    assert (ended[0].returncode, ", and rank 2 of 3 did not come (" in ended[0].stderr) == (2, True), ended[0].stderr


@pytest.mark.slow
def test_a_rank_that_went_to_another_port_is_named_with_it(tmp_path: Path) -> None:
    with socket.create_server(("localhost", 0)) as free, socket.create_server(("localhost", 0)) as other:
        ports = [str(server.getsockname()[1]) for server in (free, free, other)]
    meeting = [{"MASTER_ADDR": "localhost", "MASTER_PORT": port} for port in ports]
    ended = join(tmp_path / "logs", [{**plain(rank, 3), **meeting[rank]} for rank in range(3)], "--deadline", "40")
    assert f"and rank 2 of 3 did not come, rank 2 went to localhost:{ports[2]}" in ended[0].stderr, ended[0].stderr


@pytest.mark.slow
def test_a_folder_that_is_deleted_while_the_ranks_run_is_said_in_a_sentence(tmp_path: Path) -> None:
    meeting = ("--rendezvous", f"file://{tmp_path}", "--run", "x", "--deadline", "40")
    places = [plain(rank, 2) for rank in (0, 1)]
    ended = join(tmp_path / "logs", places, *meeting, "--program", "tests.ranks.rank_programs:delete_the_folder")
    words = f"stackproof: {tmp_path / 'logs'} is gone: something deleted it while the ranks ran\n"
    assert [(2, words)] * 2 == [(one.returncode, one.stderr) for one in ended]


@pytest.mark.slow
@pytest.mark.parametrize("stuck", [0, 1])
def test_a_rank_that_stops_at_its_imports_hangs(tmp_path: Path, stuck: int) -> None:
    program = "import os, time\nimport torch.distributed\nif os.environ['STUCK'] == '1': time.sleep(600)\n"
    (tmp_path / "slowly.py").write_text(f"{program}def run(*_): torch.distributed.barrier()\n")
    path = f"{ROOT / 'src'}:{tmp_path}"
    places = [{**plain(rank, 2), "PYTHONPATH": path, "STUCK": str(int(rank == stuck))} for rank in (0, 1)]
    meeting = ("--rendezvous", f"file://{tmp_path}", "--run", "x", "--deadline", "40")
    ended = join(tmp_path / "logs", places, *meeting, "--program", "slowly:run")
    verdict, reason = reasons(tmp_path / "logs")["program"]
    assert (verdict, [5, 5]) == (Verdict.HUNG, [one.returncode for one in ended]), reason
    assert f"rank {stuck} hung in 'starting the program'" in reason and "slowly.py" in reason


def test_a_rank_that_hung_is_no_killed_one_where_the_launcher_then_ends_rank_0(tmp_path: Path) -> None:
    note_failure(tmp_path, 0, -signal.SIGTERM, follows=True)
    note_failure(tmp_path, 1, None)
    (tmp_path / "rank0.phases").write_text("starting the program\nleaving the group\n")
    (tmp_path / "rank1.phases").write_text("starting the program\n")
    record, spec = writer.begin("ranks", "cpu"), Spec("a:b", "cpu", False, "gloo", (), {}, tmp_path, 40.0)
    interrupted = Check("program", Verdict.INTERRUPTED, "interrupted from outside", 0.0)
    joining._complete(record, spec, Placement("torchrun", 0, 2, 0, 2), interrupted)
    assert (record.verdict, record.checks[0].reason[:41]) == (Verdict.HUNG, "rank 1 hung in 'starting the program' (ra")


def test_torchrun_inside_mpirun_is_named(tmp_path: Path) -> None:
    outer = {"OMPI_COMM_WORLD_RANK": "0", "TORCHELASTIC_RUN_ID": "none"}
    (ended,) = join(tmp_path / "logs", [{**plain(0, 1), **outer}])
    assert ended.returncode == 2 and "torchrun runs inside mpirun (Open MPI): each of its processes" in ended.stderr


@pytest.mark.slow
@pytest.mark.parametrize("checked", [True, False])
def test_the_preflight_is_held_over_all_ranks_and_can_be_switched_off(tmp_path: Path, checked: bool) -> None:
    environs = [plain(0, 2), {**plain(1, 2), "GLOO_SOCKET_IFNAME": "lo"}]
    environs[0]["OMP_NUM_THREDS"] = "1"
    program = ("--program", "tests.ranks.rank_programs:report")
    options = ("--rendezvous", f"file://{tmp_path}", "--run", "x", *program)
    ended = join(tmp_path / "logs", environs, *options, *([] if checked else ["--no-preflight"]))
    verdict, reason = reasons(tmp_path / "logs")["preflight"]
    if checked:
        assert [2, 2] == [one.returncode for one in ended]
        assert (verdict, "OMP_NUM_THREDS is not a variable known" in reason) == (Verdict.FAILED, True)
        assert "OMP_NUM_THREDS" in ended[1].stderr
    else:
        assert [0, 0] == [one.returncode for one in ended]
        assert (verdict, "was switched off" in reason) == (Verdict.SKIPPED, True)


PORT = ("--rendezvous", "tcp://127.0.0.1:1")


@pytest.mark.parametrize(
    ("environ", "options", "words"),
    [
        ({}, (), "no launcher started this process"),
        (plain(0, 2), (), "the ranks do not know where to meet"),
        (plain(0, 2), ("--deadline", "9999"), "a deadline of 9999 s is above an hour"),
        (plain(0, 2), ("--deadline", "100000"), "must be a number of seconds from 1 to 86400"),
        (open_mpi(0, 2), ("--rendezvous", "file:///nowhere"), "add --run NAME, another one each time"),
        (open_mpi(0, 2), ("--rendezvous", "file:///nowhere", "--run", "x"), "file:///nowhere: there is no such folder"),
        (plain(0, 2), (*PORT, "--program", "nosuch:main"), "--program nosuch:main: there is no module 'nosuch' in"),
        (plain(0, 2), (*PORT, "--program", "tests.nosuch:main"), "there is no module 'tests.nosuch'"),
        (plain(0, 2), (*PORT, "--program", "tests.ranks.rank_programs:repport"), "rank_programs.py has no 'repport'"),
        (
            open_mpi(0, 1),
            ("--rendezvous", "file:///tmp", "--run", "x"),
            "started 1 rank(s), and a collective of cpu counts from 2 on",
        ),
    ],
)
def test_what_is_missing_is_refused_before_anything_starts(
    tmp_path: Path, environ: dict[str, str], options: tuple[str, ...], words: str
) -> None:
    (ended,) = join(tmp_path / "logs", [environ], *options)
    assert (ended.returncode, words in ended.stderr) == (2, True), ended.stderr
    assert not (tmp_path / "logs").exists()


def test_a_store_that_an_earlier_run_left_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "stackproof-x.store"
    path.touch()
    assert joining._store_file(f"file://{path}", 60.0) == path
    os.utime(path, (0, 0))
    with pytest.raises(Refusal, match="an earlier run of this name left it"):
        joining._store_file(f"file://{path}", 60.0)
    assert joining._store_file("env://", 60.0) is None


def test_what_an_earlier_run_left_is_forgotten_but_its_record(tmp_path: Path) -> None:
    for name in ("rank0.json", "rank0.failure", "rank1.json", "rank10.json", "record.json"):
        (tmp_path / name).touch()
    joining._forget(Traces(tmp_path, 2), 1, "env://")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "lock",
        "rank0.failure",
        "rank0.json",
        "rank1.alive",
        "rank10.json",
        "record.json",
    ]
    joining._forget(Traces(tmp_path, 2), 0, "env://")
    (kept,) = tmp_path.glob("record-*.json")
    assert {path.name for path in tmp_path.iterdir()} == {
        "lock",
        "rank0.alive",
        "rank1.alive",
        "rank10.json",
        kept.name,
    }


def test_what_others_left_is_forgotten_if_they_had_begun_before_this_rank_ended(tmp_path: Path) -> None:
    def leave(name: str, at: float) -> None:
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (at, at))

    for name, at in (("rank0.alive", 10), ("rank1.json", 20), ("rank0.json", 30), ("record.json", 30)):
        leave(name, at)
    leave("rank2.alive", 25)  # begins this run already
    joining._forget(Traces(tmp_path, 2), 1, "env://")
    assert {path.name for path in tmp_path.iterdir()} == {"lock", "rank1.alive", "rank2.alive", "record.json"}
    leave("rank0.alive", 10)
    leave("rank1.spec.json", 20)  # of a twin of this rank, which is at work with the others
    joining._forget(Traces(tmp_path, 2), 1, "env://")
    assert {path.name for path in tmp_path.iterdir()} == {
        "lock",
        "rank0.alive",
        "rank1.alive",
        "rank2.alive",
        "record.json",
    }


def test_a_folder_in_which_another_run_works_is_refused(tmp_path: Path) -> None:
    alive = tmp_path / "rank0.alive"
    alive.write_text(json.dumps({"host": socket.gethostname(), "supervisor": os.getpid()}), encoding="utf-8")
    os.utime(alive, (10, 10))
    with pytest.raises(Refusal, match="rank 0 of another run is at work there; give each run a folder of its own"):
        joining._forget(Traces(tmp_path, 2), 0, "env://")
    (tmp_path / "rank0.json").write_text("{}", encoding="utf-8")  # it has come to its end
    joining._forget(Traces(tmp_path, 2), 0, "env://")
    assert alive.stat().st_mtime > 10


def test_two_runs_that_begin_in_one_folder_at_once_are_two(tmp_path: Path) -> None:
    joining._forget(Traces(tmp_path, 2), 0, "tcp://one:1234")
    joining._forget(Traces(tmp_path, 2), 0, "tcp://one:1234")  # a twin, which the others find
    with pytest.raises(Refusal, match="rank 0 of another run is at work there"):
        joining._forget(Traces(tmp_path, 2), 0, "tcp://one:1235")


def test_the_lowest_rank_that_is_left_writes_the_record(tmp_path: Path) -> None:
    assert joining._writes(Traces(tmp_path, 2), 1)  # rank 0 was not started
    alive = tmp_path / "rank0.alive"
    for supervisor, written in ((os.getpid(), False), (1 << 30, True)):
        alive.write_text(json.dumps({"host": socket.gethostname(), "supervisor": supervisor}), encoding="utf-8")
        assert joining._writes(Traces(tmp_path, 2), 1) is written
    alive.write_text(json.dumps({"host": "elsewhere", "supervisor": 1}), encoding="utf-8")
    assert not joining._writes(Traces(tmp_path, 2), 1)


@pytest.mark.parametrize(("end", "verdict"), [("passed", None), ("hung", Verdict.HUNG), ("", Verdict.HUNG)])
def test_a_rank_ends_as_the_group_did(tmp_path: Path, end: str, verdict: Verdict | None) -> None:
    alive = {"host": socket.gethostname(), "supervisor": os.getpid()}
    (tmp_path / "rank0.alive").write_text(json.dumps(alive), encoding="utf-8")
    (tmp_path / "rank0.ended").write_text(end, encoding="utf-8")  # or it is stopped
    spec = Spec("a:b", "cpu", False, "gloo", (), {}, tmp_path, 0.2)
    check = joining._group_ended(spec, Placement("torchrun", 1, 2, 1, 2))
    assert (check and check.verdict) == verdict
    assert (tmp_path / "rank1.ended").read_text(encoding="utf-8") == "passed"


def test_the_launchers_own_descriptor_is_passed_on(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    assert joining._launcher_files({"PMI_FD": str(writer)}) == (writer,)
    assert joining._launcher_files({"PMI_FD": "nine"}) == joining._launcher_files({}) == ()
    with (tmp_path / "out").open("wb") as output:
        command = [sys.executable, "-c", f"import os; os.write({writer}, b'through')"]
        child = processes.start(command, output, {}, processes.new_mark(), (writer,))
        child.wait(10)
    os.close(writer)
    assert os.read(reader, 20) == b"through"
    os.close(reader)
    assert joining._launcher_files({"PMI_FD": str(writer)}) == ()


def test_what_the_ranks_proved_is_kept_before_they_leave(tmp_path: Path) -> None:
    kept: list[str] = []
    child: Any = SimpleNamespace(returncode=-6, poll=lambda: -6 if kept else None)  # it aborts in its farewell
    (tmp_path / "rank0.json").write_text("{}")
    place = Placement("mpirun", 0, 2, 0, 2)
    assert joining._wait(child, 60.0, tmp_path, place, lambda: kept.append("record")) == (-6, False)
    assert kept == ["record"]


def said(number: int, **changed: Any) -> dict[str, Any]:
    return {
        "rank": number,
        "host": f"node{number}",
        "device": "cuda:0",
        "name": "Some Card",
        "bus id": "0000:18:00.0",
        "backend": "nccl",
        "formed_s": 1.0 + number,
        "split_s": 0.25,
        "collectives": ["all-gather", "barrier"],
        "training": {"losses": [2.0, 1.5], "digest": "abc"},
        **changed,
    }


def test_healthy_ranks_pass_with_their_places() -> None:
    checks = {check.id: check for check in judge([said(0), said(1)])}
    assert [Verdict.PASSED] * 3 == [check.verdict for check in checks.values()]
    assert checks["bring_up"].reason == (
        "nccl: rank 0 on cuda:0 0000:18:00.0 of node0, rank 1 on cuda:0 0000:18:00.0 of node1; formed in 2.00 s, split in 0.25 s"
    )
    assert checks["bring_up"].figures["rank 1.host"] == "node1"
    assert checks["collectives"].reason == "all-reduce, all-gather, barrier are exact over 2 ranks"


@pytest.mark.parametrize(
    ("losses", "digests", "words"),
    [
        ([2.0, 1.5], ("abc", "other"), "after 2 steps the ranks' parameters differ: rank 0 abc, rank 1 other"),
        ([2.0, 1.9], ("abc", "abc"), "the loss went from 2.0000 to 1.9000 in 2 steps"),
        ([2.0, "nan"], ("abc", "abc"), "the loss went from 2.0000 to nan in 2 steps"),
    ],
)
def test_training_that_drifts_or_stands_still_fails(losses: list[Any], digests: tuple[str, str], words: str) -> None:
    ranks = [said(rank, training={"losses": losses, "digest": digest}) for rank, digest in enumerate(digests)]
    check = judge(ranks)[-1]
    assert check.verdict is Verdict.FAILED
    assert words in check.reason


def test_a_straggler_is_named_in_the_record() -> None:
    assert judge([said(0), said(1)], "rank 1 is the straggler")[1].reason.endswith(
        "over 2 ranks; rank 1 is the straggler"
    )


PROGRAM = "tests.ranks.rank_programs:wait_together"
WITHIN_S = 180.0


def _waiting(folder: Path, rank: int) -> bool:
    path = folder / f"rank{rank}.phases"
    return path.exists() and "waiting" in path.read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("supervisor", "number"), [(True, signal.SIGKILL), (False, signal.SIGKILL), (False, signal.SIGTERM)]
)
def test_a_killed_rank_is_named_in_the_record(tmp_path: Path, supervisor: bool, number: signal.Signals) -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--standalone", "-m", "stackproof"]
    command += ["ranks", "--stack", "cpu", "--folder", str(tmp_path), "--program", PROGRAM, "--no-preflight"]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT))), "OMP_NUM_THREADS": "1"}
    with (tmp_path / "torchrun.log").open("wb") as output:
        launcher = subprocess.Popen(command, env=env, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT)
        until = time.monotonic() + WITHIN_S
        while not all(_waiting(tmp_path, rank) for rank in (0, 1)) and time.monotonic() < until:
            time.sleep(0.1)
        _kill(tmp_path, 1, number, supervisor)
        launcher.wait(WITHIN_S)
    found = reading.read(tmp_path / "record.json")
    assert found.verdict is Verdict.CRASHED
    assert found.checks[-1].reason.startswith(f"rank 1 ended with signal {number.name} in 'waiting'")


def _kill(folder: Path, rank: int, number: signal.Signals, supervisor: bool) -> None:
    """Send a signal to the supervisor of a rank, or to the rank."""
    process = json.loads((folder / f"rank{rank}.alive").read_text(encoding="utf-8"))["supervisor"]
    child = Path(f"/proc/{process}/task/{process}/children").read_text(encoding="ascii").split()[0]
    os.kill(process if supervisor else int(child), number)


def _two_that_wait(folder: Path) -> list[subprocess.Popen[bytes]]:
    """Start two ranks that meet in a file, and return when both wait in their program."""
    program = "tests.ranks.rank_programs:sum_for_ever"
    meeting = ["--rendezvous", f"file://{folder.parent}", "--run", "x", "--program", program]
    environs = [{**os.environ, **plain(rank, 2), "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"} for rank in (0, 1)]
    command = [sys.executable, "-m", "stackproof", "ranks", "--stack", "cpu", "--folder", str(folder), *meeting]
    ranks = [subprocess.Popen(command, env=environ, cwd=ROOT, stdout=subprocess.DEVNULL) for environ in environs]
    until = time.monotonic() + WITHIN_S
    while not all(_waiting(folder, rank) for rank in (0, 1)) and time.monotonic() < until:
        time.sleep(0.1)
    return ranks


@pytest.mark.slow
def test_without_the_supervisor_of_rank_0_the_next_rank_writes_the_record(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    ranks = _two_that_wait(folder)
    _kill(folder, 0, signal.SIGKILL, supervisor=True)
    assert [rank.wait(WITHIN_S) for rank in ranks] == [-signal.SIGKILL, 1]
    said = "rank 0 ended with signal SIGKILL in 'waiting'"
    verdict, reason = reasons(folder)["program"]
    assert (verdict, reason[: len(said)]) == (Verdict.CRASHED, said)


@pytest.mark.slow
@pytest.mark.parametrize("both", [False, True])
def test_a_rank_that_is_ended_from_outside_is_named_and_all_ranks_are_interrupted(tmp_path: Path, both: bool) -> None:
    """Only rank 1, as `kill` does; or all, as scancel does."""
    folder = tmp_path / "logs"
    ranks = _two_that_wait(folder)
    for rank in ranks[0 if both else 1 :]:
        rank.send_signal(signal.SIGTERM)
    assert [rank.wait(WITHIN_S) for rank in ranks] != [0, 0]
    verdict, reason = reasons(folder)["program"]
    named = (Verdict.CRASHED, "rank 1 ended with signal SIGTERM in 'wa")
    said = (Verdict.INTERRUPTED, "interrupted") if both else named
    assert (verdict, reason[: len(said[1])]) == said

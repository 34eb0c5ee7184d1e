"""Who is blamed, from the files that ranks leave: the one that others only follow, and the one that others wait for."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from stackproof.base import processes
from stackproof.ranks import blame
from stackproof.ranks.blame import FORMED, LEAVING, Traces, who_failed, who_hung
from stackproof.record.checks import CheckCrashed, CheckFailed

WAITING = """\
Timeout (0:00:05)!
Thread 0x00007f01 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 320 in wait

Thread 0x00007f02 (most recent call first):
  File "/opt/torch/distributed/distributed_c10d.py", line 3245 in all_reduce
  File "/opt/program.py", line 5 in train
"""
COMPUTING = """\
last words
Timeout (0:00:05)!
Thread 0x00007f02 (most recent call first):
  File "/opt/program.py", line 9 in never_ends
"""
CRASHED = """\
nonsense before
Fatal Python error: Segmentation fault

Thread 0x00007f03 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 320 in wait

Current thread 0x00007f02 (most recent call first):
  File "/opt/program.py", line 7 in touches

Extension modules: numpy, torch (total: 2)
"""


def rank(
    folder: Path, number: int, *phases: str, error: str = "", stderr: str = "", stdout: str = "", ended: bool = False
) -> None:
    (folder / f"rank{number}.phases").write_text("".join(f"{phase}\n" for phase in ("importing", *phases)))
    (folder / f"rank{number}.log").write_text(stdout + stderr)
    if error:
        (folder / f"rank{number}.error").write_text(error)
    if ended:
        (folder / f"rank{number}.json").write_text("{}")


def failures(folder: Path, **exits: int) -> None:
    """Note how ranks ended, all at the same time."""
    for name, code in exits.items():
        (folder / f"{name}.failure").write_text(json.dumps({"rank": int(name[4:]), "exitcode": code, "time": 100}))


def failed(folder: Path, ranks: int = 2) -> Exception:
    return who_failed(Traces(folder, ranks))


@pytest.mark.parametrize(
    ("code", "said"),
    [(0, "exit code 0, before its program had come to its end, in 'step 3'"), (-9, "signal SIGKILL in 'step 3'")],
)
def test_a_death_goes_before_the_connections_that_it_breaks(tmp_path: Path, code: int, said: str) -> None:
    rank(tmp_path, 0, "step 3", error="RuntimeError: Connection closed by peer [127.0.0.1]:1738. GLHF!")
    rank(tmp_path, 1, "step 3", stdout="step 3 begins\n")
    failures(tmp_path, rank0=1, rank1=code)
    found = failed(tmp_path)
    assert (CheckCrashed, f"rank 1 ended with {said}; it printed last: step 3 begins") == (type(found), str(found))


def test_where_a_launcher_notes_no_cause_the_silent_rank_is_told(tmp_path: Path) -> None:
    rank(tmp_path, 0, "step 3", error="RuntimeError: Connection closed by peer [127.0.0.1]:1738. GLHF!")
    rank(tmp_path, 1, "step 2")
    rank(tmp_path, 2, "step 3", ended=True)
    failures(tmp_path, rank0=1)
    assert str(failed(tmp_path, 3)).endswith(
        "; what it waited for left neither an error nor a result: rank 1 in 'step 2'"
    )


@pytest.mark.parametrize(
    "error",
    [
        "RuntimeError: [unbound_buffer.cc:78] Timed out waiting 3000ms for recv operation to complete",
        "RuntimeError: Operation timed out!",
        "RuntimeError: [Rank 0]: Rank 1 failed to pass monitoredBarrier in 3000 ms",
        "DistStoreError: wait timeout after 3000ms, keys: /0//1//cpu//0/1",
        "DistStoreError: Socket Timeout",
    ],
)
def test_a_rank_that_gave_up_waiting_is_not_the_one_that_never_came(tmp_path: Path, error: str) -> None:
    rank(tmp_path, 0, FORMED, error=error)
    rank(tmp_path, 1, FORMED)
    called(tmp_path, [(WORLD, SUM)] * 3, [(WORLD, SUM)] * 2)
    failures(tmp_path, rank0=1)
    assert str(failed(tmp_path)).startswith("rank 1 did not call number 3 of the world, ")
    failures(tmp_path, rank1=1)
    rank(tmp_path, 1, FORMED, error="ValueError: seven is missing")  # later than the other gave up
    assert str(failed(tmp_path)).startswith("rank 1 failed in 'starting the program': ValueError")


@pytest.mark.parametrize("error", ["TimeoutExpired: 'sleep' timed out", "TimeoutError: no answer of the disk"])
def test_a_time_out_of_a_ranks_own_goes_before_the_connections_that_it_breaks(tmp_path: Path, error: str) -> None:
    rank(tmp_path, 0, FORMED, error="RuntimeError: Connection closed by peer [127.0.0.1]:1738. GLHF!")
    rank(tmp_path, 1, FORMED, error=error)
    called(tmp_path, [(WORLD, SUM)], [])
    failures(tmp_path, rank0=1, rank1=1)
    assert "rank 1 failed in 'starting the program': Timeout" in str(failed(tmp_path))


def test_a_lost_connection_that_a_rank_had_survived_excuses_no_error(tmp_path: Path) -> None:
    log = "WARNING s3: Connection reset by peer, retrying\nTraceback (most recent call last):\nValueError: bad value\n"
    rank(tmp_path, 0, "step 3", error="ValueError: bad value", stderr=log)
    rank(tmp_path, 1, "step 3", error="KeyError: 'second'")
    failures(tmp_path, rank0=1, rank1=1)
    assert str(failed(tmp_path)).startswith("rank 0 failed in 'step 3': ValueError: bad value")


def test_an_error_goes_before_the_agents_own_sigterm(tmp_path: Path) -> None:
    rank(tmp_path, 0, "step 3")
    rank(tmp_path, 1, "step 4", error="ValueError: seven is missing\nand more")
    failures(tmp_path, rank0=-15, rank1=1)
    found = failed(tmp_path)
    assert (CheckFailed, "rank 1 failed in 'step 4': ValueError: seven is missing") == (type(found), str(found))


def test_a_crash_says_where_it_was_and_what_its_words_mean(tmp_path: Path) -> None:
    rank(tmp_path, 0, "touching memory", stderr=CRASHED)
    failures(tmp_path, rank0=-11)
    said = str(failed(tmp_path, 1))
    assert 'it was in File "/opt/program.py", line 7 in touches' in said
    assert said.endswith("it printed last: nonsense before / Fatal Python error: Segmentation fault")


def test_errors_of_libraries_and_their_own_logs_are_explained(tmp_path: Path) -> None:
    error = "DistBackendError: NCCL error in: NCCLUtils.hpp:275, invalid usage\nLast error:\n"
    error += "Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 10"
    rank(tmp_path, 0, "forming the group", error=error)
    failures(tmp_path, rank0=1)
    assert "two ranks share one card (Duplicate GPU), which NCCL refuses" in str(failed(tmp_path, 1))
    rank(tmp_path, 0, "forming the group", error="DistBackendError: invalid usage")
    (tmp_path / "library.rank0.log").write_text("NCCL WARN Multiple Ranks are using the same GPU/Partition. Set X=1\n")
    assert "two ranks share one card (Duplicate GPU)" in str(failed(tmp_path, 1))


def test_an_error_counts_also_where_nobody_noted_the_end(tmp_path: Path) -> None:
    rank(tmp_path, 0, "step 3", error="RuntimeError: Connection closed by peer [127.0.0.1]:1738")
    rank(tmp_path, 1, "step 3", error="ValueError: seven is missing")
    assert Traces(tmp_path, 2).raised() == [1]
    assert str(who_failed(Traces(tmp_path, 2))) == "rank 1 failed in 'step 3': ValueError: seven is missing"


def test_the_rank_that_got_least_far_hung(tmp_path: Path) -> None:
    rank(tmp_path, 0, "step 1", "step 2", stderr=WAITING)
    rank(tmp_path, 1, "step 1", stderr=COMPUTING)
    assert who_hung(Traces(tmp_path, 2), 5.0) == (
        "rank 1 hung in 'step 1' (rank 0 in 'step 2'); all ranks were ended after 5 s; "
        'it was in File "/opt/program.py", line 9 in never_ends; rank 0 was in File "/opt/program.py", line 5 in train; '
        "it printed last: last words"
    )


@pytest.mark.parametrize(("stderr", "words"), [(COMPUTING, "line 9 in never_ends"), ("", "it left no stack")])
def test_among_equals_the_one_that_does_not_wait_hung(tmp_path: Path, stderr: str, words: str) -> None:
    rank(tmp_path, 0, "step 1", stderr=WAITING)
    rank(tmp_path, 1, "step 1", stderr=stderr)
    said = who_hung(Traces(tmp_path, 2), 5.0)
    assert said.startswith("rank 1 hung in 'step 1' (rank 0 in 'step 1')")
    assert words in said


def test_if_all_wait_all_hung(tmp_path: Path) -> None:
    for number in (0, 1):
        rank(tmp_path, number, "step 1", stderr=WAITING)
    assert who_hung(Traces(tmp_path, 2), 5.0).startswith("rank 0 and rank 1 hung in 'step 1'; all ranks")


def test_a_rank_that_ended_is_not_behind(tmp_path: Path) -> None:
    rank(tmp_path, 0, "step 1", "step 2", "step 3", stderr=WAITING)
    rank(tmp_path, 1, "step 1", LEAVING)
    assert who_hung(Traces(tmp_path, 2), 5.0).startswith("rank 0 hung in 'step 3' (rank 1 in 'leaving the group')")


def test_a_rank_that_hangs_in_leaving_is_not_the_one_that_has_answered(tmp_path: Path) -> None:
    rank(tmp_path, 0, "step 1", LEAVING, stderr=COMPUTING)
    rank(tmp_path, 1, "step 1", LEAVING, ended=True)
    assert who_hung(Traces(tmp_path, 2), 5.0).startswith(
        "rank 0 hung in 'leaving the group' (rank 1 in 'leaving the group')"
    )


WRAPPED = """\
Timeout (0:00:05)!
Thread 0x00007f02 (most recent call first):
  File "/opt/wrapper.py", line 3 in sleeps
  File "/opt/torch/distributed/distributed_c10d.py", line 3245 in all_reduce
  File "/opt/program.py", line 5 in train
"""
READING = """\
Timeout (0:00:05)!
Thread 0x00007f02 (most recent call first):
  File "/opt/program.py", line 8 in reads_the_loss
"""


SUM, SEND, WORLD = "all_reduce of 8 float32, SUM", "broadcast of 8 float32, root 0", "the world"
Noted = tuple[str, str]


def called(folder: Path, *calls: list[Noted], own_s: tuple[float, ...] = (1.0,) * 4) -> None:
    """Leave a journal for each rank: of each call its stream and words; a group's members are the digits in its name.

    `own_s`: what each rank does before each call, after which all wait for the slowest.
    """
    for number, (mine, seconds) in enumerate(zip(calls, own_s, strict=False)):
        numbers, lines = Counter[str](), []
        for at, (stream, words) in enumerate(mine):
            numbers[stream] += 1
            members = ", ".join(filter(str.isdigit, stream.rpartition(" of ")[2]))
            fields = (at, f"{at * max(own_s) + seconds:.3f}", stream, numbers[stream], words, f"train.py:{at}", members)
            lines.append("\t".join(map(str, fields)).ljust(200))
        blame.journal_path(folder, number).write_text("\n".join(lines))


def hung(folder: Path, *journals: list[Noted], waiting: tuple[int, ...] = (0, 1)) -> str:
    """Return who hung, of ranks that noted the same phases, of which some wait in a collective."""
    for number in range(len(journals)):
        rank(folder, number, "step 1", stderr=WAITING if number in waiting else COMPUTING)
    called(folder, *journals)
    return who_hung(Traces(folder, len(journals)), 5.0)


def test_a_hang_in_what_is_wrapped_around_a_collective_is_the_rank_that_did_not_call(tmp_path: Path) -> None:
    rank(tmp_path, 0, "step 1", stderr=READING)
    rank(tmp_path, 1, "step 1", stderr=WRAPPED)
    called(tmp_path, [(WORLD, SUM)] * 3, [(WORLD, SUM)] * 2)
    said = who_hung(Traces(tmp_path, 2), 5.0)
    assert said.startswith("rank 1 hung in 'step 1' (rank 0 in 'step 1'); ")
    assert said.endswith('; rank 0 was in File "/opt/program.py", line 8 in reads_the_loss')
    assert f"rank 1 did not call number 3 of the world, {SUM} (train.py:2), which rank 0 called" in said


def test_a_rank_that_waits_for_anothers_note_is_not_blamed(tmp_path: Path) -> None:
    note = '  File "/opt/stackproof/ranks/rank.py", line 92 in wait\n  File "/opt/stackproof/ranks/rank.py", line 99 in gather\n'
    rank(tmp_path, 0, "min-int64", stderr=COMPUTING)
    rank(tmp_path, 1, "min-int64", stderr=f"Timeout (0:00:05)!\nThread 0x00007f02 (most recent call first):\n{note}")
    said = who_hung(Traces(tmp_path, 2), 5.0)
    assert said.startswith(
        "rank 0 hung in 'min-int64' (rank 1 in 'min-int64'); all ranks were ended after 5 s; it was in File "
    )


def test_a_rank_in_a_collective_of_torchs_operators_waits_as_the_others_do(tmp_path: Path) -> None:
    head = "Thread 0x00007f02 (most recent call first):\n"
    door = '  File "/opt/torch/_ops.py", line 1350 in __call__\n'
    functional = '  File "/opt/torch/distributed/_functional_collectives.py", line 138 in wait_tensor\n'
    rank(tmp_path, 0, "step 1", stderr=COMPUTING.replace(head, head + door + functional))
    rank(tmp_path, 1, "step 1", stderr=WAITING)
    assert who_hung(Traces(tmp_path, 2), 5.0).startswith("rank 0 and rank 1 hung in 'step 1'; ")


def test_journals_go_before_phases(tmp_path: Path) -> None:
    rank(tmp_path, 0, "step 1", stderr=WAITING)
    rank(tmp_path, 1, "step 1", "step 2", stderr=COMPUTING)
    called(tmp_path, [(WORLD, SUM)] * 7, [(WORLD, SUM)] * 6)
    assert who_hung(Traces(tmp_path, 2), 5.0).startswith("rank 1 hung in 'step 2' (rank 0 in 'step 1'")


def test_of_many_ranks_those_that_never_called_are_named(tmp_path: Path) -> None:
    said = hung(tmp_path, *([(WORLD, SUM)] * count for count in (5, 4, 5)), waiting=(0, 2))
    assert said.startswith("rank 1 hung in 'step 1' (rank 0 in 'step 1', rank 2 in 'step 1')")


def test_where_most_ranks_ended_without_a_call_it_was_one_too_many(tmp_path: Path) -> None:
    for number in (0, 2):
        rank(tmp_path, number, "step 1", LEAVING, stderr=WAITING)
    rank(tmp_path, 1, "step 1", error="RuntimeError: Connection closed by peer")
    called(tmp_path, *([(WORLD, SUM)] * count for count in (4, 5, 4)))
    said = who_hung(Traces(tmp_path, 3), 5.0)
    assert said.startswith(
        f"rank 1 called number 5 of the world, {SUM} (train.py:4), and rank 0 and rank 2 ended without it; rank 1 hung"
    )
    assert "it had raised RuntimeError" in said


def test_the_first_call_that_a_rank_did_not_make_is_numbered_though_no_longer_kept(tmp_path: Path) -> None:
    for number in (0, 1):
        rank(tmp_path, number, FORMED, stderr=WAITING)
    called(tmp_path, [(WORLD, SUM)] * 30, [(WORLD, SUM)] * 4)
    path = blame.journal_path(tmp_path, 0)
    path.write_text("\n".join(path.read_text().splitlines()[10:]))
    said = f"rank 1 did not call number 5 of the world, which is no longer kept, nor number 11 of the world, {SUM} ("
    assert blame.differences(Traces(tmp_path, 2)).startswith(said)


def test_a_rank_that_called_nothing_at_all_is_behind(tmp_path: Path) -> None:
    for number in (0, 1):
        rank(tmp_path, number, FORMED, "step 1", LEAVING, stderr=WAITING)
    called(tmp_path, [(WORLD, SUM)], [])
    assert f"rank 1 did not call number 1 of the world, {SUM} (train.py:0), which rank 0 called" in blame.differences(
        Traces(tmp_path, 2)
    )


def test_a_rank_that_waits_in_the_forward_of_ddp_is_not_blamed_and_nobody_is_called_level(tmp_path: Path) -> None:
    forward = WAITING.replace("torch/distributed/distributed_c10d.py", "torch/nn/parallel/distributed.py")
    assert forward != WAITING
    rank(tmp_path, 0, "step 1", stderr=forward)
    rank(tmp_path, 1, "step 1", stderr=COMPUTING)
    called(tmp_path, [(WORLD, SUM)] * 4, [(WORLD, SUM)] * 4)
    said = who_hung(Traces(tmp_path, 2), 5.0)
    assert said.startswith("rank 1 hung in 'step 1'") and "none is behind" not in said


def test_a_rank_that_waits_is_not_accused_of_the_runs_ahead_of_others(tmp_path: Path) -> None:
    said = hung(tmp_path, [(WORLD, SUM)] * 20, [(WORLD, SUM)] * 5, waiting=(1,))
    assert said.startswith("rank 0 hung in 'step 1'")


def test_groups_that_wait_for_each_other_are_a_deadlock(tmp_path: Path) -> None:
    left, right = ("group 1 of ranks 0, 1", SUM), ("group 2 of ranks 0, 1", SUM)
    said = hung(tmp_path, [(WORLD, SUM), left], [(WORLD, SUM), right])
    assert said.startswith("rank 1 did not call number 1 of group 1 of ranks 0, 1, ")
    assert "rank 0 did not call number 1 of group 2 of ranks 0, 1, " in said
    assert "they wait for each other, which is a deadlock" in said


def test_a_member_that_never_called_in_its_group_is_behind(tmp_path: Path) -> None:
    said = hung(
        tmp_path, [(WORLD, SUM), ("group 1 of ranks 0, 2", SUM)], [(WORLD, SUM)], [(WORLD, SUM)], waiting=(0, 1)
    )
    assert said.startswith("rank 2 hung") and "rank 2 did not call number 1 of group 1 of ranks 0, 2" in said


def message(source: int, to: int, words: str) -> Noted:
    return f"the messages from rank {source} to rank {to} of {source}{to}", words


def test_two_that_wait_to_receive_are_a_deadlock(tmp_path: Path) -> None:
    said = hung(tmp_path, *[[(WORLD, SUM), message(other, 1 - other, "recv of 8 int64")] for other in (1, 0)])
    assert said.startswith("rank 1 did not send number 1 of the messages from rank 1 to rank 0")
    assert "rank 0 did not send number 1 of the messages from rank 0 to rank 1" in said
    assert "they wait for each other, which is a deadlock" in said


def test_a_message_and_what_receives_it_are_compared(tmp_path: Path) -> None:
    def said(*journals: list[Noted]) -> str:
        for number in range(len(journals)):
            rank(tmp_path, number, FORMED)
        called(tmp_path, *journals)
        return blame.differences(Traces(tmp_path, len(journals)))

    sent, to_all = message(0, 1, "isend of 8 int64"), (WORLD, SUM)
    assert said([sent, to_all], [to_all, message(0, 1, "recv of 8 int64")]) == ""
    assert "as number 1 of the messages from rank 0 to rank 1" in said([sent], [message(0, 1, "recv of 4 int64")])
    assert said([sent, to_all], [to_all]).startswith("rank 1 did not receive number 1 of the messages from rank 0 to ")
    anybodys = ("the messages from any rank to rank 1 of 01", "recv of 8 int64")
    assert said([sent], [anybodys]) == ""


# A rank left out what it calls in a group or as a message, and went on to what all call: both wait, and the others for one of them.
LEFT, RIGHT = ("group 1 of ranks 0, 1", SUM), ("group 2 of ranks 2, 3", SUM)


@pytest.mark.parametrize(
    ("journals", "words"),
    [
        (  # the others show what comes first
            [[LEFT], [(WORLD, SUM)], [RIGHT, (WORLD, SUM)], [RIGHT, (WORLD, SUM)]],
            "rank 1 did not call number 1 of group 1 of ranks 0, 1",
        ),
        (  # what the rank itself did before shows it
            [[LEFT, (WORLD, SUM)] * 2 + [LEFT], [LEFT, (WORLD, SUM)] * 2 + [(WORLD, SUM)]],
            "rank 1 did not call number 3 of group 1 of ranks 0, 1",
        ),
        (
            [[(WORLD, SUM)], [message(0, 1, "recv of 8 int64")], [(WORLD, SUM)]],
            "rank 0 did not send number 1 of the messages from rank 0 to rank 1",
        ),
    ],
)
def test_in_a_ring_the_rank_that_left_its_way_is_named_first(
    tmp_path: Path, journals: list[list[Noted]], words: str
) -> None:
    lines = dict.fromkeys(call for calls in journals for call in calls)
    for number in range(len(journals)):
        rank(tmp_path, number, "step 1", stderr=WAITING)
    called(tmp_path, *journals)
    for number, calls in enumerate(journals):  # each call has a line of the program
        path = blame.journal_path(tmp_path, number)
        where = {f"train.py:{at}\t": f"train.py:{[*lines].index(call) % 2}\t" for at, call in enumerate(calls)}
        path.write_text(
            "\n".join(
                line.replace(*pair) for line, pair in zip(path.read_text().split("\n"), where.items(), strict=True)
            )
        )
    said = who_hung(Traces(tmp_path, len(journals)), 5.0)
    who = words[:6]
    assert said.startswith(words) and f"; {who} hung in 'step 1' (" in said


def test_a_rank_in_a_group_is_not_blamed_for_the_one_that_it_waits_for(tmp_path: Path) -> None:
    journals = [[LEFT], [], [RIGHT, (WORLD, SUM)], [RIGHT, (WORLD, SUM)]]
    said = hung(tmp_path, *journals, waiting=(0, 2, 3))
    assert said.startswith("rank 1 hung in 'step 1'")
    failures(tmp_path, rank2=1)
    rank(tmp_path, 2, FORMED, error="RuntimeError: Timed out waiting 3000ms for recv operation to complete")
    rank(tmp_path, 1, FORMED)
    assert str(failed(tmp_path, 4)).startswith("rank 1 did not call number 1 of group 1 of ranks 0, 1")


@pytest.mark.parametrize(
    ("journals", "words"),
    [
        ([[SUM, SEND], [SEND, SUM]], f"rank 0 and rank 1 called different things as number 1 of the world: rank 0 {SUM}"),
        ([[SEND, SUM], [SEND, SEND], [SEND, SUM]], f"rank 1 called {SEND} (train.py:1) as number 2 of the world, where rank 0 and"),
        ([[SUM, SEND, SUM], [SUM, SUM]], f"rank 1 skipped number 2 of the world, {SEND} (train.py:1), which rank 0 called"),
    ],
)  # fmt: skip
def test_ranks_that_called_something_else_come_first(tmp_path: Path, journals: list[list[str]], words: str) -> None:
    said = hung(tmp_path, *([(WORLD, one) for one in mine] for mine in journals), waiting=(0, 1, 2))
    assert said.startswith(words)
    failures(tmp_path, rank0=-6)
    found = failed(tmp_path, len(journals))
    assert str(found).startswith(words) and "; rank 0 ended with signal SIGABRT in 'step 1'" in str(found)


def test_a_call_too_many_is_named_by_its_line_though_the_next_ones_are_alike(tmp_path: Path) -> None:
    called(tmp_path, *([(WORLD, SUM)] * count for count in (4, 5, 4)))
    for number in range(3):
        rank(tmp_path, number, "step 1", LEAVING)
        path, lines = blame.journal_path(tmp_path, number), ("5", "6", "5", "5", "5") if number == 1 else ("5",) * 4
        texts = zip(path.read_text().splitlines(), lines, strict=True)
        path.write_text("\n".join(re.sub(r"train.py:\d", f"train.py:{line}", text) for text, line in texts))
    said = f"rank 1 called number 2 of the world, {SUM} (train.py:6), which rank 0 and rank 2 did not call"
    assert blame.differences(Traces(tmp_path, 3)) == said


def test_a_message_to_a_wrong_rank_is_its_senders(tmp_path: Path) -> None:
    sent, wanted = message(0, 2, "send of 8 int64"), message(0, 1, "recv of 8 int64")
    said = hung(tmp_path, [sent], [wanted], [(WORLD, "barrier")], waiting=(0, 1, 2))
    assert said.startswith("rank 0 took rank 2 for rank 1; ") and "; rank 0 hung in 'step 1'" in said
    hangs = hung(tmp_path, [sent], [wanted], [], waiting=(0, 1))  # before it receives
    assert hangs.startswith("rank 2 hung in 'step 1'")


@pytest.mark.parametrize(
    ("count", "words"), [(4, "rank 1 called number 5 of the mess"), (5, "rank 2 did not receive number 5")]
)
def test_who_exchanged_another_number_of_messages_than_the_others_is_named(
    tmp_path: Path, count: int, words: str
) -> None:
    first, second = [message(0, 1, "send of 8 int64")] * count, [message(1, 2, "isend of 8 int64")] * 5
    called(tmp_path, first, [message(0, 1, "recv of 8 int64")] * count + second, [message(1, 2, "recv of 8 int64")] * 4)
    for number in range(3):
        rank(tmp_path, number, FORMED, *([] if number == 1 else [LEAVING]))
    assert blame.differences(Traces(tmp_path, 3)).startswith(words)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        ("TimeoutError: a step took more than 5 s", 1),
        ("AssertionError: why\nwhile it waited for other ranks", 1),
        ("", 3),
    ],
)
def test_a_programs_own_watchdog_is_not_what_it_waited_for(tmp_path: Path, error: str, code: int) -> None:
    rank(tmp_path, 0, FORMED, error=error)
    rank(tmp_path, 1, FORMED, "reading", stderr=COMPUTING)
    rank(tmp_path, 2, FORMED, stderr=WAITING)
    called(tmp_path, [(WORLD, SUM)], [], [(WORLD, SUM)])
    failures(tmp_path, rank0=code)
    said = str(failed(tmp_path, 3))
    assert said.startswith("rank 1 did not call number 1 of the world, ")
    assert "; what it waited for left neither an error nor a result: rank 1 in 'reading'" in said
    if error:  # it waited for a file
        called(tmp_path, [], [], [])
        assert str(failed(tmp_path, 3)).startswith(
            "rank 1 was in 'reading', File \"/opt/program.py\", line 9 in never_ends; rank 0 "
        )


def test_a_rank_that_skipped_a_collective_comes_before_the_connection_that_it_broke(tmp_path: Path) -> None:
    rank(tmp_path, 0, FORMED, "sum 3", error="RuntimeError: Connection closed by peer [127.0.0.1]:1738")
    rank(tmp_path, 1, FORMED, "sum 3", LEAVING, ended=True)
    called(tmp_path, [(WORLD, SUM)] * 3, [(WORLD, SUM)] * 2)
    failures(tmp_path, rank0=1)
    assert str(failed(tmp_path)).startswith("rank 1 did not call number 3 of the world, ")


def test_if_nobody_is_behind_that_is_said(tmp_path: Path) -> None:
    same = [(WORLD, SUM)] * 9
    assert "each rank had called 9 collectives, so none is behind" in hung(tmp_path, same, same)
    blame.journal_path(tmp_path, 1).write_text("{")
    assert "called" not in who_hung(Traces(tmp_path, 2), 5.0)


@pytest.mark.parametrize("rest", ["", "\0" * 700, "\n\n", "3\t0.1\tthe world", "one\t1.0\tthe world\t1\ta\tb\t"])
def test_a_journal_that_is_cut_loses_no_more_than_that(tmp_path: Path, rest: str) -> None:
    called(tmp_path, [(WORLD, SUM), ("group 1", "averaging")])
    path = blame.journal_path(tmp_path, 0)
    path.write_text(f"{path.read_text()}\n{rest}")
    assert ["all_reduce of 8 float32, SUM (train.py:0)", "averaging (train.py:1)"] == [
        str(call) for call in blame.journal(tmp_path, 0)
    ]
    assert blame.journal(tmp_path, 1) == []


def test_a_rank_for_which_others_wait_in_call_after_call_is_the_straggler(tmp_path: Path) -> None:
    called(tmp_path, *[[(WORLD, SUM)] * 10] * 3, own_s=(0.1, 0.6, 0.1))
    said = "rank 1 is the straggler: the others waited 4.5 s of 5.4 s for it, in 10 calls"
    assert blame.late(Traces(tmp_path, 3).journals()) == said
    called(tmp_path, *[[(WORLD, SUM)] * 10] * 3, own_s=(0.5, 0.6, 0.5))
    assert blame.late(Traces(tmp_path, 3).journals()) == ""


def test_one_slow_step_accuses_nobody(tmp_path: Path) -> None:
    called(tmp_path, *[[(WORLD, SUM)] * 10] * 2, own_s=(0.1, 0.1))
    path = blame.journal_path(tmp_path, 1)
    path.write_text(path.read_text().replace("\t0.500\t", "\t5.900\t"))
    assert blame.late(Traces(tmp_path, 2).journals()) == blame.late(Traces(tmp_path, 1).journals()) == ""


def test_what_is_left_is_found_by_the_mark(tmp_path: Path) -> None:
    assert Traces(tmp_path, 1).left() == []
    mark = processes.new_mark()
    (tmp_path / "mark").write_text(mark)
    with (tmp_path / "out").open("wb") as output:
        child = processes.start(["sleep", "60"], output, {}, mark)
    try:
        assert Traces(tmp_path, 1).left() == [child.pid]
    finally:
        processes.end_tree(mark, child)
    assert Traces(tmp_path, 1).left() == []


def test_no_phase_is_forgotten_however_many_there_are(tmp_path: Path) -> None:
    for number in (0, 1):
        phases = [f"collective number {step} of very many" for step in range(2000 - number)]
        rank(tmp_path, number, FORMED, *phases, stderr=WAITING)
    assert Traces(tmp_path, 2).formed()
    assert who_hung(Traces(tmp_path, 2), 5.0).startswith("rank 1 hung in 'collective number 1998")


def test_a_group_has_formed_once_every_rank_is_in(tmp_path: Path) -> None:
    rank(tmp_path, 0, FORMED)
    rank(tmp_path, 1)
    assert not Traces(tmp_path, 2).formed()
    (tmp_path / "rank1.phases").write_text(f"importing\n{FORMED}\n")
    assert Traces(tmp_path, 2).formed()


def test_a_log_is_the_librarys_own_file_and_the_ranks_output(tmp_path: Path) -> None:
    (tmp_path / "rank0.log").write_text("said out loud")
    (tmp_path / "library.rank0.log").write_text("written down")
    assert Traces(tmp_path, 1).library_said(0).split("\n") == ["written down", "said out loud"]

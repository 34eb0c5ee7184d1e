"""Rows of one launch: each is run and judged once, whatever ends the ranks, the launch, or the process that asks."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stackproof.ranks.rows import MOST_LAUNCHES, RowRunner
from stackproof.record.checks import CheckCrashed, CheckFailed, CheckHung, CheckInconclusive
from stackproof.record.outcomes import finished_rows, left_by, take_over_rows

NAMES = ["first", "second", "third", "fourth"]


def leave(folder: Path, rank: int, names: list[str]) -> None:
    lines: list[dict[str, Any]] = [{"row": "", "rows": NAMES, "implementation": "ProcessGroupGloo"}]
    lines += [{"row": name, "right": 3, "refusal": None} for name in names]
    (folder / f"rank{rank}.outcomes").write_text("".join(json.dumps(line) + "\n" for line in lines))


class Ranks:
    """Two ranks that get through all rows but these; what they then do is given."""

    def __init__(self, deadly: dict[str, Callable[[Path], Exception]]) -> None:
        self.deadly, self.launches = deadly, 0

    def __call__(self, arguments: dict[str, Any]) -> None:
        self.launches += 1
        folder, names = Path(arguments["outcomes"]), list(arguments["rows"])
        self.asked = names
        dies = next((name for name in names if name in self.deadly), None)
        for rank in (0, 1):
            leave(folder, rank, names[: names.index(dies)] if dies else names)
        if dies:
            raise self.deadly[dies](folder)


def trial(start: Callable[[dict[str, Any]], None], folder: Path) -> RowRunner:
    return RowRunner(start, list(NAMES), 2, folder)


def crash(folder: Path) -> Exception:
    return CheckCrashed("rank 1 ended with signal SIGSEGV")


def test_one_launch_answers_all_rows(tmp_path: Path) -> None:
    ranks = Ranks({})
    tried = trial(ranks, tmp_path)
    assert ranks.launches == 0
    assert [[one["right"] for one in tried.outcome(row)] for row in NAMES] == [[3, 3]] * 4
    assert ranks.launches == 1 and [one["implementation"] for one in tried.ranks] == ["ProcessGroupGloo"] * 2


def test_a_deadly_row_is_named_and_the_rest_goes_on(tmp_path: Path) -> None:
    ranks = Ranks({NAMES[1]: crash, NAMES[2]: crash})
    tried = trial(ranks, tmp_path)
    assert [len(tried.outcome(row)) for row in (NAMES[0], NAMES[3])] == [2, 2]
    for row in NAMES[1:3]:
        with pytest.raises(CheckCrashed, match="SIGSEGV"):
            tried.outcome(row)
    assert ranks.launches == 3


def test_a_row_that_hangs_is_a_hang_with_what_the_others_said(tmp_path: Path) -> None:
    def hang(folder: Path) -> Exception:
        with (folder / "rank0.outcomes").open("a") as stream:
            refusal = {"message": "RuntimeError: not for me", "case": None}
            stream.write(json.dumps({"row": NAMES[1], "refusal": refusal}) + "\n")
        return CheckHung("rank 1 hung in 'second'")

    tried = trial(Ranks({NAMES[1]: hang}), tmp_path)
    with pytest.raises(CheckHung, match="^rank 1 hung in 'second'; rank 0 said: RuntimeError: not for me$"):
        tried.outcome(NAMES[1])
    assert len(tried.outcome(NAMES[3])) == 2


def test_without_a_group_all_rows_say_why(tmp_path: Path) -> None:
    launched = []

    def start(arguments: dict[str, Any]) -> None:
        launched.append(arguments)
        raise CheckFailed("rank 0 failed in 'forming the group': RuntimeError: no interface")

    tried = trial(start, tmp_path)
    for row in NAMES:
        with pytest.raises(CheckFailed, match="no interface"):
            tried.outcome(row)
    assert len(launched) == 1


def test_launches_are_limited(tmp_path: Path) -> None:
    rows = [f"row-{number}" for number in range(MOST_LAUNCHES + 2)]
    ranks = Ranks(dict.fromkeys(rows, crash))
    tried = RowRunner(ranks, list(rows), 2, tmp_path)
    with pytest.raises(CheckInconclusive, match=f"was not reached: {MOST_LAUNCHES} launches ended before it"):
        tried.outcome(rows[-1])
    assert ranks.launches == MOST_LAUNCHES


def test_ranks_that_say_nothing_have_failed(tmp_path: Path) -> None:
    def start(arguments: dict[str, Any]) -> None:
        for rank in (0, 1):
            leave(Path(arguments["outcomes"]), rank, arguments["rows"][:1])

    tried = trial(start, tmp_path)
    assert len(tried.outcome(NAMES[0])) == 2
    with pytest.raises(CheckFailed, match="without an outcome for second"):
        tried.outcome(NAMES[1])


def test_a_line_that_was_cut_off_is_no_outcome(tmp_path: Path) -> None:
    leave(tmp_path, 0, NAMES[:2])
    path = tmp_path / "rank0.outcomes"
    path.write_text(path.read_text()[:-3])
    assert list(left_by(tmp_path, 0) or ()) == ["", NAMES[0]]
    assert left_by(tmp_path, 1) is None


def test_a_process_that_is_ended_loses_and_repeats_nothing(tmp_path: Path) -> None:
    class Ended(BaseException):
        pass

    def start(arguments: dict[str, Any]) -> None:
        for rank in (0, 1):
            leave(Path(arguments["outcomes"]), rank, arguments["rows"][: 3 - rank])
        raise Ended

    with pytest.raises(Ended):
        trial(start, tmp_path).outcome("first")
    ranks = Ranks({"fourth": crash})
    again = trial(ranks, tmp_path)
    assert [len(again.outcome(name)) for name in NAMES[:3]] == [2, 2, 2] and ranks.asked == ["third", "fourth"]
    with pytest.raises(CheckCrashed, match="SIGSEGV"):
        again.outcome("fourth")
    third = trial(start, tmp_path)  # what the second process saw is known to the third, which starts nothing
    with pytest.raises(CheckCrashed, match="SIGSEGV"):
        third.outcome("fourth")
    assert len(third.outcome("third")) == 2


def test_a_run_that_goes_on_takes_over_what_the_stopped_one_had(tmp_path: Path) -> None:
    before, after, place = tmp_path / "before", tmp_path / "after", "stage-0/worker-0/outcomes-gloo-2"
    (before / place / "0").mkdir(parents=True)
    for rank in (0, 1):
        leave(before / place / "0", rank, NAMES[: 3 - rank])
    assert (finished_rows(before), finished_rows(after)) == (2, 0)
    take_over_rows(before, after)
    ranks = Ranks({})
    runner = trial(ranks, after / place)
    assert [len(runner.outcome(name)) for name in NAMES] == [2] * 4 and ranks.asked == NAMES[2:]
    assert (finished_rows(before), finished_rows(after)) == (2, 4)


def test_a_later_process_blames_the_row_that_ended_its_launch(tmp_path: Path) -> None:
    first = trial(Ranks({"second": crash}), tmp_path)
    assert len(first.outcome("fourth")) == 2
    ranks = Ranks({})
    later = RowRunner(ranks, NAMES[2:], 2, tmp_path)  # what has a verdict is not asked again
    assert [len(later.outcome(name)) for name in NAMES[2:]] == [2, 2] and ranks.launches == 0


def test_a_launch_that_was_ended_before_its_ranks_spoke_is_made_again(tmp_path: Path) -> None:
    (tmp_path / "0").mkdir()
    launches = []

    def start(arguments: dict[str, Any]) -> None:
        launches.append(arguments)
        for rank in (0, 1):
            leave(Path(arguments["outcomes"]), rank, NAMES)

    for _ in range(2):  # the second time everything is there
        tried = RowRunner(start, [], 2, tmp_path)
        assert [len(tried.outcome(name)) for name in NAMES] == [2] * 4 and len(launches) == 1


def test_rows_that_only_the_ranks_know_are_announced(tmp_path: Path) -> None:
    def start(arguments: dict[str, Any]) -> None:
        rows = arguments["rows"] or NAMES
        for rank in (0, 1):
            leave(Path(arguments["outcomes"]), rank, rows[:2])
        if len(rows) > 1:
            raise CheckCrashed("rank 0 died in 'third'")

    tried = RowRunner(start, [], 2, tmp_path)
    assert len(tried.outcome("first")) == len(tried.outcome("fourth")) == 2
    with pytest.raises(CheckCrashed, match="in 'third'"):
        tried.outcome("third")


def test_a_death_after_the_last_row_is_told_by_the_last_row(tmp_path: Path) -> None:
    def start(arguments: dict[str, Any]) -> None:
        for rank in (0, 1):
            leave(Path(arguments["outcomes"]), rank, arguments["rows"])
        raise CheckCrashed("rank 1 ended with signal SIGABRT in 'leaving the group'")

    tried = trial(start, tmp_path)
    assert len(tried.outcome("third")) == 2
    with pytest.raises(
        CheckCrashed, match="every row had come to its end; as the ranks left, rank 1 ended with signal SIGABRT"
    ):
        tried.outcome("fourth")

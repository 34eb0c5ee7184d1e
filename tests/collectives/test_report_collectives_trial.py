"""Trials: a row that kills its ranks is named and costs one launch; the others keep their outcomes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stackproof.collectives.report import MOST_LAUNCHES, RowRunner, World, left_by, worlds
from stackproof.collectives.table import COUNTS, SHORT, Row
from stackproof.device.kinds import Accelerator, Host
from stackproof.ranks.launch import Arrangement
from stackproof.record.checks import CheckCrashed, CheckFailed, CheckHung, CheckInconclusive
from stackproof.stack import stacks

ROWS = [Row("all_reduce", "sum", dtype) for dtype in ("float32", "int32", "int64", "bool")]
NAMES = [row.name for row in ROWS]
CPU, CUDA, XPU = (stacks.load(name) for name in ("cpu", "cuda", "xpu"))


def leave(folder: Path, rank: int, names: list[str]) -> None:
    """Write what a rank leaves that got through these rows."""
    lines: list[dict[str, Any]] = [{"row": "", "backend": "gloo", "implementation": "ProcessGroupGloo"}]
    lines += [{"row": name, "right": 3, "refusal": None} for name in names]
    (folder / f"rank{rank}.outcomes").write_text("".join(json.dumps(line) + "\n" for line in lines))


class Ranks:
    """Two ranks that get through all rows but these; what they then do is given."""

    def __init__(self, deadly: dict[str, Callable[[Path], Exception]]) -> None:
        self.deadly, self.launches = deadly, 0

    def __call__(self, arguments: dict[str, Any]) -> None:
        """Launch."""
        self.launches += 1
        folder, names = Path(arguments["outcomes"]), list(arguments["rows"])
        dies = next((name for name in names if name in self.deadly), None)
        for rank in (0, 1):
            leave(folder, rank, names[: names.index(dies)] if dies else names)
        if dies:
            raise self.deadly[dies](folder)


def trial(start: Callable[[dict[str, Any]], None], folder: Path) -> RowRunner:
    """Return a trial of the four rows on two ranks."""
    return RowRunner(start, ROWS, World(Arrangement("gloo", (0, 0)), (1,), "cpu"), folder, 20.0)


def crash(folder: Path) -> Exception:
    """A rank dies."""
    return CheckCrashed("rank 1 ended with signal SIGSEGV")


def test_one_launch_answers_all_rows(tmp_path: Path) -> None:
    ranks = Ranks({})
    tried = trial(ranks, tmp_path)
    assert ranks.launches == 0
    assert [[one["right"] for one in tried.outcome(row)] for row in ROWS] == [[3, 3]] * 4
    assert ranks.launches == 1 and [one["implementation"] for one in tried.ranks] == ["ProcessGroupGloo"] * 2


def test_a_deadly_row_is_named_and_the_rest_goes_on(tmp_path: Path) -> None:
    ranks = Ranks({NAMES[1]: crash, NAMES[2]: crash})
    tried = trial(ranks, tmp_path)
    assert [len(tried.outcome(row)) for row in (ROWS[0], ROWS[3])] == [2, 2]
    for row in ROWS[1:3]:
        with pytest.raises(CheckCrashed, match="SIGSEGV"):
            tried.outcome(row)
    assert ranks.launches == 3


def test_a_row_that_hangs_is_a_hang_with_what_the_others_said(tmp_path: Path) -> None:
    def hang(folder: Path) -> Exception:
        (folder / "rank1.expired").write_text(NAMES[1])
        with (folder / "rank0.outcomes").open("a") as stream:
            refusal = {"said": "RuntimeError: not for me", "case": None}
            stream.write(json.dumps({"row": NAMES[1], "refusal": refusal}) + "\n")
        return CheckCrashed("rank 1 ended with exit status 1")

    tried = trial(Ranks({NAMES[1]: hang}), tmp_path)
    with pytest.raises(CheckHung) as failure:
        tried.outcome(ROWS[1])
    assert str(failure.value) == (
        "rank 1 did not come back from all_reduce-sum-int32 within 20 s; rank 0 said: RuntimeError: not for me"
    )
    assert len(tried.outcome(ROWS[3])) == 2


def test_without_a_group_all_rows_say_why(tmp_path: Path) -> None:
    launched = []

    def start(arguments: dict[str, Any]) -> None:
        launched.append(arguments)
        raise CheckFailed("rank 0 failed in 'forming the group': RuntimeError: no interface")

    tried = trial(start, tmp_path)
    for row in ROWS:
        with pytest.raises(CheckFailed, match="no interface"):
            tried.outcome(row)
    assert len(launched) == 1


def test_launches_are_limited(tmp_path: Path) -> None:
    rows = [Row("all_reduce", "sum", f"x{number}") for number in range(MOST_LAUNCHES + 2)]
    ranks = Ranks({row.name: crash for row in rows})
    tried = RowRunner(ranks, rows, World(Arrangement("gloo", (0, 0)), (1,), "cpu"), tmp_path, 20.0)
    with pytest.raises(CheckInconclusive, match=f"was not reached: {MOST_LAUNCHES} launches ended before it"):
        tried.outcome(rows[-1])
    assert ranks.launches == MOST_LAUNCHES


def test_ranks_that_say_nothing_have_failed(tmp_path: Path) -> None:
    def start(arguments: dict[str, Any]) -> None:
        for rank in (0, 1):
            leave(Path(arguments["outcomes"]), rank, arguments["rows"][:1])

    tried = trial(start, tmp_path)
    assert len(tried.outcome(ROWS[0])) == 2
    with pytest.raises(CheckFailed, match="without an outcome for all_reduce-sum-int32"):
        tried.outcome(ROWS[1])


def test_a_line_that_was_cut_off_is_no_outcome(tmp_path: Path) -> None:
    leave(tmp_path, 0, NAMES[:2])
    path = tmp_path / "rank0.outcomes"
    path.write_text(path.read_text()[:-3])
    assert list(left_by(tmp_path, 0) or ()) == ["", NAMES[0]]
    assert left_by(tmp_path, 1) is None


def sizes(found: list[World]) -> list[tuple[str, tuple[int, ...], bool]]:
    """Return backend, cards and whether tensors are the host's, of each world."""
    return [(world.arrangement.backend, world.arrangement.cards, world.arrangement.on_host) for world in found]


def test_ranks_share_a_cpu_in_even_and_odd_numbers() -> None:
    found = worlds(CPU, "gloo", [Host("cpu", 0)])
    assert sizes(found) == [("gloo", (0, 0), False), ("gloo", (0, 0, 0), False)]
    assert [world.counts for world in found] == [COUNTS, SHORT]


def test_ranks_that_need_cards_get_their_own() -> None:
    found = worlds(CUDA, "nccl", [Accelerator("cuda", number) for number in range(8)])
    assert [cards for _, cards, _ in sizes(found)] == [(0, 1), (0, 1, 2), tuple(range(8))]


def test_one_card_is_tried_alone_by_a_library_that_wants_cards() -> None:
    card = [Accelerator("cuda", 0)]
    assert sizes(worlds(CUDA, "nccl", card)) == [("nccl", (0,), False)]
    found = worlds(CUDA, "gloo", card)
    assert sizes(found) == [("gloo", (0, 0), False), ("gloo", (0, 0, 0), False)]
    assert "the ranks share cuda:0" in found[0].label


def test_a_library_that_takes_no_tensors_of_the_card_is_tried_on_the_hosts() -> None:
    found = worlds(XPU, "gloo", [Accelerator("xpu", 0), Accelerator("xpu", 1)])
    assert sizes(found) == [("gloo", (0, 0), True), ("gloo", (0, 0, 0), True)]
    assert "the host's" in found[0].label


def test_what_would_end_the_ranks_is_not_given_to_them() -> None:
    card, host = worlds(CUDA, "gloo", [Accelerator("cuda", 0)])[0], worlds(XPU, "gloo", [Accelerator("xpu", 0)])[0]
    send, coalesced = Row("send_recv", "copy", "float32"), Row("all_reduce_coalesced", "sum", "float32")
    assert (card.device, card.tries(send), card.tries(coalesced)) == ("cuda", False, True)
    assert (host.device, host.tries(send), host.lack(coalesced)) == ("cpu", True, None)

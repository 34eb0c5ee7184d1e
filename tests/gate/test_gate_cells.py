"""What a launch adds to the cells: a figure that the head lacks is missing, and one that nobody asked for is not."""

from __future__ import annotations

import pytest

from stackproof.gate import plan
from stackproof.gate.duel import Launch, Seen
from stackproof.gate.gate import BASE, HEAD, Board


@pytest.mark.parametrize(("counted", "missing"), [(True, ["gate/gemm::operators"]), (False, [])])
def test_only_what_was_asked_for_can_be_missing(counted: bool, missing: list[str]) -> None:
    """A stored base knows its counters in every launch; the head is asked for them in the first ones only."""
    board = Board(plan.load(), "cpu")
    sides = {BASE: Seen(counters={"operators": 3}), HEAD: Seen()}
    board.add(Launch(seen={"gemm": sides}, counted=counted), [])
    assert list(board.missing) == missing
    assert bool(board.counted) == counted

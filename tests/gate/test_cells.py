"""What a launch adds to the cells: a figure that the head lacks is missing, and one that nobody asked for is not."""

from __future__ import annotations

import pytest

from stackproof.gate import plan
from stackproof.gate.cells import BASE, HEAD, TIME, Cell, ComparedCells, Results
from stackproof.gate.interleave import Launch, Observed
from stackproof.gate.plan import Design


@pytest.mark.parametrize(("counted", "missing"), [(True, ["gate/gemm::operators"]), (False, [])])
def test_only_what_was_asked_for_can_be_missing(counted: bool, missing: list[str]) -> None:
    results = Results(plan.load(), "cpu")
    sides = {BASE: Observed(counters={"operators": 3}), HEAD: Observed()}
    results.add(Launch(seen={"gemm": sides}, counted=counted), [])
    assert list(results.missing) == missing
    assert bool(results.counted) == counted


def test_a_cell_that_cannot_see_asks_for_no_more_launches() -> None:
    design = Design()
    cells = ComparedCells()
    for name, ratios in {
        "loud": (0.2, -0.2, 0.1, -0.1),
        "quiet": (0.03, -0.02, 0.01, 0.02),
        "still": (0.0, 1e-4, 0.0, -1e-4),
    }.items():
        for ratio in ratios:
            cells.add(Cell(name, TIME, 0.05), ratio)
    cells.look(design)
    assert [cell.subject for cell in cells.open()] == ["quiet"]
    assert cells["gate/loud::time"].ruling is not None
    assert cells["gate/loud::time"].ruling.blind

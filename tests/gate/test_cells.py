"""What a launch adds to the cells: a figure that the head lacks is missing, and one that nobody asked for is not."""

from __future__ import annotations

import pytest

from stackproof.gate import plan
from stackproof.gate.cells import BASE, HEAD, Results
from stackproof.gate.interleave import Launch, Observed


@pytest.mark.parametrize(("counted", "missing"), [(True, ["gate/gemm::operators"]), (False, [])])
def test_only_what_was_asked_for_can_be_missing(counted: bool, missing: list[str]) -> None:
    """A stored base knows its counters in every launch; the head is asked for them in the first ones only."""
    results = Results(plan.load(), "cpu")
    sides = {BASE: Observed(counters={"operators": 3}), HEAD: Observed()}
    results.add(Launch(seen={"gemm": sides}, counted=counted), [])
    assert list(results.missing) == missing
    assert bool(results.counted) == counted

"""How operators end: which outcomes prove a stack, and which finding decides."""

from __future__ import annotations

import pytest

from stackproof.operators.compare import Outcome, SampleReport, smallest


@pytest.mark.parametrize("outcome", Outcome)
def test_only_what_ran_or_says_why_it_did_not_is_ok(outcome: Outcome) -> None:
    assert outcome.ok is (outcome not in (Outcome.FAILED, Outcome.ERROR, Outcome.NOT_RUN))


def test_the_worst_outcome_decides_and_then_the_smallest_sample() -> None:
    findings = [
        SampleReport(0, Outcome.FORM, "", "", 1),
        SampleReport(1, Outcome.FAILED, "", "", 9),
        SampleReport(2, Outcome.FAILED, "", "", 4),
        SampleReport(3, Outcome.FAILED, "", "", 4),
        SampleReport(4, Outcome.ERROR, "", "", 1),
    ]
    assert smallest(findings).sample == 2

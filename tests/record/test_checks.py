"""What a check may say."""

from __future__ import annotations

import pytest

from stackproof.device.numerics import Judgement, require_all
from stackproof.record.checks import CapabilityMissing, CheckFailed, CheckHung, CheckInconclusive, require
from stackproof.record.records import Verdict

GOOD, CLOSE, BAD = (
    Judgement(True, 1e-7, 1e-6, 0.0),
    Judgement(True, 9e-7, 1e-6, 0.0),
    Judgement(False, 1e-2, 1e-6, 1e-7),
)


def test_each_end_has_its_verdict() -> None:
    assert (Verdict.FAILED, Verdict.HUNG, Verdict.INCONCLUSIVE, Verdict.SKIPPED) == (
        CheckFailed.verdict,
        CheckHung.verdict,
        CheckInconclusive.verdict,
        CapabilityMissing.verdict,
    )


def test_require_fails_with_its_sentence() -> None:
    require(True, "never said")
    with pytest.raises(CheckFailed, match="^the loss is exactly 0$"):
        require(False, "the loss is exactly 0")
    for always in ("False", float("nan"), (False, "the loss is exactly 0")):
        with pytest.raises(TypeError, match="where it takes a truth value"):
            require(always, "never seen")  # type: ignore[arg-type]


def test_the_worst_of_those_within_bounds_is_returned() -> None:
    assert CLOSE is require_all({"a": GOOD, "b": CLOSE}, "gradient")


def test_the_worst_of_those_out_of_bounds_is_named() -> None:
    with pytest.raises(CheckFailed) as failure:
        require_all({"a": GOOD, "b": BAD, "c": Judgement(False, 2e-6, 1e-6, 0.0)}, "gradient")
    assert "gradient 'b': error 0.01 against float64 exceeds the bound 1e-06" in str(failure.value)
    assert "2 of 3 out of bounds" in str(failure.value)


def test_nothing_compared_is_a_failure() -> None:
    with pytest.raises(CheckFailed, match="nothing was compared"):
        require_all({}, "gradient")

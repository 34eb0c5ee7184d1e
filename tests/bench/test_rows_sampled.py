"""What a measurement gives: other units follow from what a run is worth."""

from __future__ import annotations

import math
from typing import Any

import pytest

from stackproof.bench.rows import Sampled


def sampled(**changes: Any) -> Sampled:
    """Return a measurement of a step of 0.1 s that is four samples and fifty tokens."""
    values: dict[str, Any] = {
        "subject": "training", "version": "1", "preset": "tiny", "dtype": "float32", "world_size": 1, "unit": "s/sample",
        "samples": (0.025,) * 9, "worth": {"iteration": 1.0, "sample": 4.0, "token": 50.0}, "verified": True, "reason": "right",
    }  # fmt: skip
    return Sampled(**{**values, **changes})


def test_other_units_are_the_same_seconds() -> None:
    found = sampled()
    assert found.seconds_per("s/sample") == found.samples
    assert found.seconds_per("s/iteration")[0] == pytest.approx(0.1)
    assert found.seconds_per("s/token")[0] == pytest.approx(0.002)
    assert found.per_run == pytest.approx(0.1)


def test_its_own_unit_comes_first() -> None:
    assert sampled().units == ("s/sample", "s/iteration", "s/token")


def test_plain_seconds_are_one_run() -> None:
    found = sampled(unit="s", samples=(2.0, 3.0, 2.5), worth={"iteration": 1.0})
    assert found.seconds_per("s/iteration") == (2.0, 3.0, 2.5)
    assert found.median == 2.5


def test_without_samples_there_is_no_figure() -> None:
    found = sampled(samples=(), verified=False, reason="the gradient is wrong")
    assert math.isnan(found.median)
    assert math.isnan(found.per_run)
    assert not found.noise <= 1

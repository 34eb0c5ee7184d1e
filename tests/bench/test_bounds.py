"""A rate is held against the best product and copy of the same run: by how coarse its arithmetic is, by what it moves."""

from __future__ import annotations

import pytest

from stackproof.bench.bounds import OwnBounds
from stackproof.bench.rows import Sampled
from stackproof.record.checks import CheckFailed


def row(name: str, thing: str, rate: float, arithmetic: str = "", **facts: str) -> Sampled:
    """A row that does one of a thing a run, at a rate a second."""
    unit = f"s/{thing}"
    worth = {"iteration": 1.0, thing: 1.0}
    return Sampled(
        name, "1", "tiny", arithmetic, 1, unit, (1 / rate,) * 5, worth, True, "", arithmetic=arithmetic, facts=facts
    )


@pytest.fixture
def bounds() -> OwnBounds:
    """Products of float32 at 1 TFLOP/s and of bfloat16 at half of it, copies at 10 GB/s."""
    own = OwnBounds()
    own.note(row("gemm-float32", "TFLOP", 1.0, "float32"), "gemm")
    own.note(row("gemm-bfloat16", "TFLOP", 0.5, "bfloat16"), "gemm")
    own.note(row("copy-within", "GB", 10.0, memory="device"), "copy")
    return own


def test_work_below_its_bound_tells_its_share(bounds: OwnBounds) -> None:
    assert bounds.hold(row("training", "TFLOP", 0.5, "float32")) == {"of the same run's gemm-float32": 0.5}
    assert bounds.hold(row("attention", "TFLOP", 1.5, "bfloat16")) == {"of the same run's gemm-float32": 1.5}


def test_work_above_its_bound_fails(bounds: OwnBounds) -> None:
    with pytest.raises(
        CheckFailed, match=r"it would run at 3 TFLOP/s, 3.0 times what gemm-float32 did at best in the same run \(1\)"
    ):
        bounds.hold(row("training", "TFLOP", 3.0, "float32"))
    with pytest.raises(CheckFailed, match="25 GB/s, 2.5 times what copy-within did"):
        bounds.hold(row("all-reduce", "GB over a link", 25.0))


def test_where_no_row_bounds_it_nothing_is_said(bounds: OwnBounds) -> None:
    assert bounds.hold(row("training", "TFLOP", 9.0, "tf32")) == {}
    assert OwnBounds().hold(row("training", "TFLOP", 9.0, "float32")) == {}

"""A measurement as rows of a record: one with version and figures, others for the units that people read."""

from __future__ import annotations

import math
from typing import Any

import pytest

from stackproof.bench import rows
from stackproof.bench.rows import OwnBounds, Sampled, figures, measurements
from stackproof.record.checks import CheckFailed


def test_one_row_has_the_history() -> None:
    rows = measurements(
        sampled(worth={"iteration": 1.0, "sample": 4.0, "token": 50.0, "TFLOP": 0.5}), "training", "AMD EPYC"
    )
    assert [(row.unit, row.version) for row in rows] == [
        ("s/sample", "1"),
        ("s/token", ""),
        ("s/TFLOP", ""),
        ("s/iteration", ""),
    ]
    assert [row.value for row in rows] == pytest.approx([0.025, 0.002, 0.2, 0.1])
    assert all(len(row.samples) == 9 for row in rows)
    assert rows[0].figures["one run, sample"] == 4.0
    assert rows[1].figures == {}


def test_kernels_have_no_row_for_iterations() -> None:
    rows = measurements(sampled(unit="s/TFLOP", worth={"iteration": 1.0, "TFLOP": 0.5}), "gemm", "AMD EPYC")
    assert [row.unit for row in rows] == ["s/TFLOP"]


def test_the_share_of_the_peak_is_told_where_it_is_known() -> None:
    one = sampled(
        unit="s/TFLOP",
        samples=(0.002,) * 9,
        worth={"iteration": 1.0, "TFLOP": 0.5},
        arithmetic="bfloat16",
        dtype="bfloat16",
    )
    found = figures(one, "NVIDIA H200")
    assert found["of_peak"] == pytest.approx(500 / 989.4)
    assert found["peak_tflops"] == 989.4
    assert str(found["peak_source"]).startswith("https://")
    assert "of_peak" not in figures(one, "AMD EPYC")


def test_copies_within_the_device_are_held_against_its_memory() -> None:
    values = {"unit": "s/GB", "samples": (1 / 2400,) * 9, "worth": {"iteration": 1.0, "GB": 2.0}}
    assert figures(sampled(**values, facts={"memory": "device"}), "NVIDIA H200")["of_peak"] == pytest.approx(0.5)
    assert "of_peak" not in figures(sampled(**values, facts={"memory": "link"}), "NVIDIA H200")


def test_what_was_not_verified_has_no_row() -> None:
    assert measurements(sampled(samples=()), "training", "AMD EPYC") == []


def sampled(**changes: Any) -> Sampled:
    """Return a measurement of a step of 0.1 s that is four samples and fifty tokens."""
    values: dict[str, Any] = {
        "subject": "training", "version": "1", "preset": "tiny", "dtype": "float32", "world_size": 1, "unit": "s/sample",
        "samples": (0.025,) * 9, "worth": {"iteration": 1.0, "sample": 4.0, "token": 50.0}, "reason": "right",
    }  # fmt: skip
    return Sampled(**{**values, **changes})


def test_other_units_are_the_same_seconds() -> None:
    found = sampled()
    assert found.seconds_per("s/sample") == found.samples
    assert found.seconds_per("s/iteration")[0] == pytest.approx(0.1)
    assert found.seconds_per("s/token")[0] == pytest.approx(0.002)
    assert found.per_run == pytest.approx(0.1)


def test_plain_seconds_are_one_run() -> None:
    found = sampled(unit="s", samples=(2.0, 3.0, 2.5), worth={"iteration": 1.0})
    assert found.seconds_per("s/iteration") == (2.0, 3.0, 2.5)
    assert found.median == 2.5


def test_without_samples_there_is_no_figure() -> None:
    found = sampled(samples=(), reason="the gradient is wrong")
    assert math.isnan(found.median)
    assert math.isnan(found.per_run)
    assert not found.noise <= 1


def test_every_device_has_a_source_and_figures() -> None:
    for row in rows.peaks():
        assert row.source.startswith("https://")
        assert row.bandwidth > 100
        assert row.tflops


@pytest.mark.parametrize(
    ("name", "arithmetic", "expected"),
    [
        ("NVIDIA H200", "bfloat16", 989.4),
        ("NVIDIA L40S", "tf32", 183.0),
        ("Intel(R) Graphics [0xe211]", "float32", 12.29),
    ],
)
def test_devices_are_found_by_torchs_name(name: str, arithmetic: str, expected: float) -> None:
    found = rows.find(name)
    assert found is not None
    assert found.tflops[arithmetic] == expected


@pytest.mark.parametrize("name", ["NVIDIA H200 NVL", "K100_AI", "AMD EPYC", ""])
def test_an_unknown_device_has_no_peak(name: str) -> None:
    assert rows.find(name) is None


def row(name: str, thing: str, rate: float, arithmetic: str = "", **facts: str) -> Sampled:
    unit = f"s/{thing}"
    worth = {"iteration": 1.0, thing: 1.0}
    return Sampled(
        name, "1", "tiny", arithmetic, 1, unit, (1 / rate,) * 5, worth, "", arithmetic=arithmetic, facts=facts
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
    for name, rate, arithmetic in (("training", 0.5, "float32"), ("attention", 1.5, "bfloat16")):
        found = bounds.compared(row(name, "TFLOP", rate, arithmetic))
        assert (found.facts, found.notes) == ({"of the same run's gemm-float32": rate}, ())


def test_work_far_below_its_bound_says_so(bounds: OwnBounds) -> None:
    (note,) = bounds.compared(row("training", "TFLOP", 4e-4, "float32")).notes
    assert note.startswith("far below: 0.04% of what gemm-float32 did at best")
    assert bounds.compared(row("all-reduce", "GB over a link", 1e-4)).notes == ()


def test_work_above_its_bound_fails(bounds: OwnBounds) -> None:
    with pytest.raises(
        CheckFailed, match=r"it would run at 3 TFLOP/s, 3.0 times what gemm-float32 did at best in the same run \(1\)"
    ):
        bounds.compared(row("training", "TFLOP", 3.0, "float32"))
    with pytest.raises(CheckFailed, match="25 GB/s, 2.5 times what copy-within did"):
        bounds.compared(row("all-reduce", "GB over a link", 25.0))


def test_where_no_row_bounds_it_nothing_is_said(bounds: OwnBounds) -> None:
    assert bounds.compared(row("training", "TFLOP", 9.0, "tf32")).facts == {}
    assert OwnBounds().compared(row("training", "TFLOP", 9.0, "float32")).facts == {}

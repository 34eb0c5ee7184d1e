"""A measurement as rows of a record: one with version and figures, others for the units that people read."""

from __future__ import annotations

import pytest

from stackproof.bench.rows import figures, measurements

from .test_rows_sampled import sampled


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
    assert measurements(sampled(samples=(), verified=False), "training", "AMD EPYC") == []

"""Figures in a terminal: rates with the right direction, shares of what is possible, references beside them, text as text."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from stackproof.bench.rows import measurements
from stackproof.record import console as picturing
from stackproof.record import outline
from stackproof.record.records import Measurement, Record, Verdict

from ..bench.test_rows import sampled

STARTED = "2026-01-02T03:04:05+00:00"


def product(tflops: float, subject: str = "gemm-bfloat16", metric: str = "gemm", **changes: Any) -> list[Measurement]:
    """Return the rows of work that reaches so many TFLOP/s in bfloat16 on an H200."""
    values = {
        "subject": subject, "unit": "s/TFLOP", "samples": tuple(1 / tflops * (1 + n / 100) for n in range(-10, 11)),
        "worth": {"iteration": 1.0, "TFLOP": 1.0}, "arithmetic": "bfloat16", "dtype": "bfloat16", **changes,
    }  # fmt: skip
    return measurements(sampled(**values), metric, "NVIDIA H200")


def shown(rows: list[Measurement], width: int = 200, encoding: str = "utf-8") -> str:
    """Return what a terminal of this encoding gets."""
    out = io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="backslashreplace")
    console = Console(file=out, width=width, color_system=None, highlight=False)
    record = Record("bench", "cuda", STARTED, 1.0, Verdict.PASSED, measurements=rows)
    assert picturing.applies(record)
    outline.show(picturing.figures(record, console), console)
    out.flush()
    return out.buffer.getvalue().decode(encoding)


def test_shares_of_peak_and_of_ceiling() -> None:
    said = shown(product(791.52) + product(395.76, "attention", "attention"))
    assert "791.52 TFLOP/s" in said
    assert "80% " in said
    assert "40% " in said
    assert "50% " in said


def test_faster_is_a_higher_figure() -> None:
    assert "100.00 TFLOP/s" in shown(product(100.0))
    assert "200.00 TFLOP/s" in shown(product(200.0))


def test_all_units_of_a_subject_stand_in_one_row() -> None:
    said = shown(measurements(sampled(), "training", "AMD EPYC"))
    assert said.count("training") == 1
    for rate in ("40.00 samples/s", "500.00 tokens/s", "10.00 it/s"):
        assert rate in said


def test_what_the_first_users_measured_stands_beside() -> None:
    full = sampled(subject="training-qwen3-0.6b-lora", preset="full")
    assert "5.88 samples/s (2 x Intel Arc Pro B60)" in shown(measurements(full, "training", "AMD EPYC"))
    tiny = sampled(subject="training-qwen3-0.6b-lora")
    assert "Arc Pro" not in shown(measurements(tiny, "training", "AMD EPYC"))


def test_notes_stand_below() -> None:
    said = shown(product(500.0, notes=("throttled: software power cap",)))
    assert "gemm-bfloat16: throttled: software power cap" in said


def test_names_cannot_steer_the_terminal() -> None:
    rows = product(500.0, subject="[red]x[/red]\x1b[2J")
    said = shown(rows)
    assert "[red]x[/red]" in said
    assert "\x1b" not in said


def test_a_plain_terminal_gets_plain_bars() -> None:
    said = shown(product(791.52), encoding="latin-1")
    assert "█" not in said
    assert "\\u" not in said
    assert "@" in said


@pytest.mark.parametrize("count", [0, 1, 9])
def test_few_samples_have_no_shape(count: int) -> None:
    assert picturing.sparkline([1.0] * count) == ""


def test_a_sparkline_shows_two_modes() -> None:
    line = picturing.sparkline([1.0] * 50 + [2.0] * 48 + [500.0])
    assert len(line) == 10
    assert line[0] == "█"
    assert line[-1] in "▇█"
    assert set(line[1:-1]) == {" "}

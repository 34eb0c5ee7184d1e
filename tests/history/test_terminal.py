"""The terminal: a row for each series as rates, bars, flags, and no control characters from other machines."""

from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console

from stackproof.history import terminal
from stackproof.history.timeline import entries, histories
from stackproof.record.records import Record

from . import making


def shown(*records: Record, problems: tuple[str, ...] = ()) -> str:
    console = Console(file=io.StringIO(), width=200, highlight=False)
    found = histories(entries({Path(str(number)): one for number, one in enumerate(records)}))
    terminal.show(found, problems, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_series_is_a_row_of_rates() -> None:
    slow = making.with_facts(making.record(1, making.figure(2.0, samples=[2.0] * 9)), making.NEW_DRIVER)
    text = shown(making.record(0, making.figure(1.0, samples=[1.0] * 9)), slow)
    assert "0.5 TFLOP/s" in text
    assert "-50.0%" in text
    assert "█▁" in text
    assert "worse  gemm-float32 (tiny): 1.00 TFLOP/s -> 0.5 TFLOP/s; driver: nvidia-smi: 580.65.06" in text


def test_reference_figures_are_shown() -> None:
    row = making.figure(0.2, workload="training-yolov8x", preset="full", unit="s/sample")
    assert "0.294 it/s on 1 x Intel Arc Pro B60" in shown(making.record(0, row))


def test_other_machines_do_not_steer_this_terminal() -> None:
    text = shown(making.record(0, host="\x1b[31mred", commit="\x07"), problems=("\x1b]0;title\x07",))
    assert "\x1b" not in text
    assert "\\x1b[31mred" in text


def test_nothing_yet_is_said() -> None:
    assert "there are no figures yet" in shown()


def test_bars_make_no_mountain_of_noise() -> None:
    assert set(terminal.bars([1.0, 1.001, 0.999])) <= set("▄▅")
    assert terminal.bars([1.0]) == terminal.bars([1.0, 1.0])[0]
    assert terminal.bars([1.0, 2.0, 1.5])[0] == "▁"
    assert terminal.bars([1.0, 2.0, 1.5])[1] == "█"

"""The page of a run says what its terminal says, for every verdict, and holds nobody's markup."""

from __future__ import annotations

import html
import io
import re
from pathlib import Path

import pytest
from rich.console import Console

from stackproof.record import console, page
from stackproof.record.records import Check, Measurement, Record, Verdict, overall


def _record(verdict: Verdict, reason: str = "because it is so") -> Record:
    checks = [Check("smoke/bringup::devices", Verdict.PASSED, "cpu: Some CPU", 0.1)]
    checks.append(Check("smoke/workloads::float32[yolov8n]", verdict, reason, 1.0, {"error": 1.0}))
    row = Measurement("yolov8n", "tiny", "float32", 1, "training", "s/sample", 0.5, [0.5], "indicative (5 steps)")
    made = Record("smoke", "cpu", "2026-01-02T03:04:05+00:00", 12.0, overall(check.verdict for check in checks))
    made.checks, made.measurements = checks, [row]
    made.provenance |= {"torch": "2.15.0", "pinned": False}
    return made


def _words(text: str) -> str:
    return " ".join(html.unescape(re.sub(r"\\(.)", r"\1", text)).split())


@pytest.mark.parametrize("verdict", list(Verdict))
def test_the_page_and_the_terminal_say_the_same(verdict: Verdict) -> None:
    record = _record(verdict)
    terminal = Console(width=300, record=True, file=io.StringIO())
    console.show(record, Path("record.json"), terminal)
    said, told = _words(terminal.export_text()), _words(page.markdown(record))
    (line,) = [row for row in page.markdown(record).splitlines() if row.startswith("### ")]
    assert _words(line).removeprefix("### stackproof smoke: ") in said
    if verdict.exit_code:
        assert told.index("smoke/workloads::float32[yolov8n]") < told.index("<details>")
        assert "because it is so" in told and "because it is so" in said
    assert "2.00 samples/s" in told and "2.00 samples/s" in said
    assert "indicative (5 steps)" in told


def test_what_came_from_outside_is_text() -> None:
    record = _record(Verdict.FAILED, "<img src=x> | @team [x](y) \x1b[31m")
    record.provenance["host"] = "<b>"
    text = page.markdown(record)
    assert (
        "<img" not in text and "<b>" not in text and "@team" not in text and "[x](y)" not in text and "\x1b" not in text
    )


@pytest.mark.parametrize("width", [40, 80, 120])
def test_no_width_breaks_a_name(width: int) -> None:
    record = _record(Verdict.FAILED)
    record.checks[1].id = "smoke/workloads::float32[training-qwen3-0.6b-lora-2-ranks]"
    record.measurements[0].workload = "training-qwen3-0.6b-lora-2-ranks"
    terminal = Console(width=width, record=True, file=io.StringIO())
    console.show(record, Path("record.json"), terminal)
    said = terminal.export_text()
    assert record.checks[1].id in said and "training-qwen3-0.6b-lora-2-ranks training" in said

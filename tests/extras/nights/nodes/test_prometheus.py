"""Prometheus's text format: every line parses, no series stands twice, and labels are text."""

from __future__ import annotations

import re
from pathlib import Path

from stackproof.extras.nights.nodes import prometheus, reading
from stackproof.record.records import Verdict

from .making import look, run

LABEL = r'[a-z_]+="(?:[^"\\\n]|\\["\\n])*"'
SAMPLE = re.compile(rf"(stackproof_[a-z_]+)\{{({LABEL}(?:,{LABEL})*)\}} (-?\d+(?:\.\d+)?(?:e-?\d+)?)")


def parsed(text: str) -> dict[str, float]:
    """Read the format strictly: help, type, then samples of that name; return samples by series."""
    found: dict[str, float] = {}
    name = ""
    for line in text.splitlines():
        if line.startswith("# "):
            _, word, name, *_ = line.split(" ")
            assert word in ("HELP", "TYPE")
            continue
        matched = SAMPLE.fullmatch(line)
        assert matched and matched[1] == name, line
        series = f"{name}{{{matched[2]}}}"
        assert series not in found
        found[series] = float(matched[3])
    assert text.endswith("\n")
    return found


def test_figures_of_a_run_and_of_the_doctor(tmp_path: Path) -> None:
    run(tmp_path, verdict=Verdict.FAILED)
    look(tmp_path, "gpu1", "problem", "problem", "note")
    found = parsed(prometheus.text(reading.gather([tmp_path])))
    of = 'node="gpu1",stack="cpu",verb="smoke",rehearsed="false"'
    assert found[f"stackproof_run_passed{{{of}}}"] == 0
    assert found[f"stackproof_run_exit_code{{{of}}}"] == 1
    assert found[f'stackproof_run_checks{{{of},verdict="passed"}}'] == 2
    assert found['stackproof_doctor_findings{node="gpu1",level="problem"}'] == 2
    assert found[f"stackproof_run_timestamp_seconds{{{of}}}"] == 1772600767
    (rate,) = [value for name, value in found.items() if name.startswith("stackproof_measurement")]
    assert rate == 12.5


def test_labels_are_cleaned(tmp_path: Path) -> None:
    run(tmp_path, node='a"b\\c\nd\x1b[31m\u202e' + "x" * 5000)
    found = parsed(prometheus.text(reading.gather([tmp_path])))
    assert all("\x1b" not in name and "\u202e" not in name and len(name) < 1000 for name in found)
    assert any('node="a\\"b\\\\c' in name for name in found)


def test_what_is_no_number_is_left_out(tmp_path: Path) -> None:
    run(tmp_path, value=float("nan"))
    look(tmp_path, "gpu1", looked="yesterday")
    text = prometheus.text(reading.gather([tmp_path]))
    assert parsed(text)
    assert "stackproof_measurement" not in text and "stackproof_doctor_timestamp" not in text

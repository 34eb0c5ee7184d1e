"""Terminal, Markdown, JUnit and JSON of one record say the same, whatever its verdict."""

from __future__ import annotations

import html
import io
import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from stackproof.gate import report
from stackproof.gate.gate import compared
from stackproof.record import reading, records, writer
from stackproof.record.records import CellWord, Record, Verdict, overall

from .standins import SUBJECTS, Sides, judged

_LOST = "head: it ended in 'block' with signal SIGSEGV"
_SIDES: dict[str, tuple[Sides, dict[str, Any]]] = {
    "the same": (Sides(), {}),
    "slower": (Sides(slower=0.08), {}),
    "an operator more": (Sides(operators=11), {}),
    "changed": (Sides(loss=2.5), {}),
    "changed and accepted": (Sides(loss=2.5), {"accept_changed": True}),
    "crashed": (Sides(lost={"lora": ("head", Verdict.CRASHED, _LOST)}), {}),
    "hung": (Sides(lost={"lora": ("head", Verdict.HUNG, _LOST)}), {}),
    "wrong": (Sides(lost={"lora": ("head", Verdict.FAILED, "head: a gradient is wrong")}), {}),
    "skipped by rule": (Sides(lost={"lora": ("both", Verdict.SKIPPED, "a rule")}), {}),
    "nothing ran": (Sides(lost=dict.fromkeys(SUBJECTS, ("both", Verdict.SKIPPED, "a rule"))), {}),
    "blind": (Sides(noise=0.8), {}),
    "blind alone": (Sides(noise=0.8, exact=False), {}),
    "too few launches": (Sides(), {"minutes": 0.0}),
}
_VERDICTS = {f"alone: {verdict.value}": verdict for verdict in Verdict}


@pytest.fixture(params=[*_SIDES, *_VERDICTS])
def record(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Record:
    """A record of a gate: of each stand-in, and of a single cell with each verdict there is."""
    if request.param in _SIDES:
        sides, options = _SIDES[request.param]
        return judged(
            Sides(sides.slower, sides.memory, sides.operators, **sides.rest), monkeypatch, tmp_path, **options
        )
    check = compared("yolov8n-training", "runs", _VERDICTS[request.param], "for a reason")
    made = Record("gate", "cpu", "2026-01-01T00:00:00.000+00:00", verdict=overall([check.verdict]), checks=[check])
    made.provenance |= {"base": "main", "head": "x", "method": "m"}
    return made


def _terminal(record: Record, width: int) -> str:
    console = Console(width=width, record=True, file=io.StringIO())
    report.show(record, console)
    return console.export_text()


def _as_words(markdown: str) -> str:
    return html.unescape(re.sub(r"\\(.)", r"\1", markdown)).replace("@\u200b", "@")


def test_all_four_say_the_same(record: Record, tmp_path: Path) -> None:
    terminal, page, suite = (
        _terminal(record, 150),
        _as_words(report.markdown(record)),
        ET.fromstring(writer.junit(record)),
    )
    first = terminal.splitlines()[0]
    assert page.splitlines()[0] == f"### stackproof gate: {first}"
    words = " ".join(page.split())
    for check in record.checks:
        if check.verdict.exit_code:
            assert report.cell_name(check) in words.partition("<details>")[0]
            assert report.word(check) in first
            assert suite.find(f"testcase[@name='{check.id}']") is not None
    records.write(record, tmp_path / "r.json")
    assert reading.read(tmp_path / "r.json").verdict is record.verdict


def test_junit_fails_what_must_not_be_merged_and_errs_where_nobody_can_say(record: Record) -> None:
    suite = ET.fromstring(writer.junit(record))
    failures, errors = (int(suite.attrib[name]) for name in ("failures", "errors"))
    first = report.headline(record).text
    if first.startswith(("DO NOT MERGE", "CHANGED")):
        assert failures > 0
    elif record.verdict.exit_code == 0:
        assert (failures, errors) == (0, 0)
    else:
        assert failures == 0 and errors > 0
    assert len(suite.findall("testcase/failure")) == failures and len(suite.findall("testcase/error")) == errors


def test_the_page_claims_sameness_only_of_what_is_the_same(record: Record) -> None:
    page = report.markdown(record)
    outcomes = {check.outcome for check in report.cells(record)}
    if "Whatever could be compared is the same" in page:
        assert CellWord.SAME in outcomes and record.verdict is Verdict.PASSED


@pytest.mark.parametrize("width", [40, 80, 109, 110, 200])
def test_no_width_breaks_a_name(width: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made = judged(Sides(slower=0.08), monkeypatch, tmp_path)
    for check in report.cells(made):
        check.subject = f"training-qwen3-0.6b-{check.subject}"
    said = _terminal(made, width)
    assert all(report.cell_name(check) in said for check in report.split(made)[0])

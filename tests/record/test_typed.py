"""The typed fields of a check: written and read in schema 2, filled in for records of schema 1, which stay as they are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stackproof import ROOT
from stackproof.base.errors import Refusal
from stackproof.record import records
from stackproof.record.records import CellWord, Check, Figure, Kind, Record, Verdict, overall

STARTED = "2026-01-02T03:04:05.678+00:00"
_KEPT = [*(ROOT / "results").glob("records/**/*.json"), *(ROOT / "results").glob("published/**/*.record.json")]
OLD = sorted(path for path in _KEPT if records.FIRST_SCHEMA in path.read_text(encoding="utf-8"))


def read(folder: Path, verb: str, *checks: Check, schema: str = records.FIRST_SCHEMA) -> Record:
    """Write a record of these checks in a schema, and read it back."""
    verdict = overall(check.verdict for check in checks)
    made = Record(verb, "cpu", STARTED, 1.0, verdict, checks=list(checks), schema=schema)
    records.write(made, folder / "record.json")
    return records.read(folder / "record.json")


def test_typed_fields_come_back_as_they_were_written(tmp_path: Path) -> None:
    cell = Check(
        "gate/gemm::time", Verdict.PASSED, "SAME", 1.0, kind=Kind.CELL, subject="gemm", aspect="time",
        outcome=CellWord.SAME,
    )  # fmt: skip
    plain = Check("environment", Verdict.PASSED, "proved", 1.0)
    found = read(tmp_path, "gate", cell, plain, schema=records.SCHEMA_NAME)
    assert found.checks == [cell, plain]
    assert found.checks[0].outcome is CellWord.SAME
    rows = json.loads((tmp_path / "record.json").read_text())["checks"]
    assert set(rows[1]) == {"id", "verdict", "reason", "seconds", "figures"}


@pytest.mark.parametrize("path", OLD, ids=lambda path: path.name)
def test_a_record_of_schema_1_is_read_and_not_rewritten(path: Path) -> None:
    record = records.read(path)
    assert record.schema == records.FIRST_SCHEMA
    suites = [check for check in record.checks if "::" in check.id]
    assert suites
    assert all(check.kind is Kind.SUITE and check.id.startswith(f"{check.group}/") for check in suites)
    assert json.loads(record.as_json()) == json.loads(path.read_text(encoding="utf-8"))


RATIO: dict[str, Figure] = {"ratio": 1.1}


@pytest.mark.parametrize(
    ("verdict", "reason", "figures", "word"),
    [
        (Verdict.FAILED, "SLOWER by 9 %", RATIO, CellWord.SLOWER),
        (Verdict.PASSED, "SAME 10 on both sides", {}, CellWord.SAME),
        (Verdict.PASSED, "CHANGED the data; accepted", {}, CellWord.CHANGED),
        (Verdict.SKIPPED, "does not gate: noise", RATIO, CellWord.BLIND),
        (Verdict.SKIPPED, "does not gate: only 1 launches", {}, CellWord.NOT_JUDGED),
        (Verdict.NOT_APPLICABLE, "SLOWER 10 -> 11; different torch", {}, CellWord.NOT_JUDGED),
        (Verdict.INCONCLUSIVE, "only 2 launches", {}, CellWord.INCONCLUSIVE),
        (Verdict.HUNG, "head: hung", {}, None),
        (Verdict.FAILED, "is missing: the head gives nothing", {}, None),
    ],
)
def test_an_old_gate_says_its_words(
    verdict: Verdict, reason: str, figures: dict[str, Figure], word: CellWord | None, tmp_path: Path
) -> None:
    found = read(tmp_path, "gate", Check("gate/gemm-a::time", verdict, reason, 1.0, figures)).checks[0]
    assert (found.kind, found.subject, found.aspect, found.outcome) == (Kind.CELL, "gemm-a", "time", word)


@pytest.mark.parametrize(
    ("verb", "name", "figures", "placed"),
    [
        ("gate", "gate/run::conditions", {}, (Kind.CONDITIONS, "", "run")),
        ("sweep", "sweep/A=1 B=2/gemm::time", {}, (Kind.CELL, "A=1 B=2", "gemm")),
        ("sweep", "sweep/A=1::effect", {}, (Kind.SETTING, "A=1", "")),
        ("sweep", "sweep/A=1::runs", {}, (Kind.SETTING, "A=1", "")),
        ("drill", "records/metric-missing", {"injected": "a thing"}, (Kind.FAULT, "records", "metric-missing")),
        ("drill", "clean/verify cpu", {}, (Kind.CLEAN, "", "")),
        ("drill", "coverage", {}, (None, "", "")),
        ("agree", "agreement/pairs::x[float32]", {}, (Kind.SUITE, "agreement", "x[float32]")),
        ("smoke", "host", {}, (None, "", "")),
    ],
)
def test_an_old_id_is_placed(verb: str, name: str, figures: dict[str, Figure], placed: Any, tmp_path: Path) -> None:
    own = Check(name, Verdict.PASSED, "as expected", 1.0, figures)
    ran = Check("smoke/a::b", Verdict.PASSED, "as expected", 1.0)
    found = read(tmp_path, verb, own, ran).checks[0]
    assert (found.kind, found.group, found.subject) == placed


def test_schema_1_has_no_typed_fields(tmp_path: Path) -> None:
    read(tmp_path, "smoke", Check("smoke/a::b", Verdict.PASSED, "as expected", 1.0))
    path = tmp_path / "record.json"
    told = json.loads(path.read_text())
    told["checks"][0]["outcome"] = "SAME"
    path.write_text(json.dumps(told))
    with pytest.raises(Refusal, match="is not a record of schema stackproof-record-1: "):
        records.read(path)


def test_schema_and_code_know_the_same_words() -> None:
    check = json.loads(records.SCHEMA.read_text(encoding="utf-8"))["definitions"]["check"]["properties"]
    assert check["kind"]["enum"] == [kind.value for kind in Kind]
    assert check["outcome"]["enum"] == [word.value for word in CellWord]

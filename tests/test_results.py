"""Records that are published under results/: each is whole, replays, and is named in the README beside it."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from stackproof import ROOT, cli
from stackproof.base.errors import Refusal
from stackproof.record import reading, records
from stackproof.record.records import Check, Record, Verdict
from stackproof.stack import stacks

RESULTS = ROOT / "results"
CORE = {"smoke", "operators", "models", "precision", "memory", "placement"}
"""Suites without which nothing is called verified; a record stays whole when suites are added after it."""

WHOLE = Record(
    "verify",
    "cuda",
    "2026-01-01T00:00:00+00:00",
    12.0,
    Verdict.PASSED,
    {"rehearsed": False, "only": "", "suites": " ".join(stacks.suites()), "verified on": "cuda"},
    [Check("rng/rng::state", Verdict.PASSED, "states were restored", 1.0)],
)


def published(results: Path) -> list[Path]:
    """Return the records that are kept, not those of local runs."""
    return sorted((results / "records").rglob("*.json"))


def complaint(path: Path) -> str:
    """Return what speaks against publishing a record, or nothing."""
    try:
        record = reading.read(path)
    except Refusal as refusal:
        return str(refusal)
    facts = record.provenance
    if (
        record.verb != "verify"
        or facts.get("rehearsed")
        or facts.get("only")
        or facts.get("verified on") != stacks.load(record.stack).hardware
    ):
        return "is no whole run on a card"
    missing = sorted(CORE - set(str(facts.get("suites", "")).split()))
    if missing:
        return f"has not the suites {', '.join(missing)}"
    return "" if path.parent.name.startswith(f"{record.stack}-") else "lies in the folder of another stack"


def named(results: Path) -> list[Path]:
    """Return the records that the README's table links."""
    text = (results / "README.md").read_text(encoding="utf-8")
    return sorted(results / link for link in re.findall(r"\]\((records/[^)]+\.json)\)", text))


def examined(results: Path) -> dict[str, str]:
    """Return what is wrong, by record; a record that nobody names and a name without a record are wrong too."""
    wrong = {path.name: said for path in published(results) if (said := complaint(path))}
    return wrong | {path.name: "is not in both" for path in set(published(results)) ^ set(named(results))}


def replays(path: Path, capsys: pytest.CaptureFixture[str]) -> bool:
    """Tell whether showing a record ends with its verdict, in words and as the exit code."""
    verdict = reading.read(path).verdict
    code = cli.main(["verify", "--replay", str(path)])
    return code == verdict.exit_code and verdict.value.upper() in capsys.readouterr().out


def test_published_records_are_whole_named_and_replay(capsys: pytest.CaptureFixture[str]) -> None:
    assert examined(RESULTS) == {}
    assert [path.name for path in published(RESULTS) if not replays(path, capsys)] == []


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A results folder with one good record that the README names."""
    sealed = replace(WHOLE)
    records.seal(sealed, tmp_path)
    records.write(sealed, tmp_path / "records" / "cuda-h200" / "good.json")
    (tmp_path / "README.md").write_text("| [record](records/cuda-h200/good.json) |\n", encoding="utf-8")
    return tmp_path


def test_a_good_record_is_accepted(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (path,) = published(results)
    assert examined(results) == {}
    assert replays(path, capsys)


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"rehearsed": True}, "is no whole run on a card"),
        ({"only": "rng/*"}, "is no whole run on a card"),
        ({"verified on": "cpu"}, "is no whole run on a card"),
        ({"suites": "rng smoke"}, "has not the suites memory, models"),
    ],
)
def test_a_record_of_less_is_refused(results: Path, facts: dict[str, str], said: str) -> None:
    (path,) = published(results)
    records.write(replace(WHOLE, provenance={**WHOLE.provenance, **facts}), path)
    assert said in examined(results)["good.json"]


def test_a_record_that_is_damaged_misplaced_or_unnamed_is_refused(results: Path) -> None:
    (path,) = published(results)
    shutil.copy(path, path.parent / "unnamed.json")
    (results / "records" / "xpu-b60").mkdir()
    shutil.copy(path, results / "records" / "xpu-b60" / "misplaced.json")
    path.write_text(json.dumps({"schema": "stackproof-record-1"}), encoding="utf-8")
    found = examined(results)
    assert "good.json" in found["good.json"]
    assert found["unnamed.json"] == "is not in both"
    assert "misplaced.json" in found
    path.unlink()
    assert examined(results)["good.json"] == "is not in both"

"""The one writer of records: what it refuses early, what it writes, and that no record is lost with a disk that fills up."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from stackproof import ROOT
from stackproof.base.errors import Refusal
from stackproof.record import records, writer
from stackproof.record.records import Check, Record, Verdict
from stackproof.record.writer import Outputs


def ended() -> Record:
    """Return the record of a run that has ended well."""
    record = writer.begin("smoke", "cpu", {"torch": "2.8.0"})
    record.checks.append(Check("smoke/a::b", Verdict.PASSED, "as expected", 0.1))
    record.verdict = Verdict.PASSED
    return record


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder for temporary files, one of this test's own."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


def test_a_record_begins_with_the_schema_that_is_written_and_the_facts_known_by_then() -> None:
    record = writer.begin("smoke", "cpu", {"torch": "2.8.0"})
    assert (record.schema, record.verb, record.stack) == (records.SCHEMA_NAME, "smoke", "cpu")
    assert record.provenance == {"torch": "2.8.0"}
    assert record.started.endswith("+00:00")


def test_the_folder_of_a_run_says_when_and_which_verb(tmp_path: Path) -> None:
    record = Record("drill", "cpu", "2026-01-02T03:04:05.678+00:00")
    first, second = (Outputs(tmp_path).folder(record) for _ in range(2))
    assert first != second
    assert first.parent == second.parent == tmp_path / "cpu"
    assert re.fullmatch(r"20260102T030405-drill-\w+", first.name)


def test_all_that_was_asked_for_is_written(tmp_path: Path, temporary: Path) -> None:
    outputs = Outputs(tmp_path, tmp_path / "copy.json", tmp_path / "junit.xml", tmp_path / "new" / "page.md")
    path = writer.keep(ended(), tmp_path / "record.json", outputs, lambda record: f"# {record.verb}\n")
    assert records.read(path) == records.read(tmp_path / "copy.json")
    assert "smoke/a::b" in (tmp_path / "junit.xml").read_text()
    assert (tmp_path / "new" / "page.md").read_text() == "# smoke\n"
    assert not list(temporary.iterdir())


@pytest.mark.parametrize("broken", ["record", "json", "junit", "markdown"])
def test_a_record_survives_whatever_cannot_be_written(tmp_path: Path, temporary: Path, broken: str) -> None:
    (tmp_path / "file").touch()
    places = {name: tmp_path / name for name in ("record", "json", "junit", "markdown")}
    places[broken] = tmp_path / "file" / "below"
    outputs = Outputs(tmp_path, places["json"], places["junit"], places["markdown"])
    where = "was saved as" if broken == "record" else f"is {places['record']}$"
    with pytest.raises(Refusal, match=f"below: .* cannot be written .*; the record of this run {where}"):
        writer.keep(ended(), places["record"], outputs, lambda record: "a page")
    (kept,) = temporary.glob("stackproof-*/record.json") if broken == "record" else [places["record"]]
    assert records.read(kept).checks[0].id == "smoke/a::b"
    assert bool(list(temporary.iterdir())) is (broken == "record")


@pytest.mark.parametrize(
    ("one", "other"), [("json", "junit"), ("json", "markdown"), ("junit", "markdown")], ids=lambda name: name
)
def test_one_file_for_two_outputs_is_refused(tmp_path: Path, one: str, other: str) -> None:
    outputs = Outputs(tmp_path, **{one: tmp_path / "a", other: tmp_path / "a"})
    with pytest.raises(Refusal, match=f"is named by --{one} and by --{other}, .*; name two files"):
        outputs.prepare()


@pytest.mark.parametrize("name", ["json", "junit", "markdown"])
def test_a_place_where_nothing_can_be_written_is_refused_before_the_run(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    outputs = Outputs(tmp_path, **{name: tmp_path / "file" / "below"})
    with pytest.raises(Refusal, match=f"file: nothing can be written there .* --results, --{name}"):
        outputs.prepare()


def test_no_verb_writes_a_record_of_its_own_accord() -> None:
    own = {"record/writer.py", "extras/fleet/shared.py"}
    source = ROOT / "src" / "stackproof"
    callers = {
        path.relative_to(source).as_posix()
        for path in source.rglob("*.py")
        if re.search(r"\brecords\.write\(", path.read_text(encoding="utf-8"))
    }
    assert callers == own

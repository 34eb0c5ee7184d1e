"""The one writer of records: what it refuses early, that no record is lost with a full disk, and JUnit that is well-formed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from stackproof import ROOT
from stackproof.base.errors import Refusal
from stackproof.record import reading, records, writer
from stackproof.record.records import Check, Record, Verdict, overall
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


@pytest.mark.parametrize(("name", "hidden"), [("local", True), ("named", False)])
def test_git_does_not_see_the_folder_that_nobody_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, hidden: bool
) -> None:
    monkeypatch.setattr(writer, "LOCAL", tmp_path / "local")
    outputs, ignore = Outputs(tmp_path / name), tmp_path / name / ".gitignore"
    outputs.prepare()
    assert ignore.exists() is hidden and (not hidden or ignore.read_text() == "*\n")
    ignore.unlink(missing_ok=True)
    outputs.folder(ended())
    assert not ignore.exists()  # whoever deleted it wants it seen


def test_all_that_was_asked_for_is_written(tmp_path: Path, temporary: Path) -> None:
    outputs = Outputs(tmp_path, tmp_path / "copy.json", tmp_path / "junit.xml", tmp_path / "new" / "page.md")
    path = writer.keep(ended(), tmp_path / "record.json", outputs, lambda record: f"# {record.verb}\n")
    assert reading.read(path) == reading.read(tmp_path / "copy.json")
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
    assert reading.read(kept).checks[0].id == "smoke/a::b"
    assert bool(list(temporary.iterdir())) is (broken == "record")


def test_what_no_record_can_hold_is_refused_and_saved(tmp_path: Path, temporary: Path) -> None:
    record = ended()
    record.checks.append(Check("smoke/a::c", Verdict.PASSED, "", 1.0))
    with pytest.raises(Refusal, match=r"checks\[1\].reason must be .*; the record of this run was saved as"):
        writer.keep(record, tmp_path / "record.json")
    (kept,) = temporary.glob("stackproof-*/record.json")
    assert "smoke/a::b" in kept.read_text(encoding="utf-8")


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
    source = ROOT / "src" / "stackproof"
    callers = {
        path.relative_to(source).as_posix()
        for path in source.rglob("*.py")
        if re.search(r"\brecords\.write\(", path.read_text(encoding="utf-8"))
    }
    assert callers - {"extras/fleet/card.py"} == {"record/store.py", "record/writer.py"}


NASTY = "a\x00\x0b\x1b[31m<b>&\"'\udc80\ufffe\uff1a\U0001f600 ]]>\nsecond"


def record(*checks: Check) -> Record:
    """Return a record with these checks."""
    verdict = overall(check.verdict for check in checks)
    return Record("smoke", "xpu", "2026-01-02T03:04:05+00:00", 2.0, verdict, {"torch": "2.8.0"}, list(checks))


def one_of_each() -> list[Check]:
    """Return one check of every verdict."""
    return [Check(f"smoke/x::{verdict.value}", verdict, f"because {verdict.value}", 0.5) for verdict in Verdict]


def test_counts_agree_with_the_cases() -> None:
    suite = ET.fromstring(writer.junit(record(*one_of_each())))
    cases = suite.findall("testcase")
    assert suite.attrib["tests"] == str(len(cases)) == "11"
    for name, element in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        assert int(suite.attrib[name]) == len(suite.findall(f"testcase/{element}"))
    assert (suite.attrib["failures"], suite.attrib["errors"], suite.attrib["skipped"]) == ("1", "6", "3")
    plain = [case.attrib["name"] for case in cases if case.find("system-out") is not None]
    assert plain == ["smoke/x::passed"]


def test_case_says_what_the_check_said() -> None:
    suite = ET.fromstring(writer.junit(record(Check("smoke/x::y", Verdict.HUNG, "rank 1 hung", 0.25))))
    (case,) = suite.findall("testcase")
    assert case.attrib == {"classname": "xpu.smoke", "name": "smoke/x::y", "time": "0.250"}
    (error,) = case.findall("error")
    assert error.attrib == {"message": "rank 1 hung", "type": "hung"}
    assert error.text == "rank 1 hung\nrun it again: nox -s xpu-smoke -- --only smoke/x::y"
    assert [p.attrib for p in suite.iter("property")] == [{"name": "torch", "value": "2.8.0"}]
    assert (suite.attrib["time"], suite.attrib["timestamp"]) == ("2.000", "2026-01-02T03:04:05+00:00")


@pytest.mark.parametrize("verdict", list(Verdict))
def test_any_text_gives_well_formed_xml(tmp_path: Path, verdict: Verdict) -> None:
    made = record(Check(f"smoke/x::{NASTY}", verdict, NASTY, 0.0))
    made.provenance[NASTY] = NASTY
    path = tmp_path / "j.xml"
    path.write_text(writer.junit(made), encoding="utf-8")
    suite = ET.parse(path).getroot()
    case = suite.findall("testcase")[0]
    name = case.attrib["name"]
    assert "<b>&\"'" in name
    assert "\uff1a\U0001f600" in name
    assert "\x1b" not in name
    assert r"a\x00\x0b\x1b[31m" in name
    assert r"\udc80\ufffe" in name


@pytest.mark.parametrize("checks", [(), (Check("smoke/x::y", Verdict.SKIPPED, "a rule", 0.0),)])
def test_a_bad_run_without_a_bad_check_is_a_bad_case_of_its_own(checks: tuple[Check, ...]) -> None:
    suite = ET.fromstring(writer.junit(record(*checks)))
    assert (suite.attrib["tests"], suite.attrib["failures"]) == (str(len(checks) + 1), "1")
    assert suite.findall("testcase")[-1].attrib["name"] == "smoke/run::verdict"


DECLARED = """
import sys
from pathlib import Path
from stackproof.record import writer
from stackproof.record.records import Check, Record, Verdict, overall
failed = Check("a", Verdict.FAILED, "xpu\\uff1a1", 0.0)
made = Record("smoke", "xpu", "2026-01-02T03:04:05+00:00", checks=[failed])
writer.write_asked(made, writer.Outputs(junit=Path(sys.argv[1])))
"""


@pytest.mark.parametrize("locale", ["C", "POSIX"])
def test_declared_encoding_is_the_files_own(tmp_path: Path, locale: str) -> None:
    path = tmp_path / "j.xml"
    env = {
        **os.environ,
        "LC_ALL": locale,
        "PYTHONUTF8": "0",
        "PYTHONCOERCECLOCALE": "0",
        "PYTHONPATH": str(ROOT / "src"),
    }
    subprocess.run([sys.executable, "-c", DECLARED, str(path)], env=env, check=True, capture_output=True)
    assert path.read_bytes().startswith(b'<?xml version="1.0" encoding="utf-8"?>')
    (failure,) = ET.parse(path).getroot().iter("failure")
    assert failure.attrib["message"] == "xpu\uff1a1"


def test_place_that_cannot_be_written_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Refusal, match=r"the JUnit file cannot be written .* with --junit"):
        writer.write_asked(record(), Outputs(junit=tmp_path / "file" / "j.xml"))

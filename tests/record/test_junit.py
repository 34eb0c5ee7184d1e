"""JUnit XML: well-formed whatever the text, with counts that agree, and written whole or not at all."""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from stackproof import ROOT
from stackproof.base.errors import Refusal
from stackproof.record import junit
from stackproof.record.records import Check, Record, Verdict, overall

NASTY = "a\x00\x0b\x1b[31m<b>&\"'\udc80\ufffe\uff1a\U0001f600 ]]>\nsecond"


def record(*checks: Check) -> Record:
    """Return a record with these checks."""
    verdict = overall(check.verdict for check in checks)
    return Record("smoke", "xpu", "2026-01-02T03:04:05+00:00", 2.0, verdict, {"torch": "2.8.0"}, list(checks))


def one_of_each() -> list[Check]:
    """Return one check of every verdict."""
    return [Check(f"smoke/x::{verdict.value}", verdict, f"because {verdict.value}", 0.5) for verdict in Verdict]


def test_counts_agree_with_the_cases() -> None:
    suite = ET.fromstring(junit.render(record(*one_of_each())))
    cases = suite.findall("testcase")
    assert suite.attrib["tests"] == str(len(cases)) == "11"
    for name, element in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        assert int(suite.attrib[name]) == len(suite.findall(f"testcase/{element}"))
    assert (suite.attrib["failures"], suite.attrib["errors"], suite.attrib["skipped"]) == ("1", "6", "3")
    plain = [case.attrib["name"] for case in cases if case.find("system-out") is not None]
    assert plain == ["smoke/x::passed"]


def test_case_says_what_the_check_said() -> None:
    suite = ET.fromstring(junit.render(record(Check("smoke/x::y", Verdict.HUNG, "rank 1 hung", 0.25))))
    (case,) = suite.findall("testcase")
    assert case.attrib == {"classname": "xpu.smoke", "name": "smoke/x::y", "time": "0.250"}
    (error,) = case.findall("error")
    assert error.attrib == {"message": "rank 1 hung", "type": "hung"}
    assert [p.attrib for p in suite.iter("property")] == [{"name": "torch", "value": "2.8.0"}]
    assert (suite.attrib["time"], suite.attrib["timestamp"]) == ("2.000", "2026-01-02T03:04:05+00:00")


@pytest.mark.parametrize("verdict", list(Verdict))
def test_any_text_gives_well_formed_xml(tmp_path: Path, verdict: Verdict) -> None:
    made = record(Check(f"smoke/x::{NASTY}", verdict, NASTY, 0.0))
    made.provenance[NASTY] = NASTY
    path = tmp_path / "j.xml"
    junit.write(made, path)
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
    suite = ET.fromstring(junit.render(record(*checks)))
    assert (suite.attrib["tests"], suite.attrib["failures"]) == (str(len(checks) + 1), "1")
    assert suite.findall("testcase")[-1].attrib["name"] == "smoke/run::verdict"


DECLARED = """
import sys
from pathlib import Path
from stackproof.record import junit
from stackproof.record.records import Check, Record, Verdict, overall
failed = Check("a", Verdict.FAILED, "xpu\\uff1a1", 0.0)
made = Record("smoke", "xpu", "2026-01-02T03:04:05+00:00", checks=[failed])
junit.write(made, Path(sys.argv[1]))
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
        junit.write(record(), tmp_path / "file" / "j.xml")

"""A record as JUnit XML, the format that CI systems read (the schema that pytest and Jenkins share)."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

from stackproof.base.errors import Refusal
from stackproof.base.files import write_atomically
from stackproof.base.text import plain
from stackproof.record.records import Check, Record, Verdict

_ELEMENTS = {
    Verdict.PASSED: "",
    Verdict.SKIPPED: "skipped",
    Verdict.NOT_APPLICABLE: "skipped",
    Verdict.KNOWN_ISSUE: "skipped",
    Verdict.FAILED: "failure",
}


_OF_GATES = {Verdict.CRASHED: "failure", Verdict.HUNG: "failure"}
"""A side of a gate that crashed or hung is why nothing is merged, and no trouble of the tool."""


def _element(record: Record, verdict: Verdict) -> str:
    """Return how a verdict is written in JUnit; empty for a pass."""
    ours = _OF_GATES.get(verdict, "") if record.verb == "gate" else ""
    return ours or _ELEMENTS.get(verdict, "error")


def write(record: Record, path: Path) -> None:
    """Write the record's checks as one test suite, atomically."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, render(record))
    except OSError as error:
        raise Refusal(
            f"{path}: the JUnit file cannot be written ({error.strerror}); "
            "free space or choose another file with --junit"
        ) from error


def render(record: Record) -> str:
    """Return the XML text; verdicts that are neither passed, skipped nor failed are errors.

    Where the run as a whole is worse than each of its checks, it is a case of its own: no reader takes it for a pass.
    """
    record = _with_whole(record)
    suite = ET.Element(
        "testsuite",
        name=plain(f"{record.stack} {record.verb}"),
        timestamp=record.started,
        time=f"{record.seconds:.3f}",
    )
    for name, value in _counts(record).items():
        suite.set(name, str(value))
    properties = ET.SubElement(suite, "properties")
    for key, fact in record.provenance.items():
        ET.SubElement(properties, "property", name=plain(key), value=plain(str(fact)))
    for check in record.checks:
        _case(suite, record, check)
    # Written out, because Python 3.10 would declare the locale's encoding and the file is UTF-8 everywhere.
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(suite, encoding="unicode") + "\n"


def _with_whole(record: Record) -> Record:
    """Return the record with a check for the whole, if it is bad and none of its checks says so."""
    if not record.verdict.exit_code or any(check.verdict.exit_code for check in record.checks):
        return record
    reason = f"the run ended as '{record.verdict.value}', although none of its {len(record.checks)} checks is bad: nothing was shown"
    return replace(record, checks=[*record.checks, Check(f"{record.verb}/run::verdict", record.verdict, reason, 0.0)])


def _counts(record: Record) -> dict[str, int]:
    kinds = [_element(record, check.verdict) for check in record.checks]
    return {
        "tests": len(kinds),
        "failures": kinds.count("failure"),
        "errors": kinds.count("error"),
        "skipped": kinds.count("skipped"),
    }


def _case(suite: ET.Element, record: Record, check: Check) -> None:
    case = ET.SubElement(
        suite,
        "testcase",
        classname=plain(f"{record.stack}.{record.verb}"),
        name=plain(check.id),
        time=f"{check.seconds:.3f}",
    )
    kind = _element(record, check.verdict)
    if kind:
        ET.SubElement(case, kind, message=plain(check.reason), type=check.verdict.value)
    else:
        ET.SubElement(case, "system-out").text = plain(check.reason)

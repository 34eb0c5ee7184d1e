"""A record as JUnit XML, the format that CI systems read (the schema that pytest and Jenkins share)."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

from stackproof.base.errors import Refusal
from stackproof.base.text import plain
from stackproof.record.records import Check, Record, Verdict, write_atomically

_ELEMENTS = {
    Verdict.PASSED: "",
    Verdict.SKIPPED: "skipped",
    Verdict.NOT_APPLICABLE: "skipped",
    Verdict.KNOWN_ISSUE: "skipped",
    Verdict.FAILED: "failure",
}


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
    """Return the XML text; verdicts that are neither passed, skipped nor failed are errors."""
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


def _counts(record: Record) -> dict[str, int]:
    kinds = [_ELEMENTS.get(check.verdict, "error") for check in record.checks]
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
    kind = _ELEMENTS.get(check.verdict, "error")
    if kind:
        ET.SubElement(case, kind, message=plain(check.reason), type=check.verdict.value)
    else:
        ET.SubElement(case, "system-out").text = plain(check.reason)

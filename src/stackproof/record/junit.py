"""A record as JUnit XML, the format that CI systems read (the schema that pytest and Jenkins share)."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

from stackproof.base.errors import Refusal
from stackproof.record.records import Check, Record, Verdict, write_atomically

# XML 1.0 has no place for these, escaped or not; a log line may hold any of them.
_FORBIDDEN = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

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
        name=f"{record.stack} {record.verb}",
        timestamp=record.started,
        time=f"{record.seconds:.3f}",
    )
    for name, value in _counts(record).items():
        suite.set(name, str(value))
    properties = ET.SubElement(suite, "properties")
    for key, fact in record.provenance.items():
        ET.SubElement(properties, "property", name=_clean(key), value=_clean(str(fact)))
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
        classname=f"{record.stack}.{record.verb}",
        name=_clean(check.id),
        time=f"{check.seconds:.3f}",
    )
    kind = _ELEMENTS.get(check.verdict, "error")
    if kind:
        ET.SubElement(case, kind, message=_clean(check.reason), type=check.verdict.value)
    else:
        ET.SubElement(case, "system-out").text = _clean(check.reason)


def _clean(text: str) -> str:
    return _FORBIDDEN.sub("\ufffd", text)

"""Hosts as files: records and answers of the doctor, written into a folder."""

from __future__ import annotations

import json
from pathlib import Path

from stackproof.record import records
from stackproof.record.records import Check, Figure, Measurement, Record, Verdict

START = "2026-03-04T05:06:07+00:00"


def run(
    folder: Path,
    node: str = "gpu1",
    verb: str = "smoke",
    verdict: Verdict = Verdict.PASSED,
    started: str = START,
    reason: str = "as it must be",
    value: float = 12.5,
    only: str = "",
) -> Path:
    """Write the record of a run of stack cpu with one check of that verdict."""
    checks = [Check("host", Verdict.PASSED, "here", 0.0), Check("environment", Verdict.PASSED, "its lock", 0.0)]
    checks.append(Check("smoke/bringup::devices", verdict, reason, 1.5))
    facts: dict[str, Figure] = {
        "host": node,
        "torch": "2.15.0",
        "lock": "abc",
        "pinned": True,
        "rehearsed": False,
        "stackproof": "0.1.0",
        "only": only,
    }
    rows = [Measurement("vit", "tiny", "float32", 1, "rate", "samples/s", value, [value])]
    record = Record(verb, "cpu", started, 3.0, verdict, facts, checks, rows)
    path = folder / f"run-{len(list(folder.iterdir()))}.json"
    records.write(record, path)
    return path


def look(folder: Path, node: str = "gpu1", *levels: str, looked: str = START, name: str = "doctor") -> Path:
    """Write an answer of the doctor with a finding of each level."""
    findings = [{"level": level, "sentence": f"a {level} | with `marks`"} for level in levels]
    told = {"schema": "stackproof.doctor/2", "present": ["cpu"], "findings": findings, "looked": looked, "node": node}
    path = folder / f"{name}.json"
    path.write_text(json.dumps(told), encoding="utf-8")
    return path

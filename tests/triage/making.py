"""Logs written on the spot, and what triage makes of them."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path

from stackproof.triage import logs, reports, scan
from stackproof.triage.causes import Diagnosis
from stackproof.triage.reports import Report
from stackproof.triage.scan import Evidence
from stackproof.triage.search import Probe, compiled

TRACEBACK = """\
Traceback (most recent call last):
  File "train.py", line 7, in <module>
    step()
"""


def write(folder: Path, text: str | bytes, name: str = "run.log") -> Path:
    """Write a log; text is dedented."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else textwrap.dedent(text).encode())
    return path


def report(folder: Path, text: str | bytes, expected: Sequence[str] = (), name: str = "run.log") -> Report:
    """Triage a text."""
    (run,) = logs.runs([str(write(folder, text, name))])
    return reports.report(run, expected)


def folder_report(folder: Path, files: dict[str, str]) -> Report:
    """Triage several files as the logs of one run."""
    for name, text in files.items():
        write(folder, text, name)
    (run,) = logs.runs([str(folder)])
    return reports.report(run)


def evidence(folder: Path, text: str | bytes, probes: Iterable[Probe], name: str = "run.log") -> Evidence:
    """Look for some things of one's own in a text."""
    (run,) = logs.runs([str(write(folder, text, name))])
    return scan.scan(run.sources, probes)


def probe(key: str, pattern: str, **other: object) -> Probe:
    """Return a probe for a pattern that is its own text."""
    texts = other.pop("texts", None) or (pattern.encode(),)
    return Probe(key, texts, compiled([pattern]), **other)  # type: ignore[arg-type]


def signatures(judgement: Diagnosis) -> set[str]:
    """Return the names of all that was recognised."""
    rows = (judgement.others, judgement.consequences, judgement.survived, judgement.earlier, judgement.noise)
    return {row.signature for row in ([judgement.root] if judgement.root else [])} | {
        row.signature for part in rows for row in part
    }

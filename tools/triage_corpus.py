"""The corpus of logs in `fixtures/logs`, judged: `python -m tools.triage_corpus` writes the table into `docs/triage.md`."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Annotated

from stackproof import ROOT
from stackproof.base.toml import OneOf, Table
from stackproof.record.records import Verdict
from stackproof.triage import logs, reports
from stackproof.triage.reports import Report

FOLDER = ROOT / "fixtures" / "logs"
DOCUMENT = ROOT / "docs" / "triage.md"
CLEAN, UNKNOWN, CONTRADICTION, CANNOT_SAY = "clean", "unknown", "contradiction", "cannot say"
ORIGINS = ("real", "assembled")
_BEGIN, _END = "<!-- corpus: begin -->\n", "<!-- corpus: end -->\n"


@dataclass(frozen=True)
class Specimen:
    """A log, and what must be said of it."""

    name: str
    root: str
    who: str
    others: tuple[str, ...]
    origin: Annotated[str, OneOf(ORIGINS)]
    about: str

    @property
    def kind(self) -> str:
        """The row of the confusion table."""
        return self.root if self.root in (CLEAN, UNKNOWN, CONTRADICTION, CANNOT_SAY) else "known failure"


@cache
def load() -> tuple[Specimen, ...]:
    """Return the corpus.

    Raises:
        Refusal: the index is broken.
    """
    with Table.load(FOLDER / "index.toml") as table:
        found = table.rows("log", Specimen)
    return tuple(replace(row, root=row.root or CLEAN) for row in found)


@cache
def judge(name: str) -> Report:
    """Triage one log, or one folder of logs, of the corpus."""
    (run,) = logs.runs([str(FOLDER / name)])
    return reports.report(run)


def said(report: Report) -> str:
    """Return what triage makes of it, in the index's words."""
    if root := report.judgement.root:
        return root.signature or UNKNOWN
    if report.verdict is Verdict.PASSED:
        return CLEAN
    if report.verdict is Verdict.INCONCLUSIVE:
        return CANNOT_SAY
    return "wrong figures" if report.wrong else CONTRADICTION


def first(report: Report) -> str:
    """Return the rank that triage says failed first, or an empty string."""
    root = report.judgement.root
    return reports.people(root.who[:1]) if root and root.who[0][0] == "rank" else ""


def table() -> str:
    """Return the confusion table and what is judged wrongly, in Markdown."""
    judged = [(specimen, said(judge(specimen.name))) for specimen in load()]
    return "\n".join([*_confusion(judged), *_list(judged)]) + "\n"


def _confusion(judged: list[tuple[Specimen, str]]) -> list[str]:
    counts: Counter[tuple[str, str]] = Counter()
    for specimen, found in judged:
        counts[specimen.kind, _column(specimen, found)] += 1
    columns = ("right", "another cause", "called clean", "cannot say", "called faulty")
    lines = [f"| {len(judged)} logs that are | {' | '.join(columns)} |", f"|---|{'---|' * len(columns)}"]
    for kind in dict.fromkeys(specimen.kind for specimen, _ in judged):
        lines.append(f"| {kind} | {' | '.join(str(counts[kind, column]) for column in columns)} |")
    return lines


def _column(specimen: Specimen, found: str) -> str:
    if found == specimen.root:
        return "right"
    if specimen.root in (CLEAN, CANNOT_SAY):
        return "cannot say" if found in (CLEAN, CANNOT_SAY) else "called faulty"
    return {CLEAN: "called clean", CANNOT_SAY: "cannot say"}.get(found, "another cause")


def _list(judged: list[tuple[Specimen, str]]) -> list[str]:
    return [
        f"- `{specimen.name}` ({specimen.about}): **{found}**, not {specimen.root}"
        for specimen, found in judged
        if found != specimen.root
    ]


def document(text: str) -> str:
    """Return the text of the document with the table as it is now."""
    before, _, rest = text.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    return f"{before}{_BEGIN}{table()}{_END}{after}"


def main(path: Path = DOCUMENT) -> int:
    """Write the table into the document."""
    path.write_text(document(path.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

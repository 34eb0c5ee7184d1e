"""Triage measured on logs of public threads (`tests/triage/corpus`): `nox -s triage-score` writes the result into `docs/triage.md`.

The half to work with may be looked at log by log (`--work`); of the half that is held out only sums are printed, and the page says
how often that was done. Which half a log belongs to follows from its link, so that nobody chooses.
"""

from __future__ import annotations

import argparse
import hashlib
import math
import re
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

from stackproof import ROOT
from stackproof.base import git
from stackproof.base.statistics import Z_95
from stackproof.base.toml import OneOf, Table
from stackproof.record.records import Verdict
from stackproof.triage import logs, reports
from stackproof.triage.reports import Report
from stackproof.triage.rules import CONSEQUENCE

FOLDER = ROOT / "tests" / "triage" / "corpus"
OWN = FOLDER.parent / "clean_tools.toml"
DOCUMENT = ROOT / "docs" / "triage.md"
FAILING, CLEAN = KINDS = ("failing", "clean")
WORK, HELD_OUT = HALVES = ("work", "held-out")
_BEGIN, _END = "<!-- score: begin -->\n", "<!-- score: end -->\n"
_TIMES = re.compile(r"scored (\d+) times")


@dataclass(frozen=True)
class Specimen:
    """A log: where its messages come from, what it is, and what may be said of it (`how.md` in the folder has the words)."""

    name: str
    link: str
    kind: Annotated[str, OneOf(KINDS)]
    expect: tuple[str, ...]
    about: str
    known: bool = False

    @property
    def half(self) -> str:
        """Which half it belongs to; a link that a signature rested on before is none to hold out."""
        return WORK if self.known or hashlib.sha256(self.link.encode()).digest()[0] % 2 else HELD_OUT


@dataclass(frozen=True)
class Own:
    """A clean log in our own words; `shown` if it shows a good end."""

    name: str
    text: str
    shown: bool = True


class Outcome(Enum):
    """What became of a log."""

    RIGHT = "right"
    UNKNOWN = "honestly unknown"
    WRONG = "wrong claim"
    FALSE_CLEAN = "false clean"
    FALSE_ALARM = "false alarm"
    NOT_SHOWN = "cannot say"


@cache
def load() -> tuple[Specimen, ...]:
    """Return the corpus.

    Raises:
        Refusal: the index is broken.
    """
    with Table.load(FOLDER / "index.toml") as table:
        return table.rows("log", Specimen)


def judge(specimen: Specimen) -> Report:
    """Triage one log of the corpus."""
    return reports.report(logs.named([FOLDER / specimen.name]))


def outcome(specimen: Specimen, report: Report) -> Outcome:
    """Compare what triage says with what may be said."""
    if specimen.kind == CLEAN:
        return _of_clean(report)
    if report.verdict is Verdict.PASSED:
        return Outcome.FALSE_CLEAN
    root = report.judgement.root
    if root is None:
        return Outcome.UNKNOWN if report.verdict is Verdict.INCONCLUSIVE else Outcome.WRONG
    if fits(specimen.expect, report):
        return Outcome.RIGHT
    return Outcome.WRONG if root.signature and root.kind != CONSEQUENCE else Outcome.UNKNOWN


def _of_clean(report: Report) -> Outcome:
    if report.verdict is Verdict.PASSED:
        return Outcome.RIGHT
    return Outcome.NOT_SHOWN if report.verdict is Verdict.INCONCLUSIVE else Outcome.FALSE_ALARM


def fits(expect: Sequence[str], report: Report) -> bool:
    """Whether the root cause is one of those expected."""
    root = report.judgement.root
    assert root is not None
    if root.signature:
        return root.signature in expect or ("consequence" in expect and root.kind == CONSEQUENCE)
    said = root.title
    words = [word.partition(":")[2] for word in expect if ":" in word]
    return any(word in said for word in words) or bool({"failed", "consequence"} & set(expect))


def rows(counts: dict[str, Counter[Outcome]]) -> list[tuple[str, int, int]]:
    """Return the figures of a half: what, how many, of how many."""
    failing, clean = counts[FAILING], counts[CLEAN]
    all_failing, all_clean = failing.total(), clean.total()
    claims = failing[Outcome.RIGHT] + failing[Outcome.WRONG]
    return [
        ("cause right and first (recall)", failing[Outcome.RIGHT], all_failing),
        ("claims that are right (precision)", failing[Outcome.RIGHT], claims),
        ("honestly unknown", failing[Outcome.UNKNOWN], all_failing),
        ("wrong claim", failing[Outcome.WRONG], all_failing),
        ("failing logs called CLEAN", failing[Outcome.FALSE_CLEAN], all_failing),
        ("clean logs called faulty", clean[Outcome.FALSE_ALARM], all_clean),
        ("clean logs called CLEAN", clean[Outcome.RIGHT], all_clean),
    ]


def count(specimens: Iterable[Specimen]) -> dict[str, Counter[Outcome]]:
    """Judge the logs and count what became of them."""
    found: dict[str, Counter[Outcome]] = {kind: Counter() for kind in KINDS}
    for specimen in specimens:
        found[specimen.kind][outcome(specimen, judge(specimen))] += 1
    return found


def table(halves: dict[str, list[tuple[str, int, int]]]) -> list[str]:
    """Return the figures of both halves in Markdown."""
    lines = ["| | held out | to work with |", "|---|---|---|"]
    for held, work in zip(halves[HELD_OUT], halves[WORK], strict=True):
        lines.append(f"| {held[0]} | {_cell(held)} | {_cell(work)} |")
    return lines


def share_interval(hits: int, of: int) -> tuple[float, float]:
    """Return the share of `hits` that is true with 95 % (Wilson, J. Am. Stat. Assoc. 22, 1927); of nothing it may be anything."""
    if not of:
        return 0.0, 1.0
    share, square = hits / of, Z_95 * Z_95
    middle = (share + square / (2 * of)) / (1 + square / of)
    half = Z_95 * math.sqrt((share * (1 - share) + square / (4 * of)) / of) / (1 + square / of)
    return max(0.0, middle - half), min(1.0, middle + half)


def _cell(row: tuple[str, int, int]) -> str:
    _, hits, of = row
    low, high = share_interval(hits, of)
    return f"{hits} of {of}: {100 * hits / max(of, 1):.1f} % ({100 * low:.1f} - {100 * high:.1f})"


def own() -> str:
    """Say what becomes of the clean logs in our own words, which are nobody's and therefore in neither half."""
    with Table.load(OWN) as found:
        texts = [row.text.encode() for row in found.rows("log", Own)]
    with TemporaryDirectory() as folder:
        path = Path(folder) / "run.log"
        verdicts = Counter(_verdict(path, text) for text in texts)
    faulty, clean = verdicts[Verdict.FAILED], verdicts[Verdict.PASSED]
    return f"Besides, {len(texts)} clean logs in our own words to work with: {faulty} are called faulty, {clean} CLEAN."


def _verdict(path: Path, text: bytes) -> Verdict:
    path.write_bytes(text)
    return reports.report(logs.named([path])).verdict


def document(text: str, lines: Sequence[str], commit: str) -> str:
    """Return the document with the figures as they are now, the commit, and how often the held-out half was scored."""
    before, _, rest = text.partition(_BEGIN)
    old, _, after = rest.partition(_END)
    known = _TIMES.search(old)
    times = (int(known[1]) if known else 0) + 1
    said = f"On commit {commit}; the held-out half was scored {times} times. In brackets: 95 % (Wilson)."
    return f"{before}{_BEGIN}{said}\n\n" + "\n".join(lines) + f"\n{_END}{after}"


def _work() -> int:
    """Print what becomes of each log of the half to work with."""
    chosen = [row for row in load() if row.half == WORK]
    for specimen in chosen:
        report = judge(specimen)
        found = outcome(specimen, report)
        if found not in (Outcome.RIGHT, Outcome.NOT_SHOWN):
            word, said = reports.headline(report)
            print(f"{found.value:18} {specimen.name}: {word}  {said[:150]}   expected {', '.join(specimen.expect)}")  # noqa: T201
    for what, hits, of in rows(count(chosen)):
        print(f"{what:36} {_cell((what, hits, of))}")  # noqa: T201
    print(own())  # noqa: T201
    return 0


def main(arguments: Sequence[str], path: Path = DOCUMENT) -> int:
    """Score; without --work both halves, into the document."""
    parser = argparse.ArgumentParser(prog="triage-score", description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--work", action="store_true", help="the half to work with, log by log; writes nothing")
    if parser.parse_args(arguments).work:
        return _work()
    halves = {half: rows(count(row for row in load() if row.half == half)) for half in HALVES}
    lines = table(halves)
    lines += ["", own()]
    print("\n".join(lines))  # noqa: T201
    commit = (git.try_output(ROOT, "rev-parse", "--short", "HEAD") or "unknown").strip()
    path.write_text(document(path.read_text(encoding="utf-8"), lines, commit), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""What a bisection ends with: its word, the culprits with effect, remedy and command; the record of it, and its page."""

from __future__ import annotations

import math
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path

from rich.console import Console

from stackproof.api.base import files, statistics, text
from stackproof.api.record import Check, Figure, Record, Verdict, outline
from stackproof.extras.bisect.endpoints import ABSENT, LOCAL, ChangeKind, Endpoint, OneChange, lock_text, mixed, short
from stackproof.extras.bisect.evidence import Blame, SetWord, below
from stackproof.extras.bisect.search import FirstBad, SetTest


def remedy(
    culprit: Sequence[OneChange], rest: Collection[OneChange], good: Endpoint, bad: Endpoint, folder: Path
) -> str:
    """Say what takes the culprit back; of a package that is a lock, which is written: the bad one without it."""
    steps = [_of(change) for change in culprit if change.kind is not ChangeKind.PACKAGE]
    packages = [change for change in culprit if change.kind is ChangeKind.PACKAGE]
    if packages:
        path = folder / "remedy.lock"
        files.write_atomically(path, lock_text(replace(bad.lock, pins=mixed(good, bad, rest).lock.pins)))
        names = text.first_few([f"{change.name} {change.before}" for change in packages])
        steps.append(f"hold {names}: {path} is the bad side's lock with that")
    return "; ".join(steps)


def _of(change: OneChange) -> str:
    if change.kind is ChangeKind.VARIABLE:
        if change.before == ABSENT:
            return f"unset {change.name}"
        return f"export {shlex.join([f'{change.name}={change.before}'])}"
    if change.kind is ChangeKind.SOURCE:
        return f"take {change.name} from {change.before}"
    return f"look at {change.label}"


def revert(guilty: FirstBad) -> str:
    """Say what takes a commit back."""
    first = guilty.names[0][:12]
    if len(guilty.names) > 1:
        return f"one of {', '.join(map(short, guilty.names))}: they could not be told apart"
    if guilty.names[0] == LOCAL:
        return "look at `git status` and `git diff HEAD`"
    return f"git revert {first} (later commits were not tried without it)"


NOT_REPRODUCED = 7
"""The exit code of an answer of its own: both ends are alike, so there is nothing to search for."""

_CULPRIT, _UNRESOLVED = "bisect/culprit::", "bisect/unresolved::"
_ENDS, _SEARCH = "bisect/run::ends", "bisect/run::search"


class BisectWord(str, Enum):
    """How it ended; all but the first and the last are inconclusive."""

    FOUND = "FOUND"
    UNPROVED = "UNPROVED"
    NOT_REPRODUCED = "NOT REPRODUCED"
    CANNOT_SAY = "CANNOT SAY"
    GOOD_TURNED_BAD = "GOOD SIDE TURNED BAD"
    INTERRUPTED = "INTERRUPTED"

    @property
    def verdict(self) -> Verdict:
        exact = {BisectWord.FOUND: Verdict.PASSED, BisectWord.INTERRUPTED: Verdict.INTERRUPTED}
        return exact.get(self, Verdict.INCONCLUSIVE)


@dataclass(frozen=True)
class Culprit:
    """One culprit, in words; `figures`: its effect, where it has a size."""

    label: str
    blame: Blame
    remedy: str
    ratios: Sequence[float] = ()
    noise: float = 0.0
    guilty: FirstBad | None = None
    subjects: Mapping[str, str] = field(default_factory=dict)
    """The subject lines of commits."""
    open_parts: int = 0
    """How many sets of some of its changes could not be tested, so that not all of them may be needed."""
    failed: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Of failures: how often the good side with it failed and of how many runs (`alone`), and the bad side without it (`without`)."""

    @property
    def proved(self) -> bool:
        """Whether it alone is bad, all without it is good, and a commit is named alone."""
        several = self.guilty is not None and len(self.guilty.names) > 1
        return self.blame.proved and not several and not self.open_parts

    @property
    def name(self) -> str:
        """What is named: the change, and inside it the commit."""
        if self.guilty is None or len(self.guilty.names) > 1:
            return self.label
        (first,) = self.guilty.names
        if first == LOCAL:
            return f"{LOCAL}, of {self.label}"
        return f"commit {first[:10]} ({self.subjects.get(first, '')}) of {self.label}"

    def sentence(self) -> str:
        """Say what was proved, and how large it is."""
        several = len(self.blame.units) > 1
        alone = (
            "together they are"
            if several
            else "the whole range on the good side is"
            if self.guilty
            else "on the good side it is"
        )
        another = ", because there is another" if self.blame.without is SetWord.BAD else ""
        parts = [
            f"{alone} {self.blame.alone.value}{self._effect()}{self._failed('alone')}",
            f"the bad side without {'them' if several else 'it'} is {self.blame.without.value}{self._failed('without')}{another}",
        ]
        if several and self.open_parts:
            parts.append(
                f"whether all of them are needed is open: {self.open_parts} sets of some of them could not be tested"
            )
        elif several:
            parts.append("none of them is bad without the others: an interaction")
        if guilty := self.guilty:
            names = [f"{name[:10]} ({self.subjects[name]})" if name in self.subjects else name for name in guilty.names]
            which = "the first bad commit is" + ("" if len(names) == 1 else " one of")
            skipped = f"; {len(guilty.unresolved)} could not be run" if guilty.unresolved else ""
            parts.append(
                f"{which} {', '.join(names)}, {guilty.sure:.1%} sure among {guilty.among} after {guilty.launches} launches{skipped}"
            )
        return "; ".join(parts)

    def _failed(self, half: str) -> str:
        failed, runs = self.failed.get(half, (0, 0))
        if not runs:
            return ""
        shown = "" if failed else f"; a failure in {below(runs):.0%} of them or more would have shown, 95 % sure"
        return f" (failed in {failed} of {text.counted(runs, 'run')}{shown})"

    def _interval(self) -> tuple[float, float, float] | None:
        if not self.noise or not self.ratios:
            return None
        centre, reach = sum(self.ratios) / len(self.ratios), statistics.Z_95 * self.noise / math.sqrt(len(self.ratios))
        return centre - reach, centre, centre + reach

    def _effect(self) -> str:
        if not (interval := self._interval()):
            return ""
        low, centre, high = map(statistics.percent, interval)
        return f", {centre} [{low}, {high}]"

    def figures(self) -> dict[str, Figure]:
        """Return what a record keeps of its size."""
        values: dict[str, Figure] = {"alone": self.blame.alone.value, "without": self.blame.without.value}
        for half, (failed, runs) in self.failed.items():
            values |= {f"{half}, failed": failed, f"{half}, runs": runs}
        if interval := self._interval():
            values |= zip(("ratio, low", "ratio", "ratio, high"), map(math.exp, interval), strict=True)
        return values


@dataclass
class BisectOutcome:
    """All that a bisection found out."""

    word: BisectWord
    reason: str
    symptom: str = ""
    culprits: list[Culprit] = field(default_factory=list)
    tests: Sequence[SetTest] = ()
    changes: Sequence[str] = ()
    immovable: Sequence[str] = ()
    """What differs too, and cannot be moved here."""
    notes: list[str] = field(default_factory=list)
    journal: str = ""
    subject: str = ""
    """Of what the symptom was: a subject of the gate, a check, or a command."""

    @property
    def exit_code(self) -> int:
        """Return the exit code: named and proved is success."""
        return NOT_REPRODUCED if self.word is BisectWord.NOT_REPRODUCED else self.word.verdict.exit_code

    def into(self, record: Record, seconds: float) -> None:
        """Add the checks and the facts, and give the record its verdict."""
        verdict = self.word.verdict
        ends = Verdict.PASSED if self.symptom else verdict
        record.checks.append(Check(_ENDS, ends, self.symptom or self.reason, 0.0))
        for culprit in self.culprits:
            proved = culprit.proved or self.word is BisectWord.FOUND  # of several culprits all together are proved
            named = Verdict.PASSED if proved else Verdict.INCONCLUSIVE
            check = Check(
                f"{_CULPRIT}{culprit.name}", named, culprit.sentence(), 0.0, culprit.figures(), subject=culprit.name
            )
            record.checks.append(check)
        if not any(check.verdict is verdict for check in record.checks):
            record.checks.append(Check(_SEARCH, verdict, self.reason, seconds))
        unresolved = [test for test in self.tests if test.settled.word is SetWord.UNRESOLVED]
        for number, test in enumerate(unresolved, 1):
            reason = f"{text.first_few(sorted(test.units))}: {test.settled.reason}"
            record.checks.append(Check(f"{_UNRESOLVED}{number}", Verdict.SKIPPED, reason, test.seconds))
        record.provenance |= self._facts(len(unresolved))
        record.seconds = seconds
        record.verdict = record.overall

    def _facts(self, unresolved: int) -> dict[str, Figure]:
        inside = sum(culprit.guilty.launches for culprit in self.culprits if culprit.guilty)
        facts: dict[str, Figure] = {
            "bisect": self.word.value, "changes": "\n".join(self.changes), "tests": len(self.tests),
            "launches": sum(test.settled.runs for test in self.tests) + inside, "unresolved": unresolved,
            "journal": self.journal, "subject": self.subject,
        }  # fmt: skip
        texts = {
            "held": "; ".join(self.immovable), "notes": "; ".join(self.notes),
            "remedy": "; ".join(culprit.remedy for culprit in self.culprits),
        }  # fmt: skip
        return facts | {name: text for name, text in texts.items() if text}


def headline(record: Record) -> str:
    names = " and ".join(check.subject for check in culprits(record))
    word = str(record.provenance.get("bisect", record.verdict.value))
    ends = next((check.reason for check in record.checks if check.id == _ENDS), "")
    return f"{word}: {names}" if names else f"{word}: {ends}"


def culprits(record: Record) -> list[Check]:
    return [check for check in record.checks if check.id.startswith(_CULPRIT)]


def lines(record: Record) -> Iterator[tuple[str, str]]:
    facts = record.provenance
    if culprits(record):
        yield "what is worse", next(check.reason for check in record.checks if check.id == _ENDS)
    for check in culprits(record):
        yield check.subject, check.reason
    for check in record.checks:
        if check.id == _SEARCH and check.verdict is not Verdict.PASSED:
            yield "search", check.reason
        if check.id.startswith(_UNRESOLVED):
            yield "unresolved", check.reason
    tests = f"{facts.get('tests', 0)} of sets, {facts.get('launches', 0)} launches after the confirmation"
    for title, sentence in (
        ("cannot be moved here", facts.get("held")), ("notes", facts.get("notes")),
        ("tests", f"{tests}, {record.seconds / 60:.1f} min"), ("what to do", facts.get("remedy")),
    ):  # fmt: skip
        if sentence is not None:
            yield title, str(sentence)


def _parts(record: Record) -> list[outline.Part]:
    return [outline.TextLine((outline.Span(title, strong=True), f": {said}"), 1) for title, said in lines(record)]


def show(record: Record, console: Console) -> None:
    style = "bold green" if record.verdict is Verdict.PASSED else "bold yellow"
    outline.show([outline.TextLine(outline.Span(headline(record), style)), *_parts(record)], console)


def markdown(record: Record) -> str:
    changes = [outline.TextLine(line, 1) for line in str(record.provenance.get("changes", "")).split("\n") if line]
    folded = [outline.Fold("all changes between the ends", changes)] if changes else []
    return outline.markdown([outline.Heading(f"stackproof bisect: {headline(record)}", 3), *_parts(record), *folded])

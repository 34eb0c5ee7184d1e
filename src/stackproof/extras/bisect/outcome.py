"""What a bisection ends with: its word, the culprits with their effect and their remedy; the record that is made of it, and its page."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from rich.console import Console
from rich.text import Text

from stackproof.api.base import counted, in_markdown, plain
from stackproof.api.comparison import percent
from stackproof.api.record import Check, Figure, Record, Verdict, overall
from stackproof.extras.bisect.commits import LOCAL
from stackproof.extras.bisect.evidence import SetWord, below
from stackproof.extras.bisect.search import FirstBad, SetTest
from stackproof.extras.bisect.splits import Blame

NOT_REPRODUCED = 7
"""The exit code of an answer of its own: both ends are alike, so there is nothing to search for."""
_REACH = 1.96
_CULPRIT, _UNRESOLVED = "bisect/culprit::", "bisect/unresolved::"


class BisectWord(str, Enum):
    """In one word how it ended."""

    FOUND = "FOUND"
    UNPROVED = "UNPROVED"
    NOT_REPRODUCED = "NOT REPRODUCED"
    CANNOT_SAY = "CANNOT SAY"
    GOOD_TURNED_BAD = "GOOD SIDE TURNED BAD"
    INTERRUPTED = "INTERRUPTED"


@dataclass(frozen=True)
class Culprit:
    """One culprit, in words; `figures`: its effect, where it has a size."""

    label: str
    blame: Blame
    remedy: str
    command: str
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
        alone = "together they are" if several else "on the good side it is"
        if self.guilty and not several:
            alone = "the whole of it on the good side is"
        told = [
            f"{alone} {self.blame.alone.value}{self._effect()}{self._failed('alone')}",
            f"the bad side without {'them' if several else 'it'} is {self.blame.without.value}{self._failed('without')}",
        ]
        if several and self.open_parts:
            told.append(
                f"whether all of them are needed is open: {self.open_parts} sets of some of them could not be tested"
            )
        elif several:
            told.append("none of them is bad without the others: an interaction")
        if self.blame.without is SetWord.BAD:
            told[1] += ", because there is another"
        return "; ".join([*told, *self._commits()])

    def _failed(self, half: str) -> str:
        """Say how often a half of the proof failed; of one that never did, what would have shown."""
        failed, runs = self.failed.get(half, (0, 0))
        if not runs:
            return ""
        shown = "" if failed else f"; a failure in {below(runs):.0%} of them or more would have shown, 95 % sure"
        return f" (failed in {failed} of {counted(runs, 'run')}{shown})"

    def _effect(self) -> str:
        if not self.noise or not self.ratios:
            return ""
        return (
            f", {percent(self._centre)} [{percent(self._centre - self._reach)}, {percent(self._centre + self._reach)}]"
        )

    @property
    def _centre(self) -> float:
        return sum(self.ratios) / len(self.ratios)

    @property
    def _reach(self) -> float:
        return _REACH * self.noise / math.sqrt(len(self.ratios))

    def _commits(self) -> list[str]:
        if self.guilty is None:
            return []
        found = self.guilty
        names = ", ".join(f"{one[:10]} ({self.subjects[one]})" if one in self.subjects else one for one in found.names)
        which = "the first bad commit is" + ("" if len(found.names) == 1 else " one of")
        skipped = f"; {len(found.unresolved)} could not be run" if found.unresolved else ""
        return [f"{which} {names}, {found.sure:.1%} sure among {found.among} after {found.launches} launches{skipped}"]

    def figures(self) -> dict[str, Figure]:
        """Return what a record keeps of its size."""
        found: dict[str, Figure] = {"alone": self.blame.alone.value, "without": self.blame.without.value}
        for half, (failed, runs) in self.failed.items():
            found |= {f"{half}, failed": failed, f"{half}, runs": runs}
        if self.noise and self.ratios:
            low, high = self._centre - self._reach, self._centre + self._reach
            found |= {"ratio": math.exp(self._centre), "ratio, low": math.exp(low), "ratio, high": math.exp(high)}
        return found


@dataclass
class BisectOutcome:
    """All that a bisection found out."""

    word: BisectWord
    reason: str
    symptom: str = ""
    culprits: list[Culprit] = field(default_factory=list)
    tests: Sequence[SetTest] = ()
    changes: Sequence[str] = ()
    go_on: str = ""
    """What goes on then, when it is pasted to a shell."""
    held: Sequence[str] = ()
    """What differs too, and cannot be moved here."""
    notes: list[str] = field(default_factory=list)
    journal: str = ""
    subject: str = ""
    """Of what the symptom was: a subject of the gate, a check, or a command."""

    @property
    def exit_code(self) -> int:
        """Return the exit code: named and proved is success."""
        verdict = _VERDICTS[self.word]
        return NOT_REPRODUCED if self.word is BisectWord.NOT_REPRODUCED else verdict.exit_code

    def into(self, record: Record, seconds: float) -> None:
        """Add the checks and the facts, and give the record its verdict."""
        verdict = _VERDICTS[self.word]
        record.checks.append(Check("bisect/run::ends", self._of_ends(), self.symptom or self.reason, 0.0))
        for one in self.culprits:
            proved = one.proved or self.word is BisectWord.FOUND  # of several culprits all together are proved
            named = Verdict.PASSED if proved else Verdict.INCONCLUSIVE
            record.checks.append(
                Check(f"bisect/culprit::{one.name}", named, one.sentence(), 0.0, one.figures(), subject=one.name)
            )
        if not any(check.verdict is verdict for check in record.checks):
            record.checks.append(Check("bisect/run::search", verdict, self.reason, seconds))
        record.checks += self._unresolved()
        record.provenance |= self._facts()
        record.seconds = seconds
        record.verdict = overall(check.verdict for check in record.checks)

    def _of_ends(self) -> Verdict:
        if self.symptom:
            return Verdict.PASSED
        return _VERDICTS[self.word]

    def _unresolved(self) -> list[Check]:
        lost = [one for one in self.tests if one.settled.word is SetWord.UNRESOLVED]
        return [
            Check(
                f"bisect/unresolved::{number}",
                Verdict.SKIPPED,
                f"{_shown(one.units)}: {one.settled.reason}",
                one.seconds,
            )
            for number, one in enumerate(lost, 1)
        ]

    def _facts(self) -> dict[str, Figure]:
        facts: dict[str, Figure] = {
            "bisect": self.word.value,
            "changes": "\n".join(self.changes),
            "tests": len(self.tests),
            "launches": sum(one.settled.runs for one in self.tests)
            + sum(one.guilty.launches for one in self.culprits if one.guilty),
            "unresolved": sum(one.settled.word is SetWord.UNRESOLVED for one in self.tests),
            "journal": self.journal,
            "subject": self.subject,
        }
        facts |= {"held": "; ".join(self.held)} if self.held else {}
        facts |= {"notes": "; ".join(self.notes)} if self.notes else {}
        facts |= {"remedy": "; ".join(one.remedy for one in self.culprits)} if self.culprits else {}
        facts |= {"go on": self.go_on} if self.go_on else {}
        return facts | ({"repeat": self.culprits[0].command} if self.culprits else {})


_VERDICTS = {
    BisectWord.FOUND: Verdict.PASSED,
    BisectWord.UNPROVED: Verdict.INCONCLUSIVE,
    BisectWord.NOT_REPRODUCED: Verdict.INCONCLUSIVE,
    BisectWord.CANNOT_SAY: Verdict.INCONCLUSIVE,
    BisectWord.GOOD_TURNED_BAD: Verdict.INCONCLUSIVE,
    BisectWord.INTERRUPTED: Verdict.INTERRUPTED,
}


def _shown(units: frozenset[str]) -> str:
    names = sorted(units)
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def headline(record: Record) -> str:
    """Return the one line that decides."""
    names = " and ".join(check.subject for check in culprits(record))
    word = str(record.provenance.get("bisect", record.verdict.value))
    ends = next((check.reason for check in record.checks if check.id == "bisect/run::ends"), "")
    return f"{word}: {names}" if names else f"{word}: {ends}"


def culprits(record: Record) -> list[Check]:
    """Return the checks that name a culprit."""
    return [check for check in record.checks if check.id.startswith(_CULPRIT)]


def lines(record: Record) -> Iterator[tuple[str, str]]:
    """Yield what there is to say, each with its title."""
    facts = record.provenance
    if culprits(record):
        yield "what is worse", next(check.reason for check in record.checks if check.id == "bisect/run::ends")
    for check in culprits(record):
        yield check.subject, check.reason
    for check in record.checks:
        if check.id == "bisect/run::search" and check.verdict is not Verdict.PASSED:
            yield "search", check.reason
        if check.id.startswith(_UNRESOLVED):
            yield "unresolved", check.reason
    for name in ("held", "notes"):
        if name in facts:
            yield {"held": "cannot be moved here"}.get(name, name), str(facts[name])
    yield (
        "tests",
        f"{facts.get('tests', 0)} of sets, {facts.get('launches', 0)} launches after the confirmation, {record.seconds / 60:.1f} min",
    )
    for name, title in (("remedy", "what to do"), ("repeat", "to see it again"), ("go on", "to go on")):
        if name in facts:
            yield title, str(facts[name])


def show(record: Record, console: Console) -> None:
    """Print it."""
    style = "bold green" if record.verdict is Verdict.PASSED else "bold yellow"
    console.print(Text(plain(headline(record)), style=style), soft_wrap=True)
    for title, text in lines(record):
        console.print(Text(f"  {plain(title)}: {plain(text)}"), soft_wrap=True)


def markdown(record: Record) -> str:
    """Return it for a pull request."""
    parts = [f"### stackproof bisect: {in_markdown(headline(record))}", ""]
    parts += [f"- **{in_markdown(title)}**: {in_markdown(text)}" for title, text in lines(record)]
    changes = str(record.provenance.get("changes", ""))
    if changes:
        parts += ["", "<details><summary>all changes between the ends</summary>", ""]
        parts += [f"- {in_markdown(one)}" for one in changes.split("\n")]
        parts += ["", "</details>"]
    return "\n".join([*parts, ""])

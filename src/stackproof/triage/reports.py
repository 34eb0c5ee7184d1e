"""One report for each run whose logs were given: what failed, what holds, what the figures say."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from ..errors import Refusal, suggestion
from . import expectations, facts, oddities, rules, signatures, training
from .expectations import Answer, Conflict
from .facts import Setting, Shown
from .judging import Judgement, judge
from .oddities import Oddity
from .probes import Hit, Probe
from .scanning import Evidence, scan
from .sources import Run
from .training import Training


@dataclass(frozen=True)
class Report:
    """What the logs of one run say."""

    name: str
    evidence: Evidence
    judgement: Judgement
    shown: tuple[Shown, ...]
    settings: tuple[Setting, ...]
    conflicts: tuple[Conflict, ...]
    answers: tuple[Answer, ...]
    training: Training | None
    oddities: tuple[Oddity, ...]

    @property
    def wrong(self) -> list[Oddity]:
        """What cannot be right in the training's own figures."""
        return [oddity for oddity in self.oddities if oddity.wrong]

    @property
    def clean(self) -> bool:
        """Whether nothing failed, nothing contradicts what was asked for, and every expectation holds."""
        contradicted = self.conflicts or self.settings
        return not (self.judgement.root or self.wrong or contradicted) and all(answer.holds for answer in self.answers)

    def place(self, hit: Hit) -> str:
        """File and line of a hit."""
        return self.evidence.place(hit)


@cache
def probes() -> tuple[Probe, ...]:
    """Return everything that is looked for."""
    return tuple(_probes())


def _probes() -> Iterator[Probe]:
    for row in signatures.load_all():
        yield row.probe
        yield from row.conditions
    yield from rules.probes()
    yield from (line.probe for line in training.lines())


def report(run: Run, expected: Sequence[str] = ()) -> Report:
    """Read the logs of a run and say what they hold.

    Raises:
        Refusal: a log cannot be read, or all of them are empty; an expectation is not known.
    """
    check_expectations(expected)
    evidence = scan(run.sources, probes())
    _check_readable(evidence)
    found = training.read(evidence)
    return Report(
        name=run.name,
        evidence=evidence,
        judgement=judge(evidence),
        shown=tuple(facts.shown(evidence)),
        settings=tuple(facts.differing(evidence)),
        conflicts=tuple(expectations.conflicts(evidence)),
        answers=tuple(expectations.answer(name, evidence) for name in expected),
        training=found,
        oddities=tuple(oddities.oddities(found)) if found else (),
    )


def _check_readable(evidence: Evidence) -> None:
    """Refuse to call clean what says nothing: empty files, and files that are no text."""
    names = ", ".join(file.name for file in evidence.files[:3])
    if not any(file.bytes for file in evidence.files):
        damage = next((file.damage for file in evidence.files if file.damage), "is empty")
        raise Refusal(f"{names}: {damage}, so nothing can be said of it; name the log of a run")
    if not evidence.tallies and not any(file.text for file in evidence.files):
        raise Refusal(f"{names}: is not text in UTF-8, so nothing can be said of it; name the log of a run")


def check_expectations(names: Iterable[str]) -> None:
    """Refuse an expectation that is not in the table."""
    known = rules.expectations()
    for name in names:
        if name not in known:
            allowed = ", ".join(sorted(known))
            raise Refusal(f"there is no expectation {name!r}{suggestion(name, known)}; one of: {allowed}")

"""How findings are put into words, for terminals, records and other verdicts alike."""

from __future__ import annotations

from collections.abc import Sequence

from . import UNKNOWN
from .facts import Shown
from .judging import Finding, Judgement
from .probes import Hit, Who
from .reports import Report
from .signatures import CONSEQUENCE
from .training import Training

__all__ = ["UNKNOWN", "confidence", "headline", "people", "place", "sentence", "training", "values"]

_MOST_RANKS = 6


def people(who: Sequence[Who]) -> str:
    """Return who it happened to: ranks as numbers and ranges, the first to fail first; nothing when the log does not say."""
    ranks = [number for kind, number in who if kind == "rank"]
    if ranks:
        rest = _ranges(sorted(ranks[1:]))
        return f"rank {ranks[0]}" + (f" (then {rest})" if rest else "")
    processes = [number for kind, number in who if kind == "pid"]
    return f"process {processes[0]}" if processes else ""


def _ranges(numbers: list[int]) -> str:
    spans: list[list[int]] = []
    for number in numbers:
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    shown = [str(first) if first == last else f"{first}-{last}" for first, last in spans]
    return ", ".join(shown[:_MOST_RANKS]) + (" ..." if len(shown) > _MOST_RANKS else "")


def place(report: Report, hit: Hit) -> str:
    """Return where a line stands: its number, with the file where the run has several."""
    return report.place(hit) if len(report.evidence.files) > 1 else f"line {hit.place.line}"


def headline(report: Report) -> tuple[str, str]:
    """Return the first line of a report: a word that is the verdict, and the sentence for it."""
    judgement = report.judgement
    if judgement.root:
        return _root(judgement.root)
    if report.wrong:
        return "WRONG", report.wrong[0].sentence
    if report.conflicts:
        return "CONTRADICTION", report.conflicts[0].rule.title
    if report.settings:
        row = report.settings[0]
        return "CONTRADICTION", f"{row.name}={row.asked} was asked for, {row.in_effect} is in effect"
    refuted = [answer for answer in report.answers if not answer.holds]
    if refuted:
        return "NOT HELD", f"{refuted[0].expectation.name}: {refuted[0].sentence}"
    lines = sum(file.lines for file in report.evidence.files)
    return "NOTHING WRONG FOUND", f"in {lines} lines of {len(report.evidence.files)} file(s)"


def _root(root: Finding) -> tuple[str, str]:
    who = people(root.who)
    at = f"{who}: " if who else ""
    if root.kind == CONSEQUENCE:
        return "ONLY A CONSEQUENCE", f"{at}{root.title}; what failed first is not in this log"
    if not root.signature:
        return "ROOT CAUSE", f"{at}{root.title} ({UNKNOWN})"
    return "ROOT CAUSE", f"{at}{root.title}"


def confidence(root: Finding, judgement: Judgement) -> str:
    """Return how sure the root cause is, and what limits that."""
    word = root.certainty or "unknown: no signature fits"
    doubt = "" if judgement.ordered else "; the logs do not show which rank failed first"
    return f"{word}{doubt}"


def sentence(report: Report) -> str | None:
    """Return the root cause in one sentence with cause, remedy and link; None if the logs hold no failure."""
    root = report.judgement.root
    if root is None:
        return report.wrong[0].sentence if report.wrong else None
    _, title = headline(report)
    after = f" in {report.judgement.collective}" if report.judgement.collective and not root.signature else ""
    if not root.signature:
        return f"{title}{after}"
    return f"{title} [{root.signature}, {root.certainty}]: {root.cause} {root.remedy.rstrip('.')} ({root.link})"


def values(row: Shown) -> str:
    """Return the values of a fact; those that were seen on several lines with how many."""
    several = len(row.values) > 1
    return ", ".join(f"{value} ({count})" if several else value for value, count in row.values)


def training(found: Training) -> str:
    """Return the figures of a training run in one line."""
    losses = found.series.get("loss", [])
    parts = [
        f"{found.steps} steps" if found.steps else "",
        f"{found.samples_per_second:g} samples/s" if found.samples_per_second else "",
        f"{found.steps_per_second:.3g} steps/s" if found.steps_per_second else "",
        f"loss {losses[0]:g} -> {losses[-1]:g}" if losses else "",
        f"mean {found.figures['train_loss']:g}" if "train_loss" in found.figures else "",
        f"world size {found.world_size}" if found.world_size else "",
        f"trainable {found.figures['trainable']:,.0f}" if "trainable" in found.figures else "",
        f"of {found.figures['parameters']:,.0f} parameters" if "parameters" in found.figures else "",
        f"{found.memory_gb:g} GB" if found.memory_gb else "",
        f"in {found.seconds:.0f} s" if found.seconds else "",
    ]
    return f"{', '.join(part for part in parts if part)} ({', '.join(found.trainers)})"

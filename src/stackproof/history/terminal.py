"""The history in a terminal: a row for each series, with a line of bars, and the changes that were flagged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median

from rich.console import Console

from stackproof.base import advice
from stackproof.base.processes import BUSY
from stackproof.base.text import rate, shown
from stackproof.history.timeline import Change, History, Series, flagged
from stackproof.record import outline
from stackproof.record.console import plain_console
from stackproof.record.outline import Cell, Part, Span, TextLine, TextTable
from stackproof.record.reference import find
from stackproof.record.store import rules

_BARS = "▁▂▃▄▅▆▇█"
_MOST_BARS = 24
_MOST_CHANGES = 10
_HEADS = ("what", "preset", "now", "±", "since before", "trend", "reference")


def show(histories: Sequence[History], problems: Sequence[str], console: Console | None = None) -> None:
    """Print every place, its changes, and what was wrong with the store."""
    outline.show(_parts(histories, problems), console or plain_console())


def _parts(histories: Sequence[History], problems: Sequence[str]) -> Iterator[Part]:
    for history in histories:
        title = f"{history.place.label}: {len(history.stays)} state{'s' * (len(history.stays) != 1)}"
        yield TextTable(_HEADS, [_row(series) for series in history.series], title, right=(2, 3, 4), wide=(0, 6))
        for step in history.changes[:_MOST_CHANGES]:
            yield TextLine(Span(_sentence(step), "red" if step.worse else "green"))
    if not histories:
        yield TextLine(f"there are no figures yet; `{advice.command('NAME', 'bench')}` makes some")
    for sentence in problems:
        yield TextLine(Span(sentence, "bold red"))


def _row(series: Series) -> tuple[Cell, ...]:
    unit = series.key.unit
    known = find(series.key.subject, series.key.preset, unit)
    return (
        series.key.subject,
        Span(series.key.preset, "dim"),
        shown(series.newest.seconds.median, unit),
        Span(f"{series.newest.seconds.relative:.1%}", "dim"),
        _moved(series.last),
        Span(bars([rate(point.seconds.median, unit)[0] for point in series.points[-_MOST_BARS:]]), "cyan"),
        Span("; ".join(f"{shown(row.seconds, row.unit)} on {row.device}" for row in known), "dim"),
    )


def bars(values: Sequence[float]) -> str:
    """Return a bar for each value, higher for larger ones, in a range as wide as a flag would need, so that noise looks small."""
    middle, share = median(values), rules().share
    low, high = min(*values, middle * (1 - share)), max(*values, middle * (1 + share))
    return "".join(_BARS[round((value - low) / (high - low) * (len(_BARS) - 1))] for value in values)


def _moved(step: Change | None) -> Span:
    if step is None:
        return Span("first", "dim")
    style = ("bold red" if step.worse else "green") if flagged(step) else "dim"
    return Span(f"{step.ratio - 1:+.1%}{f' ({BUSY})' if step.busy else ''}", style)


def _sentence(step: Change) -> str:
    before, after = (shown(point.seconds.median, step.key.unit) for point in (step.before, step.after))
    word = "worse" if step.worse else "better"
    text = f"{step.after.when:%Y-%m-%d}  {step.ratio - 1:+.1%} {word}  {step.key.subject} ({step.key.preset}): {before} -> {after}"
    return f"{text}; {step.after.because}"

"""The history in a terminal: a row for each series, with a line of bars, and the changes that were flagged."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from stackproof.base import advice
from stackproof.base.processes import BUSY
from stackproof.base.text import plain, rate, shown
from stackproof.history.timeline import Change, History, Series, flagged, span
from stackproof.record.console import plain_console
from stackproof.record.reference import find

_BARS = "▁▂▃▄▅▆▇█"
_MOST_BARS = 24
_MOST_CHANGES = 10


def show(histories: Sequence[History], problems: Sequence[str], console: Console | None = None) -> None:
    """Print every place, its changes, and what was wrong with the store."""
    console = console or plain_console()
    for one in histories:
        console.print(_place(one))
        for step in one.changes[:_MOST_CHANGES]:
            console.print(_sentence(step), soft_wrap=True)
    if not histories:
        console.print(Text(f"there are no figures yet; `{advice.command('NAME', 'bench')}` makes some"))
    for sentence in problems:
        console.print(Text(plain(sentence), style="bold red"), soft_wrap=True)


def _place(history: History) -> Table:
    title = Text(plain(f"{history.place.label}: {len(history.stays)} state{'s' * (len(history.stays) != 1)}"))
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    for name in ("what", "preset"):
        table.add_column(name, overflow="fold")
    for name in ("now", "±", "since before"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("trend", no_wrap=True)
    table.add_column("reference", overflow="fold")
    for one in history.series:
        table.add_row(*_row(one))
    return table


def _row(one: Series) -> tuple[Text, ...]:
    unit = one.key.unit
    known = "; ".join(
        f"{shown(row.seconds, row.unit)} on {row.device}" for row in find(one.key.subject, one.key.preset, unit)
    )
    return (
        Text(plain(one.key.subject)),
        Text(one.key.preset, style="dim"),
        Text(shown(one.newest.seconds.median, unit)),
        Text(f"{one.newest.seconds.relative:.1%}", style="dim"),
        _moved(one.last),
        Text(bars([rate(point.seconds.median, unit)[0] for point in one.points[-_MOST_BARS:]]), style="cyan"),
        Text(plain(known), style="dim"),
    )


def bars(values: Sequence[float]) -> str:
    """Return a bar for each value, higher for larger ones; values that hardly differ stand in the middle."""
    low, high = span(values)
    return "".join(_BARS[round((value - low) / (high - low) * (len(_BARS) - 1))] for value in values)


def _moved(step: Change | None) -> Text:
    if step is None:
        return Text("first", style="dim")
    style = ("bold red" if step.worse else "green") if flagged(step) else "dim"
    return Text(f"{step.ratio - 1:+.1%}{f' ({BUSY})' if step.busy else ''}", style=style)


def _sentence(step: Change) -> Text:
    before, after = (shown(point.seconds.median, step.key.unit) for point in (step.before, step.after))
    word = "worse" if step.worse else "better"
    told = f"{step.after.when:%Y-%m-%d}  {step.ratio - 1:+.1%} {word}  {step.key.subject} ({step.key.preset}): {before} -> {after}"
    return Text(plain(f"{told}; {step.after.because}"), style="red" if step.worse else "green")

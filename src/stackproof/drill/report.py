"""The drill on the terminal: a line for each fault as it ends."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from rich.console import Console
from rich.text import Text

from stackproof.base.text import plain
from stackproof.record.records import Check, Record, Verdict

_NAME, _CHECK = 46, 58


class LiveTable:
    """Prints a table as its rows come in: fault, the check that went red, how many others stayed green."""

    def __init__(self, console: Console, total: int) -> None:
        self.console, self._total, self._done = console, total, 0
        self._line("", "fault", "caught by", "green", "s", "bold")

    def show(self, check: Check) -> None:
        """Show one row; what went wrong stands below it."""
        self._done += 1
        passed = check.verdict is Verdict.PASSED
        place = (
            f"[{self._done}/{self._total}] {'caught' if check.figures.get('red') and passed else check.verdict.value}"
        )
        green = str(check.figures.get("green", check.figures.get("passed", "")))
        caught = str(check.figures.get("red", "") or "nothing is red") if passed else "see below"
        self._line(place, check.id, caught, green, f"{check.seconds:.0f}", "green" if passed else "bold red")
        if not passed:
            self.console.print(Text(f"    {plain(check.reason)}", style="red"), soft_wrap=True)

    def _line(self, place: str, name: str, caught: str, green: str, seconds: str, style: str) -> None:
        text = f"{place:<18} {plain(name):<{_NAME}} {plain(caught):<{_CHECK}} {green:>5} {seconds:>5}"
        self.console.print(Text(text, style=style), soft_wrap=True)


def close(console: Console, record: Record, where: Path) -> None:
    """Say what the drill came to."""
    counts = Counter(check.verdict for check in record.checks)
    said = ", ".join(f"{counts[verdict]} {verdict.value}" for verdict in Verdict if counts[verdict])
    faults = f"{record.provenance['faults']} of {record.provenance['of']} faults"
    console.print(Text(f"{record.verdict.value.upper()}  drill: {faults}; {said} in {record.seconds:.0f} s"))
    console.print(Text(f"record: {where}", style="dim"), soft_wrap=True)

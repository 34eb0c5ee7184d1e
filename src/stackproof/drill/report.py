"""The drill for people: a line on the terminal for each fault as it ends, and the page that is written from its record."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

from stackproof import ROOT
from stackproof.base.errors import Refusal
from stackproof.base.files import write_atomically
from stackproof.base.text import in_markdown, plain
from stackproof.drill.compare import NAME
from stackproof.drill.table import AREAS, Fault, Faults
from stackproof.record.records import Check, Figure, Kind, Record, Verdict

PAGE = ROOT / "docs" / "drill.md"
_MOST_SAID = 160
_BEFORE = 40
_IN_PARTS = "; in parts: what had passed stood, the rest ran again"
_SINCE = "## Since the last whole run"
_SINCE_HEAD = f"""{_SINCE}

Rows that no whole run of the drill has seen yet; each was seen caught alone. `nox -s drill -- --only ID` runs one;
the next whole run moves them up.

| fault | imitates | must be caught by |
|---|---|---|
"""

_HEAD = """# The drill: every check is seen to fail
<!-- Written by `nox -s drill -- --write-page` from the record of a whole run; `-- --list-new` adds the rows that came later. -->

Each row is a fault that was injected into a run of a public verb, on {hardware}, and the check that went red for it. The drill holds the
row against the record of the run: the fault fired, the check failed for the reason that is named and with the exit code, and every
other check of that run stayed green. Afterwards the same runs without a fault have nothing red.

`nox -s drill` runs all of it, `nox -s drill -- --fast` a part, `nox -s drill -- --only ID` one row. The rows are data
(`data/faults.toml`): a new check needs a new row there, and a row that nothing catches fails.

Most seconds of a run are imports, so the processes that run checks, and ranks, are forked from one that has imported torch and
other packages, and nothing of ours: it has no thread when it forks, it has run no work and opened no device. The forked process
takes its own variables, path, folder, output and session, loads what was planted, and only then imports ours: the command, the
checks and the record are those of a process that starts afresh. What a fork cannot make equal starts afresh: another interpreter,
variables that an import may have read, a row about how a process starts or who its parent is, and the verb, which judges. A fork that did
not reach the fault shows: the fault then never fires, or the check stays green, and the row fails. `--afresh` forks nothing.
"""


def write(record: Record, table: Faults, path: Path = PAGE) -> Path:
    """Write the page, and refuse a record that holds a part of the drill only."""
    if record.provenance["faults"] != record.provenance["of"]:
        raise Refusal("--write-page: the page is about all faults; leave out --only and --fast")
    write_atomically(path, markdown(record, table))
    return path


def list_new(rows: Sequence[Fault], path: Path = PAGE) -> int:
    """Write the rows that the page's record lacks under a heading of their own; return how many there are."""
    whole, found, rest = _without_new(path.read_text(encoding="utf-8"))
    new = [row for row in rows if f"| `{row.id}` |" not in whole + rest]
    section = _SINCE_HEAD + "".join(f"{_new(row)}\n" for row in new) + "\n" if new else ""
    write_atomically(path, f"{whole}{section}{found}{rest}")
    return len(new)


def _without_new(page: str) -> tuple[str, str, str]:
    """Return what stands before the new rows, the heading after them, and the rest."""
    whole, _, after = page.partition(f"{_SINCE}\n")
    if not after:
        return page.partition("## Without a fault\n")
    return whole, *after[after.index("## Without a fault\n") :].partition("## Without a fault\n")[1:]


def _new(row: Fault) -> str:
    caught = ", ".join(_cell(name) for name in (*row.expected.red, *row.expected.noted))
    return f"| `{row.id}` | {_cell(row.imitates)} ({_source(row.source)}) | {caught} |"


def markdown(record: Record, table: Faults) -> str:
    """Return the page's text."""
    return "\n".join(_lines(record, table)) + "\n"


def _lines(record: Record, table: Faults) -> Iterator[str]:
    faults = [check for check in record.checks if check.kind is Kind.FAULT]
    clean = [check for check in record.checks if check.kind is Kind.CLEAN]
    caught = sum(check.verdict is Verdict.PASSED for check in faults)
    facts = record.provenance
    yield _HEAD.format(hardware="the CPU and the simulated accelerator")
    yield (
        f"Of {len(faults)} faults of the last whole run {caught} were caught, and {len(clean)} runs without a fault raised "
        f"{sum(check.verdict is not Verdict.PASSED for check in clean)} alarms"
        f" (Python {facts['python']}, {facts['cpus']} CPUs, {record.seconds:.0f} s{_used(facts)}"
        f"{_IN_PARTS if 'continued from' in facts else ''})."
    )
    yield from _families(faults, table)
    for area in AREAS:
        rows = [check for check in faults if check.group == area]
        if rows:
            yield f"\n## {area.capitalize()}\n"
            yield from _table(rows)
    yield "\n## Without a fault\n"
    yield "| run | verdict | what was seen |"
    yield "|---|---|---|"
    yield from (f"| {_cell(check.id)} | {check.verdict.value} | {_cell(check.reason)} |" for check in clean)
    yield from _uncovered(next(check for check in record.checks if check.id == NAME))


def _used(facts: Mapping[str, Figure]) -> str:
    """Say how long the cores worked for it, where the record has it for the whole."""
    used = facts.get("core seconds") if "continued from" not in facts else None
    return f", {used} s of a core's work" if used else ""


def _families(faults: list[Check], table: Faults) -> Iterator[str]:
    """Say how much of each family of faults was planted, and what of it was not."""
    yield "\n## Families of faults\n"
    yield "| family | caught | not planted here |"
    yield "|---|---|---|"
    passed = {check.subject: check.verdict is Verdict.PASSED for check in faults}
    for family in table.families:
        seen = [passed[row.id] for row in table.rows if row.id in passed and family.has(row)]
        caught = f"{sum(seen)} of {len(seen)}" if seen else "none is planted"
        yield f"| {in_markdown(family.name)} | {caught} | {in_markdown(family.beyond)} |"


def _table(rows: list[Check]) -> Iterator[str]:
    yield "| fault | imitates | injected | caught by | said | others green | exit code |"
    yield "|---|---|---|---|---|---|---|"
    for check in rows:
        told = check.figures
        caught = _cell(told["red"]) if check.verdict is Verdict.PASSED else f"**{check.verdict.value}**"
        said = _around(check.reason, str(told["words"])) if check.verdict is Verdict.PASSED else check.reason
        cells = (
            f"`{check.subject}`",
            f"{_cell(told['imitates'])} ({_source(str(told['source']))})",
            _cell(told["injected"]),
            caught,
            _cell(said),
            str(told["green"]),
            str(told["exit code"]),
        )
        yield f"| {' | '.join(cells)} |"


def _uncovered(check: Check) -> Iterator[str]:
    yield "\n## Checks that no fault of the drill covers\n"
    if not check.figures:
        yield "None."
        return
    yield "| checks | why |"
    yield "|---|---|"
    yield from (f"| `{name}` | {_cell(reason)} |" for name, reason in check.figures.items())


def _around(reason: str, words: str) -> str:
    """Return the part of a reason in which the words stand that the row asks for."""
    first = words.split(" | ", 1)[0]
    after = _lasting(reason).partition(": ")[2]
    place = after.find(first)
    begin = max(0, min(place - _BEFORE, len(after) - _MOST_SAID + 3)) if place > _BEFORE else 0
    return f"... {after[begin:]}" if begin else after


def _source(text: str) -> str:
    return f"[thread]({text})" if text.startswith("https://") else _cell(text)


def _lasting(text: str) -> str:
    """Return text without the folders of one run and of one checkout, which have no place on a page."""
    text = text.replace(f"{ROOT}/", "")
    return re.sub(r"/\S*?stackproof-drill-[^/\s]+/[^/\s]+/", "", text)


def _cell(text: Figure) -> str:
    """Return text that stays inside its cell and means nothing to Markdown."""
    told = _lasting(str(text))
    short = told if len(told) <= _MOST_SAID else f"{told[: _MOST_SAID - 3]}..."
    return in_markdown(short)


_NAME, _CHECK = 46, 58


class LiveTable:
    """Prints a table as its rows come in: fault, the check that went red, how many others stayed green."""

    def __init__(self, console: Console, total: int) -> None:
        self.console, self._total, self._done = console, total, 0
        self._line("", "fault", "caught by", "green", "s", "bold")

    def told(self, check: Check) -> None:
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

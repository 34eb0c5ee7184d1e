"""The page of the drill: every fault of the table, and the check that must go red for it. `tools.docs_site` puts it among the pages."""

from __future__ import annotations

from collections.abc import Iterator

from stackproof.base.text import in_markdown
from stackproof.drill.table import AREAS, Fault, Faults

_HEAD = """# The drill: every check is seen to fail

Each row is a fault that the drill injects into a run of a public verb, on the CPU and the simulated accelerator, and the checks that
must go red for it: with the words that the row names, with its exit code, and with every other check of that run green. Afterwards
the same runs without a fault must have nothing red.

`nox -s drill` runs all of it, `nox -s drill -- --fast` a part, `nox -s drill -- --only ID` one row. A new check needs a new row, and
a row that nothing catches fails. Processes that run checks are forked from one that has imported torch and nothing of ours, which
saves most of the seconds; rows about how a process starts, and `--afresh`, fork nothing.

## Families

| family | faults | not planted here |
|---|---|---|"""


def page(faults: Faults) -> str:
    """Return the page in Markdown."""
    return "\n".join(_lines(faults)) + "\n"


def _lines(faults: Faults) -> Iterator[str]:
    yield _HEAD
    for family in faults.families:
        planted = sum(family.has(row) for row in faults.rows)
        yield f"| {in_markdown(family.name)} | {planted or 'none'} | {in_markdown(family.beyond)} |"
    for area in AREAS:
        yield f"\n## {area.capitalize()}\n\n| fault | imitates | checks that must fail | exit code |\n|---|---|---|---|"
        yield from (_row(row) for row in faults.rows if row.area == area)
    yield "\n## Checks that no fault covers\n\n| checks | why |\n|---|---|"
    yield from (f"| {in_markdown(excuse.checks)} | {in_markdown(excuse.reason)} |" for excuse in faults.excuses)


def _row(row: Fault) -> str:
    source = f"[thread]({row.source})" if row.source.startswith("https://") else in_markdown(row.source)
    checks = " ".join(f"`{name}`" for name in (*row.expected.red, *row.expected.noted))
    return f"| `{row.id}` | {in_markdown(row.imitates)} ({source}) | {checks} | {row.expected.exit_code} |"

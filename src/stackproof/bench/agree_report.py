"""The table of agreement as Markdown, made from a record, so that every figure in the documentation was measured."""

from __future__ import annotations

from urllib.parse import quote

from stackproof.base.text import in_markdown
from stackproof.record.console import label
from stackproof.record.records import Check, Record

_HEAD = "| what | theirs | ours | theirs | ratio of times (95 %) | bound | verdict |\n|---|---|---|---|---|---|---|\n"


def markdown(record: Record) -> str:
    """Return the page's section for one record: what it was measured on, a row for each pair, and what differs."""
    compared = [check for check in record.checks if check.group == "agreement"]
    rows = "".join(_row(check) for check in compared)
    differences = "".join(_difference(check) for check in _first_of_each(compared))
    return (
        f"## {_text(_where(record))}\n\n{_HEAD}{rows}\nWhat the other tool does beside the same work:\n\n{differences}"
    )


def _where(record: Record) -> str:
    facts = record.provenance
    device = next((str(value) for name, value in facts.items() if name.endswith(".name")), "")
    words = (
        label(record),
        device,
        f"torch {facts.get('torch', '')}",
        f"profile {facts.get('profile', '')}",
        record.started[:10],
    )
    return ", ".join(word for word in words if word.split()[-1:])


def _row(check: Check) -> str:
    figures = check.figures
    name = _text(check.subject)
    if "ratio" not in figures:
        return f"| {name} | | | | | | {check.verdict.value}: {_text(check.reason)} |\n"
    ratio, low, high, bound = (float(figures[key]) for key in ("ratio", "low", "high", "bound"))
    theirs = f"[{_text(str(figures['theirs is']))}]({quote(str(figures['link']), safe=':/#?=&%-._~')})"
    told = (
        name,
        theirs,
        _text(str(figures["ours"])),
        _text(str(figures["theirs"])),
        f"{ratio:.4f} ({low:.4f} to {high:.4f})",
        f"{bound:.0%}",
        check.verdict.value,
    )
    return f"| {' | '.join(str(cell) for cell in told)} |\n"


def _first_of_each(checks: list[Check]) -> list[Check]:
    """Return one check for each other tool."""
    found = {str(check.figures["theirs is"]): check for check in reversed(checks) if "ratio" in check.figures}
    return list(reversed(found.values()))


def _difference(check: Check) -> str:
    return f"- {_text(str(check.figures['theirs is']))}: {_text(str(check.figures['differs']))}.\n"


def _text(words: str) -> str:
    return in_markdown(words)

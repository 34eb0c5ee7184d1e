"""The table of nodes for people: Markdown whose columns are aligned, so that a terminal, a wiki and a mail can show it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone

from stackproof.api.base import in_markdown
from stackproof.api.record import NOT_EXECUTED
from stackproof.extras.nights.nodes.reading import Gathered, NodeSummary, Ran, seconds

_HEAD = ("node", "doctor", "stack", "verb", "verdict", "checks", "when", "torch")
_MOST = 60


def lines(found: Gathered) -> Iterator[str]:
    """Yield one sentence of all, the table, and what is wrong with each node that is not well."""
    ill = [node for node in found.nodes.values() if not node.well]
    yield f"{len(found.nodes)} node{'' if len(found.nodes) == 1 else 's'}, {len(ill)} not well"
    rows = [_HEAD, *(row for _, node in sorted(found.nodes.items()) for row in _rows(node))]
    widths = [max(len(row[place]) for row in rows) for place in range(len(_HEAD))]
    yield ""
    for number, row in enumerate(rows):
        yield "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |"
        if number == 0:
            yield "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    told = [said for node in sorted(ill, key=lambda one: one.name) for said in _wrong(node)]
    yield from ("", *told) if told else ()


def _rows(node: NodeSummary) -> Iterator[tuple[str, ...]]:
    """Yield a row for each newest run; the node and what the doctor says stand in the first."""
    doctor = _doctor(node)
    if not node.runs:
        yield (_cell(node.name), doctor, *("-" for _ in _HEAD[2:]))
    for key in sorted(node.runs):
        yield (_cell(node.name), doctor, *_run(node.runs[key]))
        doctor = ""


def _doctor(node: NodeSummary) -> str:
    if node.look is None:
        return "-"
    said = [f"{count} {level}{'' if count == 1 else 's'}" for level, count in node.look.count.items() if count]
    return ", ".join(said[:2]) if node.look.count["problem"] + node.look.count["warning"] else "no problem"


def _run(ran: Ran) -> tuple[str, ...]:
    record = ran.record
    executed = [check for check in record.checks if check.verdict not in NOT_EXECUTED]
    passed = sum(check.verdict.exit_code == 0 for check in executed)
    verb = f"{record.verb} (rehearsed)" if ran.rehearsed and record.verb != "rehearse" else record.verb
    pinned = "" if record.provenance.get("pinned", True) else " unpinned"
    torch = _cell(str(record.provenance.get("torch", "-"))) + pinned
    return _cell(record.stack), verb, record.verdict.value, f"{passed} of {len(executed)}", _ago(ran.when), torch


def _ago(when: datetime) -> str:
    """Say how long ago something was, in its largest whole unit."""
    if seconds(when) is None:
        return "unknown"
    passed = (datetime.now(timezone.utc) - when).total_seconds()
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if passed >= size:
            return f"{int(passed // size)} {unit} ago"
    return "just now" if passed >= 0 else "in the future"


def _wrong(node: NodeSummary) -> Iterator[str]:
    if node.look and node.look.count["problem"]:
        yield f"- {_cell(node.name)}: doctor: {in_markdown(node.look.worst)}"
    for ran in node.runs.values():
        if ran.bad:
            first = next((one for one in ran.record.checks if one.verdict is ran.record.verdict), None)
            why = f": {in_markdown(first.id)}: {in_markdown(first.reason[:300])}" if first else ""
            said = f"{ran.record.verb} of {in_markdown(ran.record.stack)} {ran.record.verdict.value}"
            yield f"- {_cell(node.name)}: {said}{why}"


def _cell(text: str) -> str:
    return in_markdown(text[:_MOST])

"""The nodes as a table, with what is wrong with each that is not well."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone

from stackproof.api.record import NOT_EXECUTED, Part, TextLine, TextTable, outline
from stackproof.extras.nights.nodes.reading import NEVER, Gathered, NodeSummary, Ran

_HEAD = ("node", "doctor", "stack", "verb", "verdict", "checks", "when", "torch")
_MOST = 60


def text(found: Gathered) -> str:
    """Return one sentence of all, the table, and what is wrong with each node that is not well."""
    return outline.text(_parts(found))


def _parts(found: Gathered) -> Iterator[Part]:
    ill = [node for node in found.nodes.values() if not node.well]
    yield TextLine(f"{len(found.nodes)} node{'' if len(found.nodes) == 1 else 's'}, {len(ill)} not well")
    yield TextTable(_HEAD, [row for _, node in sorted(found.nodes.items()) for row in _rows(node)])
    yield from (TextLine(line) for node in sorted(ill, key=lambda one: one.name) for line in _wrong(node))


def _rows(node: NodeSummary) -> Iterator[tuple[str, ...]]:
    """Yield a row for each newest run; the node and what the doctor says stand in the first."""
    doctor = _doctor(node)
    if not node.runs:
        yield (node.name[:_MOST], doctor, *("-" for _ in _HEAD[2:]))
    for key in sorted(node.runs):
        yield (node.name[:_MOST], doctor, *_run(node.runs[key]))
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
    torch = str(record.provenance.get("torch", "-"))[:_MOST] + pinned
    return record.stack[:_MOST], verb, record.verdict.value, f"{passed} of {len(executed)}", _ago(ran.when), torch


def _ago(when: datetime) -> str:
    """Say how long ago something was, in its largest whole unit."""
    if when == NEVER:
        return "unknown"
    passed = (datetime.now(timezone.utc) - when).total_seconds()
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if passed >= size:
            return f"{int(passed // size)} {unit} ago"
    return "just now" if passed >= 0 else "in the future"


def _wrong(node: NodeSummary) -> Iterator[str]:
    if node.odd:
        when, word, fleet = node.judged
        yield f"{node.name[:_MOST]}: {word} among the hosts of {fleet[:_MOST]}, judged {when}"
    if node.look and node.look.count["problem"]:
        yield f"{node.name[:_MOST]}: doctor: {node.look.worst}"
    for ran in node.runs.values():
        if ran.bad:
            first = next((one for one in ran.record.checks if one.verdict is ran.record.verdict), None)
            why = f": {first.id}: {first.reason[:300]}" if first else ""
            yield f"{node.name[:_MOST]}: {ran.record.verb} of {ran.record.stack} {ran.record.verdict.value}{why}"

"""A checkup for people, for programs, and for an issue, which then names no user, host or card.

The doctor comes before any environment, so it needs no rich.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from dataclasses import asdict
from datetime import datetime, timezone

from stackproof import __version__
from stackproof.base import advice
from stackproof.base.redact import Redactor
from stackproof.base.text import plain
from stackproof.doctor.checkup import Checkup
from stackproof.doctor.machine import Machine
from stackproof.doctor.presence import NOTHING, Presence, Sight
from stackproof.doctor.rules import AREAS, Finding
from stackproof.stack.provenance import explaining, host_name
from stackproof.stack.variables import Level

_COLOURS = {Level.OK: "32", Level.NOTE: "36", Level.WARNING: "33", Level.PROBLEM: "1;31"}
_INDENT = 11
_WIDEST = 150


def terminal(checkup: Checkup, width: int = _WIDEST, colour: bool = False, every: bool = False) -> Iterator[str]:
    """Yield the lines of the whole report: the verdict, what is wrong, what is as it should be, the stacks (`every`: one by one)."""
    yield _total(checkup, colour)
    wrong = [row for level in reversed(Level) for row in checkup.findings if row.level is level is not Level.OK]
    if wrong:
        yield ""
    for finding in wrong:
        yield from _lines(finding, min(width, _WIDEST), colour)
    yield from ("", "as it should be")
    for area in AREAS:
        for finding in checkup.findings:
            if finding.area == area and finding.level is Level.OK:
                yield from _lines(finding, min(width, _WIDEST), colour)
    yield ""
    yield from map(plain, stack_lines(checkup.presence) if every else _stacks(checkup.presence))


def stack_lines(presence: Presence) -> Iterator[str]:
    yield f"host: {presence.host}"
    yield _would_prove(presence)
    for sight in presence.stacks:
        yield ""
        yield from _sight(sight)


def _would_prove(presence: Presence) -> str:
    name = "NAME" if presence.preferred.startswith(NOTHING) else presence.preferred
    typical = "nox -s smoke" if advice.sessions() else advice.command(name, "smoke")
    return f"`{typical}` would prove: {presence.preferred}"


def _sight(sight: Sight) -> Iterator[str]:
    if sight.broken:
        yield f"{sight.name}: broken - {sight.broken}"
        return
    yield f"{sight.name}: {'present' if sight.present else 'not on this host'} - {sight.title}"
    for row in sight.requirements:
        state, how = ("ok", "seen") if row.found else ("missing", "looked at")
        yield f"  [{state}] {row.what} ({how}: {row.evidence})"
    if sight.hint:
        yield f"  to get it: {sight.hint}"
    yield from (f"  python: {sight.python}", f"  lock: {sight.lock}", f"  environment: {sight.environment}")
    if sight.visibility:
        yield f"  {sight.visibility}: {'not set, all cards are visible' if sight.visible is None else sight.visible}"


def _stacks(presence: Presence) -> Iterator[str]:
    """Yield the stacks in a few lines; one that was asked for by name is printed in full."""
    if len(presence.stacks) == 1:
        yield from stack_lines(presence)
        return
    here = ", ".join(sight.name for sight in presence.stacks if sight.present)
    absent = ", ".join(sight.name for sight in presence.stacks if not sight.present and not sight.broken)
    yield f"host: {presence.host}"
    yield f"stacks here: {here or 'none'}; {_would_prove(presence)}"
    if absent:
        yield f"not here: {absent}; `--all` says what each lacks"
    yield from (f"{sight.name}: broken - {sight.broken}" for sight in presence.stacks if sight.broken)


def as_json(checkup: Checkup) -> str:
    """Return the checkup as one JSON object; what is in it is data, not text for people."""
    findings = [
        {name: getattr(row, name) for name in ("area", "sentence", "remedy", "link")}
        | {"level": row.level.value, "variables": row.subjects}
        for row in checkup.findings
    ]
    presence = checkup.presence
    whole = {
        "schema": "stackproof.doctor/2",
        "stackproof": __version__,
        "node": host_name(),
        "looked": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "exit_code": checkup.exit_code,
        "host": presence.host,
        "preferred": presence.preferred,
        "present": [stack.name for stack in presence.stacks_here],
        "stacks": [asdict(sight) for sight in presence.stacks],
        "findings": findings,
        "variables": asdict(checkup.known),
        "facts": dict(sorted(checkup.facts.items())),
    }
    # ASCII, so that no value steers the terminal that it is printed on; DEL is the one control that JSON leaves.
    return json.dumps(whole, indent=1).replace("\x7f", "\\u007f")


def for_an_issue(checkup: Checkup, machine: Machine) -> str:
    """Return one block of text to paste, without names of users and hosts, addresses, and home folders."""
    chosen = {name: value for name, value in sorted(machine.environ.items()) if name.startswith(explaining().variables)}
    lines = [
        f"stackproof {__version__} doctor; names of users and hosts, addresses and home folders are removed",
        "",
        *terminal(checkup, every=True),
        "",
        "variables of the libraries below torch",
        *(f"  {name}={plain(value)}" for name, value in chosen.items()),
        *([] if chosen else ["  none is set"]),
    ]
    keep = {value for name, value in checkup.facts.items() if not name.startswith(_PRIVATE)}
    cleaned = Redactor.of(machine.environ, machine.read, keep, real=machine.real).clean("\n".join(lines))
    return "```text\n" + cleaned.replace("```", "'''") + "\n```"


_PRIVATE = ("container", "env.", "ld.", "python.", "folder.")


def _lines(finding: Finding, width: int, colour: bool) -> Iterator[str]:
    room = max(width - _INDENT, 40)
    level = finding.level.value.ljust(_INDENT - 3)
    shown = f"\x1b[{_COLOURS[finding.level]}m{level}\x1b[0m" if colour else level
    first, *rest = textwrap.wrap(
        f"{finding.area}: {plain(finding.sentence)}", room, break_long_words=False, break_on_hyphens=False
    ) or [""]
    yield f"  {shown} {first}"
    yield from (f"{' ' * _INDENT}{line}" for line in rest)
    for extra in (f"> {finding.remedy}" if finding.remedy else "", finding.link):
        if extra:  # never wrapped, so that it can be copied
            yield f"{' ' * _INDENT}{plain(extra)}"


def _total(checkup: Checkup, colour: bool) -> str:
    counts = {level: sum(row.level is level for row in checkup.findings) for level in reversed(Level)}
    plural = {level: "" if count == 1 or level is Level.OK else "s" for level, count in counts.items()}
    text = ", ".join(f"{count} {level.value}{plural[level]}" for level, count in counts.items() if count)
    worst = "PROBLEM" if checkup.exit_code else "NO PROBLEM"
    shown = f"\x1b[{_COLOURS[Level.PROBLEM if checkup.exit_code else Level.OK]}m{worst}\x1b[0m" if colour else worst
    return f"{shown}  {text}"

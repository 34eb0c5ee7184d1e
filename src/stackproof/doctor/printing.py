"""A checkup for people, for programs, and for an issue. Needs no rich: the doctor comes before any environment."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator

from .. import __version__
from ..plaintext import plain
from ..provenance import VARIABLES
from ..variable_tables import Level
from .checkup import Checkup
from .findings import AREAS, Finding
from .machine import Machine
from .redaction import Redactor

_COLOURS = {Level.OK: "32", Level.NOTE: "36", Level.WARNING: "33", Level.PROBLEM: "1;31"}
_INDENT = 11
_WIDEST = 150


def terminal(checkup: Checkup, width: int = _WIDEST, colour: bool = False) -> Iterator[str]:
    """Yield the lines of the whole report: the stacks, then the findings by area, then one line of counts."""
    yield from map(plain, checkup.presence)
    for area in AREAS:
        yield ""
        yield area
        for finding in checkup.findings:
            if finding.area == area:
                yield from _lines(finding, min(width, _WIDEST), colour)
    yield ""
    yield _total(checkup, colour)


def as_json(checkup: Checkup) -> str:
    """Return the checkup as one JSON object."""
    findings = [
        {
            "area": row.area,
            "level": row.level.value,
            "sentence": row.sentence,
            "remedy": row.remedy,
            "link": row.link,
        }
        for row in checkup.findings
    ]
    whole = {
        "schema": "stackproof.doctor/1",
        "stackproof": __version__,
        "exit_code": checkup.exit_code,
        "present": checkup.present,
        "stacks": checkup.presence,
        "findings": findings,
        "facts": dict(sorted(checkup.facts.items())),
    }
    return json.dumps(whole, indent=1, ensure_ascii=False)


def for_an_issue(checkup: Checkup, machine: Machine) -> str:
    """Return one block of text to paste, without names of users and hosts, addresses, and home folders."""
    chosen = {name: value for name, value in sorted(machine.environ.items()) if name.startswith(VARIABLES)}
    lines = [
        f"stackproof {__version__} doctor; names of users and hosts, addresses and home folders are removed",
        "",
        *terminal(checkup),
        "",
        "variables of the libraries below torch",
        *(f"  {name}={plain(value)}" for name, value in chosen.items()),
        *([] if chosen else ["  none is set"]),
    ]
    keep = {value for name, value in checkup.facts.items() if name not in ("container",)}
    return "```text\n" + Redactor.of(machine, keep).clean("\n".join(lines)).replace("```", "'''") + "\n```"


def _lines(finding: Finding, width: int, colour: bool) -> Iterator[str]:
    room = max(width - _INDENT, 40)
    level = finding.level.value.ljust(_INDENT - 3)
    shown = f"\x1b[{_COLOURS[finding.level]}m{level}\x1b[0m" if colour else level
    first, *rest = textwrap.wrap(plain(finding.sentence), room, break_long_words=False, break_on_hyphens=False) or [""]
    yield f"  {shown} {first}"
    yield from (f"{' ' * _INDENT}{line}" for line in rest)
    for extra in (f"> {finding.remedy}" if finding.remedy else "", finding.link):
        if extra:  # never wrapped, so that it can be copied
            yield f"{' ' * _INDENT}{plain(extra)}"


def _total(checkup: Checkup, colour: bool) -> str:
    counts = {level: checkup.count(level) for level in reversed(Level)}
    said = ", ".join(f"{count} {_plural(level, count)}" for level, count in counts.items() if count)
    worst = "PROBLEM" if checkup.exit_code else "NO PROBLEM"
    shown = f"\x1b[{_COLOURS[Level.PROBLEM if checkup.exit_code else Level.OK]}m{worst}\x1b[0m" if colour else worst
    return f"{shown}  {said}"


def _plural(level: Level, count: int) -> str:
    return level.value if count == 1 or level is Level.OK else f"{level.value}s"

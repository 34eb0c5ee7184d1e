"""Nights for people and programs: lines in a terminal, Markdown, and one JSON object; confirmed and suspected never in one list."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from typing import Any

from stackproof.api.base import counted, in_markdown, percent, plain
from stackproof.api.record import changes
from stackproof.extras.nights.drift.findings import Drift, PlaceDrift
from stackproof.extras.nights.drift.longterm import LongTerm
from stackproof.extras.nights.drift.suspicions import Suspicion
from stackproof.extras.nights.drift.verdicts import Confirmed, GateSaid, Refuted

SCHEMA = "stackproof.extras.nights.drift/1"
_Line = tuple[int, str]


def terminal(found: Drift) -> str:
    """Return the lines of a terminal, what decides first."""
    lines = [f"{'  ' * depth}{plain(text, lines=False)}" for depth, text in _lines(found)]
    return "\n".join(lines)


def markdown(found: Drift) -> str:
    """Return the same as a page: a list a place."""
    lines = [f"# {in_markdown(found.headline)}", ""]
    for depth, text in list(_lines(found))[1:]:
        lines.append(f"\n## {in_markdown(text)}\n" if depth == 0 else f"{'  ' * (depth - 1)}- {in_markdown(text)}")
    return "\n".join(lines) + "\n"


def as_json(found: Drift) -> str:
    """Return one JSON object."""
    told = {
        "schema": SCHEMA, "headline": found.headline, "exit_code": found.exit_code,
        "places": [_place(one) for one in found.places], "problems": list(found.problems),
    }  # fmt: skip
    return json.dumps(told, indent=1, ensure_ascii=True, allow_nan=False)


def _lines(found: Drift) -> Iterator[_Line]:
    yield 0, found.headline
    for one in found.places:
        yield 0, f"{one.place.label}: {counted(len(one.nights), 'night')} of {counted(len(one.trends), 'figure')}"
        if one.lacking:
            yield 1, f"{counted(one.lacking, 'more night')} needed before a step can be seen"
        yield from _section("confirmed slowdowns", one.slowdowns, _confirmed)
        yield from _section("suspected, not confirmed", one.suspicions, _suspected)
        others = [gate for gate in one.confirmed if gate not in one.slowdowns]
        yield from _section("confirmed before, or for the better", others, _confirmed)
        yield from _section("refuted, and left out", one.refuted, _refuted)
        yield from _section("since the first anchor, whatever its steps", _came(one), lambda sentence: [sentence])
        yield from _section("disturbed, and left out", one.disturbed, lambda night: [f"{night.day}: {night.disturbed}"])
        chained = dict.fromkeys(
            f"{trend.figure.label}: {link.sentence}" for trend in one.trends for link in trend.links
        )
        yield from _section("anchors", list(chained), lambda sentence: [sentence])
    yield from _section("problems", found.problems, lambda sentence: [sentence], 0)


def _came(one: PlaceDrift) -> list[str]:
    """Return a line for each figure that has come far, and one for all others."""
    clear = [f"{far.figure.label}: for users {far.sentence}" for far in one.long_terms if far.clear]
    quiet = len(one.long_terms) - len(clear)
    return [*clear, *([f"{counted(quiet, 'figure')}: no change beyond noise"] if quiet else [])]


def _section(title: str, rows: Any, told: Callable[[Any], list[str]], depth: int = 1) -> Iterator[_Line]:
    if rows:
        yield depth, f"{title}:" if depth else title
    for row in rows:
        first, *rest = told(row)
        yield depth + 1, first
        yield from ((depth + 2, line) for line in rest)


def confirmed_line(one: Confirmed) -> str:
    """Say in a line what is confirmed: the figure, what the gate saw, and the likeliest cause."""
    step, how = one.suspicion, "" if one.suspicion.interleaved else ", not interleaved"
    return f"{step.figure.label} {seen(one.gate)}{how}: {causes(step)}"


def _confirmed(one: Confirmed) -> list[str]:
    step = one.suspicion
    return [
        confirmed_line(one),
        when(step),
        *differences(step),
        f"gate: {one.gate.path}",
    ]


def _refuted(one: Refuted) -> list[str]:
    return [
        f"{one.suspicion.figure.label}: {size(one.suspicion)} was suspected, the gate saw {seen(one.gate)} ({one.gate.path})"
    ]


def _suspected(step: Suspicion) -> list[str]:
    how = "" if step.interleaved else " (not interleaved: yesterday's machine cannot run beside today's)"
    first = f"{step.figure.label}, {step.kind.value}: {size(step)}, score {abs(step.score):.1f}: {causes(step)}"
    return [first, when(step), *differences(step), f"confirm{how}: {step.command}"]


def size(step: Suspicion) -> str:
    """Return how far a series seems to have stepped."""
    word = "slower" if step.slower else "faster"
    return f"{percent(step.size)} [{percent(step.low)}, {percent(step.high)}] {word}"


def seen(gate: GateSaid) -> str:
    """Return what a gate has measured of a step, and in which direction."""
    return f"{percent(gate.ratio)} [{percent(gate.low)}, {percent(gate.high)}] {direction(gate)}"


def direction(gate: GateSaid) -> str:
    """Return what a gate's interval says in a word: a percentage alone could be of seconds or of speed."""
    return "slower" if gate.low > 0 else "faster" if gate.high < 0 else "neither slower nor faster"


def causes(step: Suspicion) -> str:
    """Return who is the likeliest cause, and why."""
    return f"{' and '.join(cause.value for cause in step.causes)} ({step.why})"


def when(step: Suspicion) -> str:
    """Return since when a series has stepped, and what else moved."""
    first, last = step.between
    span = "" if first == last else f", or any night from {first} to {last}"
    return f"since {step.after.day}, {counted(step.nights, 'night')}{span}; moved: {', '.join(kind.value for kind in step.moved)}"


def differences(step: Suspicion) -> list[str]:
    """Return what differs between the states before and after a step."""
    found = changes(step.before.state, step.after.state)
    return [f"{group}: {phrase}" for group, phrases in found.items() for phrase in phrases]


def _place(one: PlaceDrift) -> dict[str, Any]:
    return {
        "place": one.place.label, "stack": one.place.stack, "host": one.place.host, "nights": len(one.nights),
        "lacking": one.lacking, "disturbed": {night.day: night.disturbed for night in one.disturbed},
        "confirmed": [_verdict(gate) | {"told": gate in one.slowdowns} for gate in one.confirmed],
        "suspicions": [_suspicion(step) for step in one.suspicions],
        "refuted": [_verdict(gate) for gate in one.refuted],
        "long term": [_far(far) for far in one.long_terms],
        "links": [vars(link) | {"figure": trend.figure.label} for trend in one.trends for link in trend.links],
    }  # fmt: skip


def _far(far: LongTerm) -> dict[str, Any]:
    return {
        "figure": vars(far.figure), "since": far.since, "nights": far.nights, "ratio": math.exp(far.size),
        "low": math.exp(far.low), "high": math.exp(far.high), "clear": far.clear,
        "parts": {kind.value: math.exp(part) for kind, part in far.parts.items()},
    }  # fmt: skip


def _verdict(one: Confirmed | Refuted) -> dict[str, Any]:
    gate = one.gate
    told = {
        "record": str(gate.path),
        "ratio": math.exp(gate.ratio),
        "low": math.exp(gate.low),
        "high": math.exp(gate.high),
    }
    return _suspicion(one.suspicion) | {"gate": told}


def _suspicion(step: Suspicion) -> dict[str, Any]:
    return {
        "figure": vars(step.figure), "series": step.kind.value, "slower": step.slower, "score": step.score,
        "ratio": math.exp(step.size), "low": math.exp(step.low), "high": math.exp(step.high),
        "since": step.after.started.isoformat(), "between": list(step.between), "nights": step.nights,
        "before": str(step.before.path), "after": str(step.after.path), "changes": differences(step),
        "moved": [kind.value for kind in step.moved], "changed": [cause.value for cause in step.changed],
        "causes": [cause.value for cause in step.causes], "why": step.why,
        "command": step.command, "interleaved": step.interleaved,
    }  # fmt: skip

"""Nights for people; confirmed and suspected steps never in one list."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from stackproof.api.base import statistics, text
from stackproof.api.record import outline, store
from stackproof.extras.nights.drift.findings import Drift, GateResult, PlaceDrift, Suspicion


def terminal(found: Drift) -> str:
    """Return the lines of a terminal, what decides first."""
    return outline.text(_parts(found))


def _parts(found: Drift) -> Iterator[outline.Part]:
    yield outline.Heading(found.headline)
    for one in found.places:
        yield outline.Heading(
            f"{one.place.label}: {text.counted(len(one.nights), 'night')} of {text.counted(len(one.trends), 'figure')}",
            2,
        )
        if one.lacking:
            yield outline.TextLine(f"{text.counted(one.lacking, 'more night')} needed before a step can be seen", 1)
        others = [gate for gate in one.confirmed if gate not in one.slowdowns]
        yield from _section("confirmed slowdowns", map(_confirmed, one.slowdowns))
        yield from _section("suspected, not confirmed", map(_suspected, one.suspicions))
        yield from _section("confirmed before, or for the better", map(_confirmed, others))
        yield from _section("refuted, and left out", map(_refuted, one.refuted))
        yield from _section("since the first anchor, whatever its steps", ([line] for line in _came(one)))
        yield from _section(
            "disturbed, and left out", ([f"{night.day}: {night.disturbed}"] for night in one.nights if night.disturbed)
        )
    if found.problems:
        yield outline.Heading("problems", 2)
        yield from (outline.TextLine(line, 1) for line in found.problems)


def _came(one: PlaceDrift) -> list[str]:
    clear = [f"{far.figure.label}: for users {far.sentence}" for far in one.long_terms if far.clear]
    quiet = len(one.long_terms) - len(clear)
    return [*clear, *([f"{text.counted(quiet, 'figure')}: no change beyond noise"] if quiet else [])]


def _section(title: str, rows: Iterable[list[str]]) -> Iterator[outline.Part]:
    for number, (first, *rest) in enumerate(rows):
        yield from () if number else (outline.TextLine(f"{title}:", 1),)
        yield outline.TextLine(first, 2)
        yield from (outline.TextLine(line, 3) for line in rest)


def confirmed_line(step: Suspicion) -> str:
    """Say in a line what is confirmed: the figure, what the gate saw, and the likeliest cause."""
    how = "" if step.gate else ", by nights alone"
    return f"{step.figure.label} {size_seen(step)}{how}: {causes(step)}"


def _confirmed(step: Suspicion) -> list[str]:
    gate = [f"gate: {step.gate.path}"] if step.gate else []
    return [confirmed_line(step), when(step), *differences(step), *gate]


def _refuted(step: Suspicion) -> list[str]:
    gate = f" ({step.gate.path})" if step.gate else ""
    return [f"{step.figure.label}: {size(step)} was suspected, the gate saw {size_seen(step)}{gate}"]


def _suspected(step: Suspicion) -> list[str]:
    how = "" if step.interleaved else " (by nights: yesterday's machine cannot run beside today's)"
    first = f"{step.figure.label}, {step.kind.value}: {size(step)}, score {abs(step.score):.1f}: {causes(step)}"
    return [first, when(step), *differences(step), f"confirm{how}: {step.command}"]


def size(step: Suspicion) -> str:
    """Return how far a series seems to have stepped."""
    word = "slower" if step.slower else "faster"
    return f"{statistics.percent(step.size)} [{statistics.percent(step.low)}, {statistics.percent(step.high)}] {word}"


def size_seen(step: Suspicion) -> str:
    """Return how far a figure has stepped: by its gate, else by its nights."""
    return size_by_gate(step.gate) if step.gate else size(step)


def size_by_gate(gate: GateResult) -> str:
    """Return what a gate has measured of a step, and in which direction."""
    return f"{statistics.percent(gate.ratio)} [{statistics.percent(gate.low)}, {statistics.percent(gate.high)}] {direction(gate)}"


def direction(gate: GateResult) -> str:
    """Return what a gate's interval says in a word: a percentage alone could be of seconds or of speed."""
    return "slower" if gate.low > 0 else "faster" if gate.high < 0 else "neither slower nor faster"


def causes(step: Suspicion) -> str:
    """Return who is the likeliest cause, and why."""
    return f"{' and '.join(cause.value for cause in step.causes)} ({step.why})"


def when(step: Suspicion) -> str:
    """Return since when a series has stepped, and what else moved."""
    first, last = step.between
    span = "" if first == last else f", or any night from {first} to {last}"
    return f"since {step.after.day}, {text.counted(step.nights, 'night')}{span}; moved: {', '.join(kind.value for kind in step.moved)}"


def differences(step: Suspicion) -> list[str]:
    """Return what differs between the states before and after a step."""
    found = store.changes(step.before.state, step.after.state)
    return [f"{group}: {phrase}" for group, phrases in found.items() for phrase in phrases]

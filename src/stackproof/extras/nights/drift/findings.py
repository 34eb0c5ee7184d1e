"""All that nights tell, and how people read it: suspicions, what gates made of them, and what nothing can be said of yet."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum
from itertools import pairwise
from pathlib import Path

import numpy as np

from stackproof.api.base import advice, git, statistics, text
from stackproof.api.record import Check, Kind, Record, outline, store
from stackproof.extras.nights.drift.scan import Cause, SeriesKind, Steps, Values, at_split, scan, table
from stackproof.extras.nights.drift.series import (
    VERB,
    FigureKey,
    LongTerm,
    Night,
    Trend,
    by_place,
    long_term,
    nights,
    trends,
)

GATE, TIME = "gate", "time"
_COMMITTED = (SeriesKind.RATIO, SeriesKind.RAW)
_SEEN = "a gate ran both commits side by side, on one driver and machine"


@dataclass(frozen=True)
class GateResult:
    """What a gate's record says of one subject's time: head over base as logarithms, between the bounds of its own declared error."""

    path: Path
    started: datetime
    stack: str
    host: str
    base: str
    head: str
    subject: str
    ratio: float
    low: float
    high: float


class SuspicionState(str, Enum):
    SUSPECTED = "suspected"
    CONFIRMED = "confirmed"
    """A gate of both states bears it out, and its size is the gate's; or it lasts, where no gate can run both."""
    REFUTED = "refuted"
    """A gate of both states surely saw less than half of it."""


@dataclass(frozen=True)
class Suspicion:
    """A step that a series seems to have made; nobody is told of a slowdown before it is confirmed.

    `size`: log of after over before, with its 95 % interval `low` to `high`; above 0 is slower. `score`: in standard errors.
    `before` and `after`: the last night before the step and the first after it; `between`: the first nights that are about as likely.
    `asks`: what the gate is asked that confirms or refutes it, nothing where none can; `interleaved`: whether both states
    run side by side in it.
    """

    place: store.Place
    figure: FigureKey
    kind: SeriesKind
    size: float
    low: float
    high: float
    score: float
    before: Night
    after: Night
    between: tuple[str, str]
    nights: int
    moved: tuple[SeriesKind, ...]
    changed: tuple[Cause, ...]
    causes: tuple[Cause, ...]
    why: str
    asks: tuple[str, ...]
    interleaved: bool
    state: SuspicionState = SuspicionState.SUSPECTED
    gate: GateResult | None = None
    """What has settled it."""
    reported: bool = False
    """Whether people are told of it as a slowdown that lasts."""

    @property
    def slower(self) -> bool:
        """Whether the drift makes the work slower."""
        return self.size > 0

    @property
    def word(self) -> str:
        """Its state as people read it, with the direction of what is confirmed."""
        if self.state is not SuspicionState.CONFIRMED:
            return str(self.state.value)
        return (
            "confirmed faster"
            if not self.slower
            else "confirmed slower"
            if self.reported
            else "confirmed slower before"
        )

    @property
    def command(self) -> str:
        """What people type: the gate, or where nothing can be interleaved another night."""
        return advice.command(self.place.stack, "gate" if self.interleaved else "night", *self.asks)


def suspect(trends: Sequence[Trend], values: Sequence[dict[SeriesKind, Values]]) -> list[Suspicion]:
    """Return what is suspected as of the last night, one for a step: the ratio's first, then the anchor's, then what users get.

    Args:
        trends: the figures of one place, over the same nights.
        values: their series with what gates have settled already left out, in the same order.
    """
    if not trends:
        return []
    limits, suspicions = table().scan, list[Suspicion]()
    rows = np.array([series[kind] for series in values for kind in SeriesKind])
    steps, kinds = scan(rows, limits), list(SeriesKind)
    for number, trend in enumerate(trends):
        first = number * len(kinds)
        spans: list[tuple[int, int]] = []
        for offset, kind in enumerate(kinds):
            row = first + offset
            span = (int(steps.latest[row]), int(steps.earliest[row]))
            if steps.suspected[row] and not any(span[0] <= last and near <= span[1] for near, last in spans):
                suspicions.append(_suspicion(trend, values[number], kind, row, steps))
                spans.append(span)
    return suspicions


def _suspicion(trend: Trend, values: dict[SeriesKind, Values], kind: SeriesKind, row: int, steps: Steps) -> Suspicion:
    there = np.flatnonzero(~np.isnan(values[kind]))
    place = {
        count: int(there[-count]) for count in {int(steps.after[row]), int(steps.latest[row]), int(steps.earliest[row])}
    }
    split = place[int(steps.after[row])]
    before, after = trend.nights[int(there[there < split][-1])], trend.nights[split]
    earliest, latest = trend.nights[place[int(steps.earliest[row])]], trend.nights[place[int(steps.latest[row])]]
    step = float(steps.size[row]), float(steps.error[row]), float(steps.score[row])
    settled = trend.nights[int(there[there < place[int(steps.earliest[row])]][-1])]
    return _described(trend, values, kind, (before, after), step, (settled, latest), earliest)


def _described(
    trend: Trend, values: dict[SeriesKind, Values], kind: SeriesKind, around: tuple[Night, Night],
    step: tuple[float, float, float], span: tuple[Night, Night], earliest: Night,
) -> Suspicion:  # fmt: skip
    """Return a suspicion with its causes: `around` the split, `step` as size, error and score, and the `span` in which states changed."""
    before, after = around
    size, error, score = step
    index = trend.nights.index(after)
    moved = tuple(other for other in SeriesKind if other is kind or _moved(values[other], index))
    changed = _changed(trend.nights, span)
    row = table().blame(moved, changed)
    asks, interleaved = _confirming(trend, kind, row.causes, before, after)
    return Suspicion(
        trend.place, trend.figure, kind, size, size - statistics.Z_95 * error, size + statistics.Z_95 * error, score, before, after,
        (earliest.day, span[1].day), len(trend.nights) - index, moved, changed, row.causes, row.why, asks, interleaved,
    )  # fmt: skip


def _moved(values: Values, split: int) -> bool:
    behind = int((~np.isnan(values[split:])).sum())
    if not behind:
        return False
    score, size, _ = at_split(values, np.array([behind]), table().scan)
    return bool(abs(score[0]) >= table().moved.score and abs(size[0]) >= table().scan.effect / 2)


def _changed(nights: Sequence[Night], span: tuple[Night, Night]) -> tuple[Cause, ...]:
    """Return which classes changed from one night of the span to the next; a class that changed and came back counts."""
    first, last = nights.index(span[0]), nights.index(span[1])
    whole = table()
    seen = {
        cause for place in range(first, last)
        for cause in whole.changed(nights[place].state, nights[place + 1].state)
    }  # fmt: skip
    return tuple(cause for cause in Cause if cause in seen)


def _confirming(
    trend: Trend, kind: SeriesKind, causes: Sequence[Cause], before: Night, after: Night
) -> tuple[tuple[str, ...], bool]:
    """Return what a gate is asked that measures both states, and whether side by side.

    Two commits, with the locks that they hold, run interleaved. A driver or a machine of yesterday cannot: there another night shows
    whether it lasts.
    """
    base, head = before.state.commit, after.state.commit
    known = git.is_reachable(base) and git.is_reachable(head) and base != head
    interleaved = known and kind is not SeriesKind.ANCHOR and causes[0] not in (Cause.DRIVER, Cause.MACHINE)
    return (("--base", base, "--head", head, "--only", trend.figure.subject) if interleaved else ()), interleaved


def gate_results(records: Mapping[Path, Record]) -> list[GateResult]:
    """Return what gates saw of times, oldest first."""
    results = [
        result
        for path, record in store.distinct(records).items()
        if record.verb == GATE
        for result in _of(path, record)
    ]
    return sorted(results, key=lambda result: result.started)


def _of(path: Path, record: Record) -> Iterator[GateResult]:
    facts = record.provenance
    for check in record.checks:
        if check.kind is Kind.CELL and check.aspect == TIME and (bounds := _bounds(check)):
            yield GateResult(
                path, datetime.fromisoformat(record.started), record.stack, store.place(facts).host,
                str(facts.get("base", "")), str(facts.get("head", "")), check.subject, *bounds,
            )  # fmt: skip


def _bounds(check: Check) -> tuple[float, float, float] | None:
    values = [check.figures.get(name) for name in ("ratio", "ratio, low", "ratio, high")]
    numbers = [
        float(value)
        for value in values
        if isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0
    ]
    return (math.log(numbers[0]), math.log(numbers[1]), math.log(numbers[2])) if len(numbers) == len(values) else None


def after_gate(step: Suspicion, gate: GateResult) -> Suspicion:
    """Return a suspicion as a gate leaves it: suspected still, where its interval allows both.

    Confirmed: the gate's interval excludes no change, on the suspicion's side. Refuted: it excludes half of what was suspected.
    What two commits on one driver and machine show is the code's, or the wheels'; of driver and machine they refute nothing.
    """
    nearest, farthest = (gate.low, gate.high) if step.slower else (-gate.high, -gate.low)
    if nearest > 0:
        return replace(_of_commits(step), state=SuspicionState.CONFIRMED, gate=gate)
    refuted = step.interleaved and farthest < abs(step.size) / 2
    return replace(step, state=SuspicionState.REFUTED, gate=gate) if refuted else step


def _of_commits(step: Suspicion) -> Suspicion:
    own = (Cause.WHEELS, Cause.CODE)
    if set(step.causes) <= set(own):
        return step
    causes = tuple(cause for cause in own if cause in step.changed) or (Cause.CODE,)
    asks = ("--base", step.before.state.commit, "--head", step.after.state.commit, "--only", step.figure.subject)
    return replace(step, causes=causes, why=_SEEN, asks=asks, interleaved=True)


def settle(trend: Trend, gates: Iterable[GateResult]) -> tuple[dict[SeriesKind, Values], list[Suspicion]]:
    """Return the series with what gates have settled left out, and the suspicions that they settled, oldest first.

    What is confirmed is a new level: the series begins anew at the step. What is refuted is left out, from the step to the gate; where
    that makes `[refuted] nights` in a row it is a new level too, though none of the code's.
    """
    values = {kind: series.copy() for kind, series in trend.values.items()}
    steps = list[Suspicion]()
    for gate in gates:
        for kind in _kinds(trend, gate):
            split = _split(trend, gate, kind)
            if not split or not (suspicion := _recalled(trend, values, gate, kind, split)):
                continue
            settled = after_gate(suspicion, gate)
            if settled.gate:
                steps.append(settled)
                _leave_out(values, trend, split, settled, gate)
            break
    return values, steps


def _kinds(trend: Trend, gate: GateResult) -> Sequence[SeriesKind]:
    """Return the series that a gate of two commits can speak of; none where it was of another place or subject."""
    here = (trend.place.stack, trend.place.host, trend.figure.subject)
    return _COMMITTED if (gate.stack, gate.host, gate.subject) == here else ()


def _split(trend: Trend, gate: GateResult, kind: SeriesKind) -> int:
    """Return the first night after the step that a gate was about, 0 for none: its two sides are two nights that follow each other."""
    there = [
        int(at) for at in np.flatnonzero(~np.isnan(trend.values[kind])) if trend.nights[at].started <= gate.started
    ]
    for before, after in reversed(list(pairwise(there))):
        if _commit(gate.base, trend.nights[before]) and _commit(gate.head, trend.nights[after]):
            return after
    return 0


def _commit(label: str, night: Night) -> bool:
    return bool(label) and night.state.commit.startswith(label.partition(",")[0])


def _recalled(
    trend: Trend, values: dict[SeriesKind, Values], gate: GateResult, kind: SeriesKind, split: int
) -> Suspicion | None:
    """Return the suspicion that a gate was asked about, as it stood then; a gate where no series moved settles nothing."""
    until = {
        series: np.where([night.started <= gate.started for night in trend.nights], row, np.nan)
        for series, row in values.items()
    }
    there = np.flatnonzero(~np.isnan(until[kind]))
    earlier, behind = there[there < split], int((there >= split).sum())
    if not len(earlier) or not 0 < behind <= table().scan.splits:
        return None
    (score,), (size,), (error,) = at_split(until[kind], np.array([behind]), table().scan)
    if abs(score) < table().moved.score:
        return None
    around = trend.nights[int(earlier[-1])], trend.nights[split]
    step = float(size), float(error), float(score)
    return _described(trend, until, kind, around, step, around, trend.nights[split])


def _leave_out(
    values: dict[SeriesKind, Values], trend: Trend, split: int, settled: Suspicion, gate: GateResult
) -> None:
    until = sum(night.started <= gate.started for night in trend.nights)
    for kind in {settled.kind, SeriesKind.RAW}:
        row, whole = values[kind], trend.values[kind]
        if settled.state is SuspicionState.CONFIRMED:
            row[:split] = np.nan
            continue
        row[split:until] = np.nan
        begin = until - int((~np.isnan(row[:until][::-1])).argmax())
        if (~np.isnan(whole[begin:until])).sum() >= table().refuted.nights:
            row[begin:until], row[:begin] = whole[begin:until], np.nan


PASSED, SLOWER, TOO_FEW = 0, 1, 6
"""Exit codes: nothing is told, a slowdown is confirmed, there are too few nights to look at."""


@dataclass(frozen=True)
class PlaceDrift:
    """What is known of one place; `settled` by gates, oldest first; `suspicions` as of the last night."""

    place: store.Place
    nights: tuple[Night, ...]
    trends: tuple[Trend, ...]
    suspicions: tuple[Suspicion, ...]
    settled: tuple[Suspicion, ...]

    @property
    def confirmed(self) -> list[Suspicion]:
        return [step for step in self.settled if step.state is SuspicionState.CONFIRMED]

    @property
    def refuted(self) -> list[Suspicion]:
        return [step for step in self.settled if step.state is SuspicionState.REFUTED]

    @property
    def slowdowns(self) -> list[Suspicion]:
        """Return the slowdowns that people are told: confirmed in the last nights, and no later gate saw the figure faster again."""
        return [step for step in self.settled if step.reported]

    @property
    def lacking(self) -> int:
        """How many more nights are needed before any figure can be looked at; 0 if one can."""
        return max(0, table().scan.fewest + 1 - max((trend.usable for trend in self.trends), default=0))

    @property
    def long_terms(self) -> list[LongTerm]:
        """Return how far each figure has come since the first anchor, the greatest loss first."""
        terms = [term for trend in self.trends if (term := long_term(trend))]
        return sorted(terms, key=lambda term: -term.size)


@dataclass(frozen=True)
class Drift:
    """Every place, and what was wrong with the records."""

    places: tuple[PlaceDrift, ...]
    problems: tuple[str, ...]

    @property
    def exit_code(self) -> int:
        if any(place.slowdowns for place in self.places):
            return SLOWER
        return PASSED if any(not place.lacking for place in self.places) else TOO_FEW

    @property
    def headline(self) -> str:
        slower = sum(len(place.slowdowns) for place in self.places)
        open_ = sum(len(place.suspicions) for place in self.places)
        if self.exit_code == TOO_FEW:
            lacking = min((place.lacking for place in self.places), default=table().scan.fewest + 1)
            return f"NOTHING TO LOOK AT: {lacking} more {'night' if lacking == 1 else 'nights'} needed before a step can be seen"
        confirmed = (
            f"{slower} confirmed {'slowdown' if slower == 1 else 'slowdowns'}" if slower else "no slowdown is confirmed"
        )
        far = [term for place in self.places for term in place.long_terms if term.clear and term.size > 0]
        furthest = max(far, key=lambda term: term.size, default=None)
        since = f"; {furthest.figure.label} is {furthest.sentence}" if furthest else ""
        return f"{'SLOWER' if slower else 'DRIFTED' if far else 'QUIET'}: {confirmed}, {open_} suspected{since}"


def read_drift(tops: Iterable[Path], stack: str = "") -> Drift:
    """Read the records of nights and gates below these folders and return what they tell; a bad one is skipped and named.

    So is one whose day cannot be true (`record.dated`). `stack`: of this stack alone.
    """
    return drift_of(store.dated(store.read(store.files(tops, (VERB, GATE)))), stack)


def drift_of(loaded: store.Loaded, stack: str = "") -> Drift:
    every, problems = nights(loaded)
    gates = gate_results(loaded.records)
    groups = by_place(night for night in every if stack in ("", night.place.stack))
    places = [examine(place, those, gates) for place, those in groups.items()]
    chains = [sentence for place in places for trend in place.trends for sentence in trend.problems]
    return Drift(tuple(sorted(places, key=lambda place: place.place.label)), (*loaded.problems, *problems, *chains))


def examine(place: store.Place, history: Sequence[Night], gates: Sequence[GateResult]) -> PlaceDrift:
    """Return what the nights of one place tell, oldest first, with what gates saw of them."""
    drawn = trends(place, history)
    by_gates = [settle(trend, gates) for trend in drawn]
    settled = [step for _, those in by_gates for step in those]
    settled = _with_reported(
        sorted(settled, key=lambda step: step.gate.started if step.gate else step.after.started), history
    )
    steps = suspect(drawn, [values for values, _ in by_gates])
    lasting = [step for step in steps if not step.interleaved and step.nights >= table().lasting.nights]
    suspicions = tuple(step for step in steps if step not in lasting)
    settled += [replace(step, state=SuspicionState.CONFIRMED, reported=step.slower) for step in lasting]
    return PlaceDrift(place, tuple(history), tuple(drawn), suspicions, tuple(settled))


def _with_reported(settled: Sequence[Suspicion], history: Sequence[Night]) -> list[Suspicion]:
    recent = history[-table().reported.nights :][0].started if history else None
    latest = {step.figure: step for step in settled if step.state is SuspicionState.CONFIRMED}
    slower = [step for step in latest.values() if step.slower and recent and step.gate and step.gate.started >= recent]
    return [replace(step, reported=step in slower) for step in settled]


def terminal(drift: Drift) -> str:
    return outline.text(_parts(drift))


def _parts(drift: Drift) -> Iterator[outline.Part]:
    yield outline.Heading(drift.headline)
    for place in drift.places:
        yield outline.Heading(
            f"{place.place.label}: {text.counted(len(place.nights), 'night')} of {text.counted(len(place.trends), 'figure')}",
            2,
        )
        if place.lacking:
            yield outline.TextLine(f"{text.counted(place.lacking, 'more night')} needed before a step can be seen", 1)
        others = [gate for gate in place.confirmed if gate not in place.slowdowns]
        yield from _section("confirmed slowdowns", map(_confirmed, place.slowdowns))
        yield from _section("suspected, not confirmed", map(_suspected, place.suspicions))
        yield from _section("confirmed before, or for the better", map(_confirmed, others))
        yield from _section("refuted, and left out", map(_refuted, place.refuted))
        yield from _section("since the first anchor, whatever its steps", ([line] for line in _came(place)))
        yield from _section(
            "disturbed, and left out",
            ([f"{night.day}: {night.disturbed}"] for night in place.nights if night.disturbed),
        )
    if drift.problems:
        yield outline.Heading("problems", 2)
        yield from (outline.TextLine(line, 1) for line in drift.problems)


def _came(place: PlaceDrift) -> list[str]:
    clear = [f"{far.figure.label}: for users {far.sentence}" for far in place.long_terms if far.clear]
    quiet = len(place.long_terms) - len(clear)
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
    return f"{' and '.join(cause.value for cause in step.causes)} ({step.why})"


def when(step: Suspicion) -> str:
    first, last = step.between
    span = "" if first == last else f", or any night from {first} to {last}"
    return f"since {step.after.day}, {text.counted(step.nights, 'night')}{span}; moved: {', '.join(kind.value for kind in step.moved)}"


def differences(step: Suspicion) -> list[str]:
    groups = store.changes(step.before.state, step.after.state)
    return [f"{group}: {phrase}" for group, phrases in groups.items() for phrase in phrases]

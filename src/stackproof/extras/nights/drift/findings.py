"""What nights and gates say of each place: suspected, confirmed and refuted steps, and how people read them."""

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
"""What a gate of two commits says something of."""
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
    """A step that a series seems to have made; no slowdown is reported before it is confirmed.

    `size`: log of after over before, with its 95 % interval `low` to `high`; above 0 is slower. `score`: in standard errors.
    `before` and `after`: the last night before the step and the first after it; `between`: the first nights that are about as likely.
    `interleaved`: whether a gate can run both states side by side, and so confirm or refute it.
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
    interleaved: bool
    state: SuspicionState = SuspicionState.SUSPECTED
    gate: GateResult | None = None
    """What has settled it."""
    reported: bool = False
    """Whether it is reported as a slowdown that lasts."""

    @property
    def slower(self) -> bool:
        """Whether the drift makes the work slower."""
        return self.size > 0

    @property
    def seen(self) -> tuple[float, float, float]:
        """Its size and interval as its gate saw them, or else its nights."""
        return (self.gate.ratio, self.gate.low, self.gate.high) if self.gate else (self.size, self.low, self.high)

    @property
    def word(self) -> str:
        """Its state as people read it, with the direction of what is confirmed."""
        if self.state is not SuspicionState.CONFIRMED:
            return str(self.state.value)
        return f"confirmed {'faster' if not self.slower else 'slower' if self.reported else 'slower, earlier'}"

    @property
    def asks(self) -> tuple[str, ...]:
        """The arguments of the gate of both states; none where no gate can run both."""
        commits = ("--base", self.before.state.commit, "--head", self.after.state.commit)
        return (*commits, "--only", self.figure.subject) if self.interleaved else ()

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
    split, latest, earliest = (int(there[-counts[row]]) for counts in (steps.after, steps.latest, steps.earliest))
    before, settled = (trend.nights[int(there[there < at][-1])] for at in (split, earliest))
    step = float(steps.size[row]), float(steps.error[row]), float(steps.score[row])
    span = settled, trend.nights[latest]
    return _described(trend, values, kind, (before, trend.nights[split]), step, span, trend.nights[earliest])


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
    return Suspicion(
        trend.place, trend.figure, kind, size, size - statistics.Z_95 * error, size + statistics.Z_95 * error, score, before, after,
        (earliest.day, span[1].day), len(trend.nights) - index, moved, changed, row.causes, row.why,
        _can_interleave(kind, row.causes, before, after),
    )  # fmt: skip


def _moved(values: Values, split: int) -> bool:
    behind = int((~np.isnan(values[split:])).sum())
    if not behind:
        return False
    score, size, _ = at_split(values, np.array([behind]), table().scan)
    return bool(abs(score[0]) >= table().moved and abs(size[0]) >= table().scan.effect / 2)


def _changed(nights: Sequence[Night], span: tuple[Night, Night]) -> tuple[Cause, ...]:
    """Return which classes changed from one night of the span to the next; a class that changed and came back counts."""
    first, last = nights.index(span[0]), nights.index(span[1])
    whole = table()
    seen = {
        cause for place in range(first, last)
        for cause in whole.changed(nights[place].state, nights[place + 1].state)
    }  # fmt: skip
    return tuple(cause for cause in Cause if cause in seen)


def _can_interleave(kind: SeriesKind, causes: Sequence[Cause], before: Night, after: Night) -> bool:
    """Whether a gate can run both states: two commits with their locks, but never a driver or a machine of yesterday."""
    base, head = before.state.commit, after.state.commit
    known = git.is_reachable(base) and git.is_reachable(head) and base != head
    return known and kind is not SeriesKind.ANCHOR and causes[0] not in (Cause.DRIVER, Cause.MACHINE)


def gate_results(records: Mapping[Path, Record]) -> list[GateResult]:
    """Return what gates saw of times, oldest first."""
    results, gates = list[GateResult](), [row for row in store.distinct(records).items() if row[1].verb == GATE]
    for path, record in gates:
        facts = record.provenance
        begun = path, datetime.fromisoformat(record.started), record.stack, store.place(facts).host
        commits = str(facts.get("base", "")), str(facts.get("head", ""))
        for check in record.checks:
            if check.kind is Kind.CELL and check.aspect == TIME and (bounds := _bounds(check)):
                results.append(GateResult(*begun, *commits, check.subject, *bounds))
    return sorted(results, key=lambda result: result.started)


def _bounds(check: Check) -> tuple[float, float, float] | None:
    values = [check.figures.get(name) for name in ("ratio", "ratio, low", "ratio, high")]
    logs = [math.log(value) for value in values if isinstance(value, (int, float)) and value is not True and value > 0]
    return (logs[0], logs[1], logs[2]) if len(logs) == len(values) else None


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
    return replace(step, causes=causes, why=_SEEN, interleaved=True)


def settle(trend: Trend, gates: Iterable[GateResult]) -> tuple[dict[SeriesKind, Values], list[Suspicion]]:
    """Return the series with what gates have settled left out, and the suspicions that they settled, oldest first.

    What is confirmed is a new level: the series begins anew at the step. What is refuted is left out, from the step to the gate; where
    that makes `[refuted] nights` in a row it is a new level too, though none of the code's.
    """
    values = {kind: series.copy() for kind, series in trend.values.items()}
    steps, here = list[Suspicion](), (trend.place.stack, trend.place.host, trend.figure.subject)
    for gate in (gate for gate in gates if (gate.stack, gate.host, gate.subject) == here):
        for kind in _COMMITTED:
            split = _split(trend, gate, kind)
            if not split or not (suspicion := _recalled(trend, values, gate, kind, split)):
                continue
            settled = after_gate(suspicion, gate)
            if settled.gate:
                steps.append(settled)
                _leave_out(values, trend, split, settled, gate)
            break
    return values, steps


def _split(trend: Trend, gate: GateResult, kind: SeriesKind) -> int:
    """Return the first night after the step that a gate was about, 0 for none: its two sides are two nights that follow each other."""
    there = map(int, np.flatnonzero(~np.isnan(trend.values[kind])))
    pairs = pairwise(at for at in there if trend.nights[at].started <= gate.started)
    fitting = (
        after for before, after in pairs
        if _commit(gate.base, trend.nights[before]) and _commit(gate.head, trend.nights[after])
    )  # fmt: skip
    return max(fitting, default=0)


def _commit(label: str, night: Night) -> bool:
    return bool(label) and night.state.commit.startswith(label.partition(",")[0])


def _recalled(
    trend: Trend, values: dict[SeriesKind, Values], gate: GateResult, kind: SeriesKind, split: int
) -> Suspicion | None:
    """Return the suspicion that a gate was asked about, as it stood then; a gate where no series moved settles nothing."""
    past = [night.started <= gate.started for night in trend.nights]
    until = {series: np.where(past, row, np.nan) for series, row in values.items()}
    there = np.flatnonzero(~np.isnan(until[kind]))
    earlier, behind = there[there < split], int((there >= split).sum())
    if not len(earlier) or not 0 < behind <= table().scan.splits:
        return None
    (score,), (size,), (error,) = at_split(until[kind], np.array([behind]), table().scan)
    if abs(score) < table().moved:
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
        if (~np.isnan(whole[begin:until])).sum() >= table().refuted:
            row[begin:until], row[:begin] = whole[begin:until], np.nan


PASSED, SLOWER, TOO_FEW = 0, 1, 6
"""Exit codes: no slowdown is confirmed, one is, there are too few nights to say."""


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
        """Return the slowdowns that are reported: confirmed in the last nights, and no later gate saw the figure faster again."""
        return [step for step in self.settled if step.reported]

    @property
    def lacking(self) -> int:
        """How many more nights are needed before a step of any figure can be seen."""
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
            return f"TOO FEW NIGHTS: {text.counted(lacking, 'more night')} needed before a step can be seen"
        confirmed = text.counted(slower, "confirmed slowdown") if slower else "no new slowdown is confirmed"
        far = [term for place in self.places for term in place.long_terms if term.clear and term.size > 0]
        furthest = max(far, key=lambda term: term.size, default=None)
        since = f"; {furthest.figure.label} is {furthest.sentence}" if furthest else ""
        return f"{'SLOWER' if slower else 'DRIFTED' if far else 'QUIET'}: {confirmed}, {open_} suspected{since}"


def read_drift(tops: Iterable[Path], stack: str = "") -> Drift:
    """Read the records of nights and gates below these folders and return what they say; a bad one is skipped and named.

    `stack`: of this stack alone.
    """
    return drift_of(store.read(store.files(tops, (VERB, GATE))), stack)


def drift_of(loaded: store.Loaded, stack: str = "") -> Drift:
    gates = gate_results(loaded.records)
    groups = by_place(night for night in nights(loaded) if stack in ("", night.place.stack))
    places = [examine(place, those, gates) for place, those in groups.items()]
    return Drift(tuple(sorted(places, key=lambda place: place.place.label)), tuple(loaded.problems))


def examine(place: store.Place, history: Sequence[Night], gates: Sequence[GateResult]) -> PlaceDrift:
    """Return what the nights of one place tell, oldest first, with what gates saw of them."""
    drawn = trends(place, history)
    by_gates = [settle(trend, gates) for trend in drawn]
    settled = [step for _, those in by_gates for step in those]
    settled.sort(key=lambda step: step.gate.started if step.gate else step.after.started)
    settled = _with_reported(settled, history)
    steps = suspect(drawn, [values for values, _ in by_gates])
    lasting = [step for step in steps if not step.interleaved and step.nights >= table().lasting]
    suspicions = tuple(step for step in steps if step not in lasting)
    settled += [replace(step, state=SuspicionState.CONFIRMED, reported=step.slower) for step in lasting]
    return PlaceDrift(place, tuple(history), tuple(drawn), suspicions, tuple(settled))


def _with_reported(settled: Sequence[Suspicion], history: Sequence[Night]) -> list[Suspicion]:
    recent = history[-table().reported :][0].started if history else None
    latest = {step.figure: step for step in settled if step.state is SuspicionState.CONFIRMED}
    slower = [step for step in latest.values() if step.slower and recent and step.gate and step.gate.started >= recent]
    return [replace(step, reported=step in slower) for step in settled]


def parts(drift: Drift) -> Iterator[outline.Part]:
    yield outline.Heading(drift.headline)
    for place in drift.places:
        counts = f"{text.counted(len(place.nights), 'night')} of {text.counted(len(place.trends), 'figure')}"
        yield outline.Heading(f"{place.place.label}: {counts}", 2)
        if place.lacking:
            yield outline.TextLine(f"{text.counted(place.lacking, 'more night')} needed before a step can be seen", 1)
        earlier = [step for step in place.confirmed if step not in place.slowdowns]
        for step in (*place.slowdowns, *place.suspicions, *earlier, *place.refuted):
            yield outline.TextLine(line(step), 1)
            yield from (outline.TextLine(detail, 2) for detail in (when(step), *differences(step), _settled_by(step)))
        for far in (far for far in place.long_terms if far.clear):
            yield outline.TextLine(f"{far.figure.label}: {far.sentence}", 1)
        for night in (night for night in place.nights if night.disturbed):
            yield outline.TextLine(f"left out: {night.day}: {night.disturbed}", 1)


def line(step: Suspicion) -> str:
    """Say a step in a line: what it is called, of which figure, how large, since when, and the likeliest cause."""
    figure = f"{step.figure.label}, {step.kind.value}"
    return f"{step.word}: {figure}: {size_seen(step)} since {step.after.day}: {causes(step)}"


def _settled_by(step: Suspicion) -> str:
    if step.gate:
        return f"gate: {step.gate.path}"
    if step.state is SuspicionState.CONFIRMED:
        return "confirmed by nights alone"
    how = "" if step.interleaved else " by another night, as no gate can run yesterday's machine beside today's"
    return f"confirm{how}: {step.command}"


def size_seen(step: Suspicion) -> str:
    """Return how far a figure has stepped, by its gate or else by its nights; a percentage alone could be of seconds or of speed."""
    ratio, low, high = step.seen
    word = "neither slower nor faster" if step.gate and low <= 0 <= high else "slower" if ratio > 0 else "faster"
    return f"{statistics.percent(ratio)} [{statistics.percent(low)}, {statistics.percent(high)}] {word}"


def cause_names(step: Suspicion) -> str:
    return " and ".join(cause.value for cause in step.causes)


def causes(step: Suspicion) -> str:
    return f"{cause_names(step)} ({step.why})"


def when(step: Suspicion) -> str:
    first, last = step.between
    span = "" if first == last else f", or any night from {first} to {last}"
    return f"since {step.after.day}, {text.counted(step.nights, 'night')}{span}; moved: {', '.join(kind.value for kind in step.moved)}"


def differences(step: Suspicion) -> list[str]:
    groups = store.changes(step.before.state, step.after.state)
    return [f"{group}: {phrase}" for group, phrases in groups.items() for phrase in phrases]

"""What gates said of suspicions: only what a gate has confirmed is told as a slowdown.

A gate's record names its two sides: two commits, or the record of a night. From these the step that it was about is found again, so
that nothing but records is stored.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise
from pathlib import Path

import numpy as np

from stackproof.api.record import Check, Kind, Record, distinct, place, run_of
from stackproof.extras.nights.drift.nights import Night
from stackproof.extras.nights.drift.rules import Cause, SeriesKind, rules
from stackproof.extras.nights.drift.scan import Values, at_split
from stackproof.extras.nights.drift.series import Trend
from stackproof.extras.nights.drift.suspicions import Suspicion, describe, side_by_side

GATE, TIME = "gate", "time"
_COMMITTED = (SeriesKind.RATIO, SeriesKind.RAW)
_SEEN = "a gate ran both commits side by side, on one driver and machine"


@dataclass(frozen=True)
class GateSaid:
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

    @property
    def interleaved(self) -> bool:
        """Whether it ran two commits side by side; else it held today's state against a record."""
        return not self.base.endswith(".json")


@dataclass(frozen=True)
class Confirmed:
    """A suspicion that the gate of both states bears out; its size is the gate's."""

    suspicion: Suspicion
    gate: GateSaid


@dataclass(frozen=True)
class Refuted:
    """A suspicion of which the gate of both states surely sees less than half."""

    suspicion: Suspicion
    gate: GateSaid


def said(records: Mapping[Path, Record]) -> list[GateSaid]:
    """Return what gates say of times, oldest first."""
    found = [one for path, record in distinct(records).items() if record.verb == GATE for one in _of(path, record)]
    return sorted(found, key=lambda one: one.started)


def _of(path: Path, record: Record) -> Iterator[GateSaid]:
    facts = record.provenance
    for check in record.checks:
        if check.kind is Kind.CELL and check.aspect == TIME and (bounds := _bounds(check)):
            yield GateSaid(
                path, datetime.fromisoformat(record.started), record.stack, place(facts).host,
                str(facts.get("base", "")), str(facts.get("head", "")), check.subject, *bounds,
            )  # fmt: skip


def _bounds(check: Check) -> tuple[float, float, float] | None:
    values = [check.figures.get(name) for name in ("ratio", "ratio, low", "ratio, high")]
    numbers = [float(one) for one in values if isinstance(one, (int, float)) and not isinstance(one, bool) and one > 0]
    return (math.log(numbers[0]), math.log(numbers[1]), math.log(numbers[2])) if len(numbers) == len(values) else None


def judged(suspicion: Suspicion, gate: GateSaid) -> Confirmed | Refuted | None:
    """Return what a gate makes of a suspicion; nothing where its interval allows both.

    Confirmed: the gate's interval excludes no change, on the suspicion's side. Refuted: it excludes half of what was suspected.
    What two commits on one driver and machine show is the code's, or the wheels'; of driver and machine they refute nothing.
    """
    side = 1 if suspicion.slower else -1
    nearest = gate.low if side > 0 else -gate.high
    farthest = gate.high if side > 0 else -gate.low
    if nearest > 0:
        return Confirmed(_of_commits(suspicion) if gate.interleaved else suspicion, gate)
    speaks = suspicion.interleaved or not gate.interleaved
    return Refuted(suspicion, gate) if speaks and farthest < abs(suspicion.size) / 2 else None


def _of_commits(suspicion: Suspicion) -> Suspicion:
    """Return what two commits side by side confirm: whatever the curves suggest, neither driver nor machine."""
    own = (Cause.WHEELS, Cause.CODE)
    if set(suspicion.causes) <= set(own):
        return suspicion
    causes = tuple(cause for cause in own if cause in suspicion.changed) or (Cause.CODE,)
    return replace(suspicion, causes=causes, why=_SEEN, asks=side_by_side(suspicion), interleaved=True)


def settle(trend: Trend, gates: Iterable[GateSaid]) -> tuple[dict[SeriesKind, Values], list[Confirmed | Refuted]]:
    """Return the series with what gates have settled left out, and what they said, oldest first.

    What is confirmed is a new level: the series begins anew at the step. What is refuted is left out, from the step to the gate; where
    that makes `[refuted] nights` in a row it is a new level too, though none of the code's.
    """
    values = {kind: one.copy() for kind, one in trend.values.items()}
    found = list[Confirmed | Refuted]()
    for gate in gates:
        for kind in _kinds(trend, gate):
            split = _split(trend, gate, kind)
            if not split or not (suspicion := _recalled(trend, values, gate, kind, split)):
                continue
            if kind is SeriesKind.RATIO and suspicion.interleaved and not gate.interleaved:
                continue  # it was asked of the other series, which moved by something else
            if verdict := judged(suspicion, gate):
                found.append(verdict)
                _leave_out(values, trend, split, verdict, kind)
            break
    return values, found


def _kinds(trend: Trend, gate: GateSaid) -> Sequence[SeriesKind]:
    """Return the series that a gate can speak of; none where it was of another place or subject."""
    if (gate.stack, gate.host, gate.subject) != (trend.place.stack, trend.place.host, trend.figure.subject):
        return ()
    return _COMMITTED if gate.interleaved else tuple(SeriesKind)


def _split(trend: Trend, gate: GateSaid, kind: SeriesKind) -> int:
    """Return the first night after the step that a gate was about, 0 for none: its two sides are two nights that follow each other."""
    there = [
        int(one) for one in np.flatnonzero(~np.isnan(trend.values[kind])) if trend.nights[one].started <= gate.started
    ]
    for before, after in reversed(list(pairwise(there))):
        if not gate.interleaved:
            if _same_file(Path(gate.base), trend.nights[before].path):
                return after
        elif _commit(gate.base, trend.nights[before]) and _commit(gate.head, trend.nights[after]):
            return after
    return 0


def _commit(label: str, night: Night) -> bool:
    return bool(label) and night.state.commit.startswith(label.partition(",")[0])


def _same_file(one: Path, other: Path) -> bool:
    """Whether two names mean one record: records move between folders, with the name of their run."""
    return run_of(one) == run_of(other)


def _recalled(
    trend: Trend, values: dict[SeriesKind, Values], gate: GateSaid, kind: SeriesKind, split: int
) -> Suspicion | None:
    """Return the suspicion that a gate was asked about, as it stood then; a gate where no series moved settles nothing."""
    until = {
        one: np.where([night.started <= gate.started for night in trend.nights], row, np.nan)
        for one, row in values.items()
    }
    there = np.flatnonzero(~np.isnan(until[kind]))
    earlier, behind = there[there < split], int((there >= split).sum())
    if not len(earlier) or not 0 < behind <= rules().scan.splits:
        return None
    (score,), (size,), (error,) = at_split(until[kind], np.array([behind]), rules().scan)
    if abs(score) < rules().moved.score:
        return None
    around = trend.nights[int(earlier[-1])], trend.nights[split]
    step = float(size), float(error), float(score)
    return describe(trend, until, kind, around, step, around, trend.nights[split])


def _leave_out(
    values: dict[SeriesKind, Values], trend: Trend, split: int, verdict: Confirmed | Refuted, kind: SeriesKind
) -> None:
    until = sum(night.started <= verdict.gate.started for night in trend.nights)
    both = kind is SeriesKind.RATIO and not verdict.gate.interleaved
    for one in {kind, SeriesKind.RAW, *(verdict.suspicion.moved if both else ())}:
        row, whole = values[one], trend.values[one]
        if isinstance(verdict, Confirmed):
            row[:split] = np.nan
            continue
        row[split:until] = np.nan
        begin = until - int((~np.isnan(row[:until][::-1])).argmax())
        if (~np.isnan(whole[begin:until])).sum() >= rules().refuted.nights:
            row[begin:until], row[:begin] = whole[begin:until], np.nan

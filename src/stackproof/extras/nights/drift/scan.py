"""Did a series step, and when: a scan over logarithms that single nights do not mislead and that knows how nights hang together.

All series are looked at together: rows of an array, a column a night, NaN where a night is missing. What it looks at
and who is blamed stands in `data/drift.toml`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stackproof.api.base import places, statistics, toml
from stackproof.api.record import store

Values = NDArray[np.float64]
Counts = NDArray[np.int64]

_MOST_CORRELATION = 0.9
_NEAR = 6.0
"""Splits whose squared score is less than this below the best one's are as likely: twice a difference of log-likelihoods, about 95 %."""


@dataclass(frozen=True)
class ScanRules:
    """What the scan looks at (`data/drift.toml`, `[scan]`); nights are counted without those that are missing.

    `window`: so many last nights at most; `fewest`: nights before a split at least; `splits`: nights after it at most; `clip`: a single
    night counts as no further than so many robust standard deviations from the median; `floor`: the least standard deviation that is
    believed; `effect`: the least step that is worth a word, both as logarithms; `single`: the score from which tonight alone is suspected,
    `several`: from which two nights or more are.
    """

    window: int
    fewest: int
    splits: int
    clip: float
    floor: float
    effect: float
    single: float
    several: float


@dataclass(frozen=True)
class Steps:
    """The likeliest step of each series, one number a series; where nights are too few everything is zero.

    `score`: the step in standard errors, of a normal distribution; `size`: the median after less the median before, a logarithm, of nights
    as they are; `error`: its standard error;
    `after`: nights since; `latest` and `earliest`: as few and as many nights since are about as likely; `suspected`: whether it is told.
    """

    score: Values
    size: Values
    error: Values
    after: Counts
    latest: Counts
    earliest: Counts
    suspected: NDArray[np.bool_]


def scan(values: Values, rules: ScanRules) -> Steps:
    """Return the likeliest step of each series as of its last night.

    A night that is further than `clip` robust standard deviations from the median, and whose neighbours are not, is drawn in to there, so
    that one bad night is no step of several; tonight alone is judged as it is. Each split is a two-sample t of the nights after it and
    those before; its variance is widened by the lag-1 correlation of what both means leave over (the mean of k values of an AR(1)
    process), and the score is brought to the scale of a normal distribution.

    Args:
        values: logarithms of seconds or of ratios; rows are series, columns nights, NaN is missing.
        rules: what is looked at.
    """
    recent, count = _recent(np.atleast_2d(values), rules.window)
    splits = _Splits(recent, count, rules)
    first = splits.scores(np.zeros(len(count)))
    best = splits.best(first)
    correlation = splits.correlation(best)
    scores = splits.scores(correlation)
    return splits.steps(scores, splits.best(scores), correlation)


def _recent(values: Values, window: int) -> tuple[Values, Counts]:
    """Return the last nights that are there, at the right edge and in their order, and how many they are."""
    there = ~np.isnan(values)
    if not there.all():
        order = np.argsort(there, axis=1, kind="stable")
        values = np.take_along_axis(values, order, axis=1)
    recent = values[:, -window:]
    return recent, np.minimum(there.sum(axis=1), recent.shape[1])


def _median(values: Values, count: Counts) -> Values:
    if not values.shape[1]:
        return np.zeros(len(values))
    ordered, rows = np.sort(values, axis=1), np.arange(len(values))
    middle = (
        ordered[rows, np.maximum(count - 1, 0) // 2] + ordered[rows, np.minimum(count // 2, values.shape[1] - 1)]
    ) / 2
    return np.where(count > 0, middle, 0.0)


def _clipped(centred: Values, count: Counts, rules: ScanRules) -> Values:
    """Return the nights about their median, missing ones zero; one that is odd and whose neighbours are not is drawn in."""
    limit = np.maximum(statistics.MAD_SIGMA * _median(np.abs(centred), count), rules.floor)[:, None] * rules.clip
    nights = np.nan_to_num(centred)
    beside = np.pad(nights, ((0, 0), (1, 1)))
    highest, lowest = np.maximum(beside[:, :-2], beside[:, 2:]), np.minimum(beside[:, :-2], beside[:, 2:])
    return np.asarray(np.clip(nights, np.minimum(-limit, lowest), np.maximum(limit, highest)))


class _Splits:
    """Every split of every series: sums of both sides, a row a series and a column a number of nights after the split."""

    def __init__(self, recent: Values, count: Counts, rules: ScanRules) -> None:
        self._rules, self._count = rules, count
        self._centred = recent - _median(recent, count)[:, None]
        clipped = self._clipped = _clipped(self._centred, count, rules)
        width = max(1, min(rules.splits, clipped.shape[1] - rules.fewest))
        self.after = np.arange(1, width + 1)
        self._before = np.maximum(count[:, None] - self.after, 1)
        self._allowed = count[:, None] - self.after >= rules.fewest
        behind = np.cumsum(clipped[:, ::-1][:, :width], axis=1)
        behind = np.pad(behind, ((0, 0), (0, width - behind.shape[1])))
        total, squares = clipped.sum(axis=1)[:, None], (clipped**2).sum(axis=1)[:, None]
        self._ends = behind / self.after
        self._starts = (total - behind) / self._before
        left = squares - behind * self._ends - (total - behind) * self._starts
        degrees = np.maximum(count[:, None] - 2, 1)
        self._variance = np.maximum(left / degrees, rules.floor**2)
        self._distances = self._ends - self._starts
        if recent.shape[1]:
            self._distances[:, 0] = np.nan_to_num(self._centred[:, -1]) - self._starts[:, 0]
        self._limits = np.where(self.after == 1, rules.single, rules.several)

    def errors(self, correlation: Values) -> Values:
        """Return the standard error of each step where neighbouring nights are correlated so."""
        spread = _mean_variance(self.after[None, :], correlation) + _mean_variance(self._before, correlation)
        return np.asarray(np.sqrt(self._variance * spread))

    def scores(self, correlation: Values) -> Values:
        """Return each step in standard errors, on the scale of a normal distribution (Wallace 1959)."""
        t = self._distances / self.errors(correlation)
        degrees = np.maximum((self._count - 2) * (1 - correlation) / (1 + correlation), 3.0)[:, None]
        score = np.sign(t) * (8 * degrees + 1) / (8 * degrees + 3) * np.sqrt(degrees * np.log1p(t**2 / degrees))
        return np.where(self._allowed, score, 0.0)

    def best(self, scores: Values) -> Counts:
        """Return the column of the split that is furthest beyond its limit, or nearest to it."""
        return np.asarray(np.argmax(np.abs(scores) / self._limits, axis=1))

    def correlation(self, best: Counts) -> Values:
        """Return the lag-1 correlation of what the two means of this split leave over, corrected for its bias; never below zero."""
        rows = np.arange(len(best))
        ended, there = self._sides(best)
        left = self._clipped - np.where(ended, self._ends[rows, best][:, None], self._starts[rows, best][:, None])
        left[~there] = 0.0
        lag = (left[:, 1:] * left[:, :-1]).sum(axis=1) / np.maximum((left**2).sum(axis=1), self._rules.floor**2)
        return np.asarray(np.clip(lag + 2 / np.maximum(self._count, 1), 0.0, _MOST_CORRELATION))

    def _sides(self, best: Counts) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return which nights are after the split of each series, and which are there at all."""
        place = np.arange(self._clipped.shape[1])[None, :] - self._clipped.shape[1]
        return place >= -self.after[best][:, None], place >= -self._count[:, None]

    def sizes(self, best: Counts) -> Values:
        """Return the median after less the median before the split of each series, of nights as they are."""
        ended, there = self._sides(best)
        after = _median(np.where(ended, self._centred, np.nan), np.minimum(self.after[best], self._count))
        before = _median(np.where(~ended & there, self._centred, np.nan), np.maximum(self._count - self.after[best], 0))
        return after - before

    def steps(self, scores: Values, best: Counts, correlation: Values) -> Steps:
        rows = np.arange(len(best))
        score, size = scores[rows, best], self.sizes(best)
        near = self._allowed & (scores**2 >= score[:, None] ** 2 - _NEAR) & (np.sign(scores) == np.sign(score)[:, None])
        near[rows, best] = True
        suspected = (np.abs(score) >= self._limits[best]) & (np.abs(size) >= self._rules.effect)
        enough = self._allowed.any(axis=1)
        columns: dict[str, Any] = {
            "score": score, "size": size, "error": statistics.MEDIAN_ERROR * self.errors(correlation)[rows, best],
            "after": self.after[best], "latest": self.after[near.argmax(axis=1)], "earliest": self.after[-1 - near[:, ::-1].argmax(axis=1)],
        }  # fmt: skip
        return Steps(
            **{name: np.where(enough, value, 0) for name, value in columns.items()}, suspected=suspected & enough
        )


def at_split(values: Values, after: Counts, rules: ScanRules) -> tuple[Values, Values, Values]:
    """Return score, size and standard error of the step of each series at a split that another series named."""
    recent, count = _recent(np.atleast_2d(values), rules.window)
    splits = _Splits(recent, count, rules)
    column = np.clip(after - 1, 0, len(splits.after) - 1)
    correlation, rows = splits.correlation(column), np.arange(len(count))
    errors = statistics.MEDIAN_ERROR * splits.errors(correlation)[rows, column]
    return splits.scores(correlation)[rows, column], splits.sizes(column), errors


def _mean_variance(count: Any, correlation: Values) -> Values:
    """Return the variance of the mean of so many values of an AR(1) process of variance one."""
    rho = correlation[:, None]
    factor = (1 + rho) / (1 - rho) - 2 * rho * (1 - rho**count) / (count * (1 - rho) ** 2)
    return np.asarray(np.maximum(factor, 1 / count) / count)


FILE = places.DATA / "drift.toml"


class Cause(str, Enum):
    """Who to ask."""

    CODE = "code"
    WHEELS = "wheels"
    DRIVER = "driver"
    MACHINE = "machine"
    UNKNOWN = "unknown"


class SeriesKind(str, Enum):
    """What of a figure is followed: today over the anchor, the anchor alone, and what users get."""

    RATIO = "ratio"
    ANCHOR = "anchor"
    RAW = "raw"


@dataclass(frozen=True)
class CauseRow:
    moved: tuple[SeriesKind, ...]
    changed: tuple[Cause, ...]
    causes: tuple[Cause, ...]
    why: str


@dataclass(frozen=True)
class DriftRules:
    """The table `data/drift.toml`: how large a step must be, and how sure."""

    moved: float
    lasting: int
    refuted: int
    reported: int
    scan: ScanRules
    groups: Mapping[str, tuple[str, ...]]
    cause: tuple[CauseRow, ...]

    def changed(self, before: store.State, after: store.State) -> frozenset[Cause]:
        """Return which classes of causes differ between two states."""
        groups = store.changes(before, after)
        return frozenset(
            Cause(name) for name, members in self.groups.items() if any(member in groups for member in members)
        )

    def blame(self, moved: Collection[SeriesKind], changed: Collection[Cause]) -> CauseRow:
        """Return the row of the truth table for the series that moved and the classes that changed; `raw` decides nothing."""
        parts = {kind for kind in moved if kind is not SeriesKind.RAW}
        return next(row for row in self.cause if set(row.moved) == parts and set(row.changed) <= set(changed))


table = toml.kept(FILE, DriftRules)

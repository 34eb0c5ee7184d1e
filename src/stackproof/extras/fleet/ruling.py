"""What a duel says: from the ratios of paired turns, suspect over partner, to confirmed, refuted or open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stackproof.base.statistics import Interval, median_interval
from stackproof.extras.fleet.rules import DuelRules
from stackproof.record.records import Verdict


@dataclass(frozen=True)
class DuelRuling:
    """The verdict of a look, and what is known of the median ratio; `FAILED` confirms the suspicion, `PASSED` refutes it."""

    verdict: Verdict
    interval: Interval
    turns: int

    @property
    def said(self) -> str:
        """Say it in words, in per cent slower than the partner."""
        known = ", ".join(f"{100 * (one - 1):+.1f}" for one in (self.interval.low, self.interval.high))
        return f"{100 * (self.interval.median - 1):+.1f} % [{known}] beside it in {self.turns} turns"


def ruled(ratios: Sequence[float], terms: DuelRules, last: bool) -> DuelRuling:
    """Judge the turns until now; before the last partner only what is far beyond the effect is confirmed.

    The interval is of order statistics, so that it assumes no distribution, and is wider where turns know of one another.
    """
    found = median_interval(ratios)
    if found.low > 1 + (terms.effect if last else terms.early):
        return DuelRuling(Verdict.FAILED, found, len(ratios))
    if found.high < 1 + terms.effect:
        return DuelRuling(Verdict.PASSED, found, len(ratios))
    return DuelRuling(Verdict.INCONCLUSIVE, found, len(ratios))

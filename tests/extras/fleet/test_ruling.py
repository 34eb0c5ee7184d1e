"""What a duel says: only what is beyond the effect as a whole is confirmed, and only by the last partner unless it is far beyond."""

from __future__ import annotations

import random

import pytest

from stackproof.extras.fleet import rules, ruling
from stackproof.record.records import Verdict

TERMS = rules.load().duel


def turns(ratio: float, count: int, seed: int = 1) -> list[float]:
    """Return turns of a host that takes so many times as long, with noise of half a per cent."""
    rng = random.Random(seed)
    return [ratio * (1 + rng.gauss(0, 0.005)) for _ in range(count)]


@pytest.mark.parametrize(
    ("ratio", "count", "last", "verdict"),
    [
        (1.20, 12, False, Verdict.FAILED),
        (1.03, 12, False, Verdict.INCONCLUSIVE),
        (1.03, 48, True, Verdict.FAILED),
        (1.00, 12, False, Verdict.PASSED),
        (0.90, 12, False, Verdict.PASSED),
        (1.022, 48, True, Verdict.INCONCLUSIVE),
    ],
)
def test_what_turns_say(ratio: float, count: int, last: bool, verdict: Verdict) -> None:
    assert ruling.ruled(turns(ratio, count), TERMS, last).verdict is verdict


def test_healthy_hosts_are_not_confirmed() -> None:
    rng = random.Random(7)
    said = [ruling.ruled(turns(1 + rng.gauss(0, 0.004), 48, seed), TERMS, True).verdict for seed in range(500)]
    assert Verdict.FAILED not in said


def test_it_is_said_in_per_cent() -> None:
    assert ruling.ruled([1.1] * 12, TERMS, True).said == "+10.0 % [+10.0, +10.0] beside it in 12 turns"

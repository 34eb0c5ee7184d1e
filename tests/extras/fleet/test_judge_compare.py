"""Robust z: bad hosts do not move the middle, and the limit holds the error of a whole fleet."""

from __future__ import annotations

import math
import random

import pytest

from stackproof.extras.fleet import judge, plan


def test_bad_hosts_move_neither_middle_nor_spread() -> None:
    rng = random.Random(1)
    good = [1 + rng.gauss(0, 0.004) for _ in range(200)]
    clean, spoilt = judge.yardstick(good, 200), judge.yardstick([*good, *[50.0] * 60], 260)
    assert spoilt.ratio(1.0) == pytest.approx(clean.ratio(1.0), abs=0.003)
    assert spoilt.scale < 2.5 * clean.scale
    assert clean.scale == pytest.approx(0.004, rel=0.2)


def test_equal_hosts_have_the_floor_as_their_spread() -> None:
    assert judge.yardstick([1.0] * 10, 10).z(1.0005) == pytest.approx(0.5, abs=0.01)


def test_the_limit_holds_the_error_of_all_looks() -> None:
    rng = random.Random(2)
    limit = judge.limit(0.01, 200)
    beyond = sum(any(rng.gauss(0, 1) > limit for _ in range(200)) for _ in range(400))
    assert beyond <= 10
    assert judge.limit(0.01, 10000) > limit > judge.limit(0.01, 1)


@pytest.mark.parametrize("count", [12, 16, 64, 500])
def test_one_population_is_not_two(count: int) -> None:
    rng = random.Random(count)
    row = plan.small(count)
    assert row is not None
    fleets = (
        [math.exp(0.02 * rng.gauss(0, 1) / math.sqrt(rng.gammavariate(1.5, 2) / 3)) for _ in range(count)]
        for _ in range(200)
    )
    assert not [one for one in fleets if judge.modes(one, 0.25, 0.001).distance >= row.modes]


def test_two_populations_are_two() -> None:
    rng = random.Random(3)
    found = judge.modes([(1.03 if at < 20 else 1.0) * math.exp(rng.gauss(0, 0.004)) for at in range(60)], 0.25, 0.001)
    assert found.distance > 5 and found.slower == 20 and found.apart == pytest.approx(0.03, abs=0.004)

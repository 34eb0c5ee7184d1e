"""The laboratory of bisections: each method finds what is plain to see, and ours says nothing where nothing was planted."""

from __future__ import annotations

import random

import pytest

from tools.bisect_calibration.methods import METHODS, ours
from tools.bisect_calibration.worlds import CASES, Case, Machine


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("line", [False, True])
def test_a_large_step_is_found_by_all(name: str, line: bool) -> None:
    if name.startswith("git_bayesect"):
        pytest.importorskip("git_bayesect")
    dice = random.Random(3)
    planted = Case("large", 12, 1, 0.4, line=line).plant(dice)
    assert METHODS[name](planted, Machine(dice, 0.01)).blamed == planted.culprits


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_was_planted_is_named_and_nothing_else(case: Case) -> None:
    right = 0
    for seed in range(10):
        dice = random.Random(seed)
        planted = case.plant(dice)
        right += ours(planted, case.machine(dice)).blamed == planted.culprits
    assert right >= 9


def test_culprits_that_must_meet_cost_nothing_apart() -> None:
    meeting = next(case for case in CASES if case.together).plant(random.Random(1))
    one, other = meeting.culprits
    assert meeting.worse(frozenset({one})) == meeting.worse(frozenset({other})) == 0.0
    assert meeting.worse(meeting.culprits) == meeting.until(11) == 0.05

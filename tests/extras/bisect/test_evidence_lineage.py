"""The first bad commit of a line: by exact signs in a logarithm of runs, by times beside the good side while the machine drifts."""

from __future__ import annotations

import random

import pytest

from stackproof.extras.bisect.evidence import Exact, FailureRate, Lineage, Ratios, Signs


def exact(count: int, first: int, broken: tuple[int, ...] = ()) -> tuple[Lineage, int]:
    """Search a line where every place from `first` on is bad, and return it with the number of runs."""
    signs = Signs(Exact())
    line, runs = Lineage(count, signs), 0
    while (at := line.ask()) is not None:
        runs += 1
        if at in broken:
            line.unresolved[at] = "does not build"
        else:
            signs.add(at, float(at >= first))
    return line, runs


@pytest.mark.parametrize("first", range(64))
def test_an_exact_sign_takes_a_logarithm_of_runs(first: int) -> None:
    line, runs = exact(64, first)
    assert line.likeliest() == (range(first, first + 1), 1.0) and runs <= 7


@pytest.mark.parametrize("first", range(10))
def test_what_does_not_build_is_stepped_over(first: int) -> None:
    line, _ = exact(10, first, broken=(4, 5))
    answer = line.likeliest()[0]
    assert first in answer and (answer == range(4, 7) if first in (4, 5, 6) else len(answer) == 1)


def test_a_failure_that_comes_and_goes_is_found() -> None:
    right = 0
    for seed in range(20):
        dice = random.Random(seed)
        first = dice.randrange(20)
        signs = Signs(FailureRate((0, 5), (4, 5)))
        line = Lineage(20, signs)
        while (at := line.ask()) is not None:
            signs.add(at, float(at >= first and dice.random() < 0.8))
        right += line.likeliest()[0] == range(first, first + 1)
    assert right >= 17


def test_a_step_is_found_while_the_machine_drifts() -> None:
    right = 0
    for seed in range(20):
        dice = random.Random(seed)
        first, machine = dice.randrange(32), [0.0]

        def run(bad: bool, dice: random.Random = dice, machine: list[float] = machine) -> float:
            machine[0] += dice.gauss(0, 0.3)
            return machine[0] + 2.0 * bad + dice.gauss(0, 1)

        ratios = Ratios([(31, run(True) - run(False)) for _ in range(6)])
        line = Lineage(32, ratios)
        while (at := line.ask()) is not None:
            good, candidate = run(False), run(at >= first)
            ratios.add(at, candidate - good)
        right += line.likeliest()[0] == range(first, first + 1)
    assert right >= 18

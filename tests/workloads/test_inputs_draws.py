"""The integer source under all data makers."""

from __future__ import annotations

import hashlib

import pytest

from stackproof.workloads.inputs import Draws


def test_a_seed_gives_the_same_numbers_on_every_machine() -> None:
    raw = Draws(0).array((1000,), below=1 << 16).astype("<i8").tobytes()

    assert hashlib.sha256(raw).hexdigest() == "c7bfb221b5d457f89fa582b80910b3bc414672317356909264dd6a6d68af2311"


def test_bounds_are_included() -> None:
    draws = Draws(1)

    assert {draws.between(3, 5) for _ in range(100)} == {3, 4, 5}


@pytest.mark.parametrize("count", [0, 1, 7])
def test_chosen_items_are_different(count: int) -> None:
    chosen = Draws(2).choose(range(7), count)

    assert len(chosen) == len(set(chosen)) == count
    assert set(chosen) <= set(range(7))

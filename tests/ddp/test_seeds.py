"""Trainings from many seeds: ranks and the one process see the same pictures in the same steps."""

from __future__ import annotations

import pytest

from stackproof.ddp.seeds import of_one, of_rank, pictures, single
from stackproof.device.devices import HOST


@pytest.mark.parametrize("world", [2, 4])
def test_the_ranks_parts_of_a_step_are_its_batch(world: int) -> None:
    steps = list(zip(*(of_rank(rank, world, 5) for rank in range(world)), strict=True))
    batches = list(of_one(world, 5))
    assert len(steps) == len(batches)
    for parts, batch in zip(steps, batches, strict=True):
        assert sorted(batch) == sorted(index for part in parts for index in part)
        assert len({len(part) for part in parts}) == 1


def test_an_epoch_has_every_picture_once() -> None:
    batches = list(of_one(2, 5))
    first = [index for batch in batches[:4] for index in batch]
    assert list(range(pictures(2))) == sorted(first)
    assert batches[:4] != batches[4:8]


def test_a_seed_gives_one_loss() -> None:
    assert single(HOST, 5, 2) == single(HOST, 5, 2)
    assert single(HOST, 5, 2) != single(HOST, 6, 2)

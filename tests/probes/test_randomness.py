"""Rules for generators."""

from __future__ import annotations

import pytest
import torch

from stackproof.device.devices import HOST
from stackproof.probes import randomness
from stackproof.record.checks import CheckFailed


def test_a_generator_that_ignores_its_seed_is_caught() -> None:
    with pytest.raises(CheckFailed, match="the same 3 numbers came from a seed whose bit 0 is another"):
        randomness.repeats("stuck", lambda device, source: torch.ones(3), HOST)


def test_a_generator_that_loses_a_bit_of_its_seed_is_caught() -> None:
    with pytest.raises(CheckFailed, match="the same 3 numbers came from a seed whose bit 2 is another"):
        randomness.repeats(
            "coarse", lambda device, source: torch.full((3,), source.initial_seed() & ~4 if source else 0), HOST
        )


def test_a_generator_that_does_not_move_is_caught() -> None:
    with pytest.raises(CheckFailed, match="came twice in a row"):
        randomness.repeats(
            "still", lambda device, source: torch.full((3,), source.initial_seed() if source else 0), HOST
        )


def test_the_host_has_what_it_needs() -> None:
    assert list(randomness.seeders(HOST)) == ["torch.manual_seed", "stackproof"]
    before = torch.get_rng_state()
    assert torch.equal(randomness.read(HOST), before)

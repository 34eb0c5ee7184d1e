"""Rules for generators, with two stand-in cards for what one device cannot show."""

from __future__ import annotations

import pytest
import torch

from stackproof.device.devices import HOST
from stackproof.device.kinds import Accelerator
from stackproof.probes import randomness
from stackproof.record.checks import CheckFailed


class Twins:
    """A test double: two cards' generators, which may share a state, forget to be seeded, or move each other."""

    def __init__(self, *, shared: bool = False, unseeded: tuple[int, ...] = ()) -> None:
        own = torch.Generator()
        self.generators = [own, own if shared else torch.Generator()]
        self.unseeded = unseeded

    def seed(self, value: int) -> None:
        for index, generator in enumerate(self.generators):
            if index not in self.unseeded:
                generator.manual_seed(value)

    def draw(self, card: Accelerator) -> torch.Tensor:
        return torch.rand(16, generator=self.generators[card.index])


CARDS = (Accelerator("xpu", 0), Accelerator("xpu", 1))


def twins(monkeypatch: pytest.MonkeyPatch, **faults: object) -> Twins:
    made = Twins(**faults)  # type: ignore[arg-type]
    monkeypatch.setattr(randomness, "uniform", made.draw)
    return made


def test_cards_with_generators_of_their_own_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = twins(monkeypatch)
    randomness.apart(CARDS, pair.seed)
    randomness.seeds_all(CARDS, pair.seed)


def test_cards_that_share_a_generator_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = twins(monkeypatch, shared=True)
    with pytest.raises(CheckFailed, match="xpu:1: 16 of 16 numbers differ after xpu:0 drew"):
        randomness.apart(CARDS, pair.seed)


def test_a_card_that_no_seed_reaches_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = twins(monkeypatch, unseeded=(1,))
    with pytest.raises(CheckFailed, match="xpu:1: 16 of 16 numbers differ after all cards were seeded alike"):
        randomness.seeds_all(CARDS, pair.seed)


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

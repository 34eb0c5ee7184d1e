"""Random numbers that can be had again: by seed, by saved state, per generator and per card."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from stackproof.device.kinds import Device
from stackproof.record.checks import require

COUNT = 4096
SEED_BITS = 32
"""Seeds that differ in one of these bits give other numbers; torch's generator of the CPU takes no more."""
Source = torch.Generator | None
Draw = Callable[[Device, Source], torch.Tensor]

DRAWS: dict[str, Draw] = {
    "uniform": lambda device, source: torch.rand(COUNT, device=device.torch, generator=source),
    "normal": lambda device, source: torch.randn(COUNT, device=device.torch, generator=source),
    "whole numbers": lambda device, source: torch.randint(1 << 20, (COUNT,), device=device.torch, generator=source),
    "permutation": lambda device, source: torch.randperm(COUNT, device=device.torch, generator=source),
    "bernoulli": lambda device, source: torch.empty(COUNT, device=device.torch).bernoulli_(0.5, generator=source),
    "exponential": lambda device, source: torch.empty(COUNT, device=device.torch).exponential_(generator=source),
}


def uniform(device: Device) -> torch.Tensor:
    """Draw from the device's own generator, and bring the numbers to the host."""
    return torch.rand(COUNT, device=device.torch).cpu()


def seeded(device: Device, seed: int) -> torch.Generator:
    return torch.Generator(device=device.torch).manual_seed(seed)


def again(name: str, first: torch.Tensor, second: torch.Tensor, how: str) -> None:
    """Fail unless two draws are the same bits."""
    differ = int((first.cpu() != second.cpu()).sum())
    require(differ == 0, f"{name}: {differ} of {first.numel()} numbers differ {how}")


def others(name: str, first: torch.Tensor, second: torch.Tensor, how: str) -> None:
    """Fail if two draws that should have nothing in common are the same."""
    require(not torch.equal(first.cpu(), second.cpu()), f"{name}: the same {first.numel()} numbers came {how}")


def repeats(name: str, draw: Draw, device: Device) -> None:
    """A generator gives the same bits for the same seed, others for another seed, and others when asked again."""
    generator = seeded(device, 7)
    first, following = draw(device, generator), draw(device, generator)
    again(name, first, draw(device, seeded(device, 7)), "between two generators of the same seed")
    for bit in range(SEED_BITS):
        others(name, first, draw(device, seeded(device, 7 ^ 1 << bit)), f"from a seed whose bit {bit} is another")
    others(name, first, following, "twice in a row")


def independent(device: Device) -> None:
    """Drawing from one generator moves neither another one nor the device's own."""
    device.seed(7)
    generator, expected = seeded(device, 1), DRAWS["uniform"](device, seeded(device, 1))
    own = uniform(device)
    device.seed(7)
    DRAWS["uniform"](device, seeded(device, 2))
    again("a generator", DRAWS["uniform"](device, generator), expected, "after another generator was used")
    again("the device's own generator", uniform(device), own, "after other generators were used")


def read(device: Device) -> torch.Tensor:
    """Return the state of the device's own generator; the CPU's is torch's."""
    module = torch.get_device_module(device.kind)
    return module.get_rng_state(device.torch) if hasattr(module, "get_rng_state") else torch.get_rng_state()


def write(device: Device, state: torch.Tensor) -> None:
    """Set the state of the device's own generator."""
    module = torch.get_device_module(device.kind)
    if hasattr(module, "set_rng_state"):
        module.set_rng_state(state, device.torch)
    else:
        torch.set_rng_state(state)


def restores(device: Device) -> None:
    """A saved state brings the same numbers back, of the device's own generator and of another."""
    state, ones = read(device), torch.ones(COUNT, device=device.torch)
    first, mask = uniform(device), torch.nn.functional.dropout(ones, 0.5)
    write(device, state)
    again("the device's own generator", uniform(device), first, "after its state was restored")
    again("dropout", torch.nn.functional.dropout(ones, 0.5), mask, "after the state was restored")
    generator = seeded(device, 3)
    saved = generator.get_state()
    for one in (torch.rand, torch.randn):
        alone, after = (one(1, device=device.torch, generator=generator) for _ in range(2))
        others("a generator", alone, after, "one after the other")
    generator.set_state(saved)
    drawn = DRAWS["normal"](device, generator)
    generator.set_state(saved)
    again("a generator", DRAWS["normal"](device, generator), drawn, "after its state was restored")


def seeders(device: Device) -> dict[str, Callable[[int], object]]:
    """Return the calls that promise to seed every card, by name."""
    module = torch.get_device_module(device.kind)
    of_type = {"manual_seed_all": module.manual_seed_all} if hasattr(module, "manual_seed_all") else {}
    return {"torch.manual_seed": torch.manual_seed, "stackproof": device.seed, **of_type}


def seeds_all(cards: Sequence[Device], seed: Callable[[int], object]) -> None:
    """One seed sets every card: the same numbers again, whichever card is current, and no card is left out."""
    seed(11)
    first = {card: uniform(card) for card in cards}
    seed(11)
    for card in reversed(cards):
        again(str(card), uniform(card), first[card], "after all cards were seeded alike")
    for bit in range(SEED_BITS):
        seed(11 ^ 1 << bit)
        for card in cards:
            others(str(card), uniform(card), first[card], f"from a seed whose bit {bit} is another")


def apart(cards: Sequence[Device], seed: Callable[[int], object]) -> None:
    """Drawing on one card does not move the generator of another."""
    for card in cards:
        seed(13)
        expected = {other: uniform(other) for other in cards if other != card}
        seed(13)
        uniform(card)
        for other, drawn in expected.items():
            again(str(other), uniform(other), drawn, f"after {card} drew")

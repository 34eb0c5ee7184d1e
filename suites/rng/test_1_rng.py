"""Random numbers: the same seed gives the same bits, generators are independent, state can be saved and restored."""

from __future__ import annotations

import pytest

from stackproof.device import devices
from stackproof.device.kinds import Device
from stackproof.probes import randomness
from stackproof.record.records import Figure
from stackproof.stack import capabilities
from stackproof.stack.stacks import Stack


@pytest.mark.deadline(60)
@pytest.mark.parametrize("name", list(randomness.DRAWS))
def test_seed(name: str, device: Device, figures: dict[str, Figure]) -> None:
    """The same seed gives the same bits, another seed others, and a generator moves on."""
    randomness.repeats(name, randomness.DRAWS[name], device)
    figures["summary"] = f"{randomness.COUNT} numbers came again, bit for bit"


@pytest.mark.deadline(60)
def test_independent(device: Device, figures: dict[str, Figure]) -> None:
    """A generator is moved by nothing but draws from it."""
    randomness.independent(device)
    figures["summary"] = "generators of one device do not move each other"


@pytest.mark.deadline(60)
def test_state(device: Device, figures: dict[str, Figure]) -> None:
    """A saved state brings the same numbers back."""
    randomness.restores(device)
    figures["summary"] = "states of the device's generator and of another were saved and restored"


@pytest.mark.deadline(60)
def test_seed_all(stack: Stack, device: Device, figures: dict[str, Figure]) -> None:
    """One seed sets every visible card."""
    cards = devices.visible(stack.device)
    calls = randomness.seeders(device)
    for seed in calls.values():
        randomness.seeds_all(cards, seed)
    figures["summary"] = f"one seed set {len(cards)} devices, by {', '.join(calls)}"


@pytest.mark.deadline(60)
def test_cards_apart(stack: Stack, device: Device, figures: dict[str, Figure]) -> None:
    """Drawing on one card does not move another's generator."""
    capabilities.require(stack, "several-cards")
    cards = devices.visible(stack.device)
    if len(cards) < 2:
        capabilities.withhold("a-card-each", f"only {cards[0]} is visible; generators of two cards cannot be compared")
    randomness.apart(cards, device.seed)
    figures["summary"] = f"generators of {len(cards)} cards do not move each other"

"""Which group of ranks answers for a backend of the stack: as many cards as there are, up to two ranks."""

from __future__ import annotations

from collections.abc import Sequence

from stackproof.device import devices
from stackproof.device.kinds import Device
from stackproof.ranks import libraries
from stackproof.ranks.launch import Arrangement
from stackproof.stack.stacks import Stack

WORLD = 2


def members(stack: Stack, backend: str) -> Arrangement:
    """Return two ranks for a backend, each on a card of its own where its library wants that; one rank where there is one card."""
    cards = devices.visible(stack.device)
    library = libraries.serving(backend)
    if stack.device not in library.devices:
        note = f"{library.name} takes no tensors of {stack.device}, so they are the host's"
        return Arrangement(backend, (0,) * WORLD, note, on_host=True)
    return _on_cards(cards, backend, library.own_cards)


def _on_cards(cards: Sequence[Device], backend: str, own_cards: bool) -> Arrangement:
    if len(cards) >= WORLD or (own_cards and not cards[0].shareable):
        note = "" if len(cards) >= WORLD else f"one rank: there is one card, and {backend} wants one for each rank"
        return Arrangement(backend, tuple(card.index for card in cards[:WORLD]), note)
    note = "" if cards[0].shareable else f"{WORLD} ranks share {cards[0]}"
    return Arrangement(backend, (cards[0].index,) * WORLD, note)

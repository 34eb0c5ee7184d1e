"""In this process: work lands on the card asked for, for every card and every accepted spelling (docs/users-reports.md A2)."""

from __future__ import annotations

import pytest

from stackproof.base.errors import Refusal
from stackproof.device import devices
from stackproof.probes import placement
from stackproof.record.checks import require
from stackproof.record.records import Figure
from stackproof.stack import capabilities
from stackproof.stack.stacks import Stack


@pytest.mark.deadline(120)
def test_spellings(stack: Stack, figures: dict[str, Figure]) -> None:
    """For each card and spelling the tensor is on that card, and only that card's memory counts it."""
    cards = devices.visible(stack.device)
    require(bool(cards), f"torch sees no '{stack.device}' device")
    for card in cards:
        figures[str(card)] = placement.lands(card, cards, placement.spellings(card))
    figures["summary"] = f"{len(cards)} x {figures[str(cards[0])]} spellings land where they should"


@pytest.mark.deadline(60)
def test_slips(stack: Stack, figures: dict[str, Figure]) -> None:
    """Names that could silently mean card 0 are refused: several cards in one name, a full-width colon, an index too many."""
    kind, total = stack.device, devices.count(stack.device)
    slips = (f"{kind}:0,1", f"{kind}\uff1a0", f"{kind}:{total}", "0", f"{kind}:", f"{kind}:-1", f"{kind.upper()}:0")
    for slip in slips:
        try:
            taken = devices.parse(slip, kind)
        except Refusal:
            continue
        require(False, f"'{slip}' was taken for {taken}")
    figures["summary"] = f"{len(slips)} slips are refused"


@pytest.mark.deadline(60)
def test_queues(stack: Stack, figures: dict[str, Figure]) -> None:
    """Streams and events belong to their card, are current in their block only, and order what is queued on them."""
    capabilities.require(stack, "device-events")
    cards = devices.visible(stack.device)
    for card in cards:
        placement.queues(card)
    figures["summary"] = f"streams and events of {len(cards)} cards are their own"


@pytest.mark.deadline(60)
def test_current_is_restored(stack: Stack, figures: dict[str, Figure]) -> None:
    """A card that is made current for a block is not current after it, also when the block raises."""
    capabilities.require(stack, "several-cards")
    cards = devices.visible(stack.device)
    for card in cards:
        with placement.unmoved(card, f"a block with {card} current that raises"):
            try:
                with card.current():
                    raise KeyError
            except KeyError:
                continue
    figures["summary"] = f"{len(cards)} cards gave the current device back"

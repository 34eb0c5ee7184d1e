"""In child processes: the stack's visibility variable shows one card, and the right one."""

from __future__ import annotations

import pytest

from stackproof.device import devices
from stackproof.probes import placement
from stackproof.record.checks import NotApplicable, require
from stackproof.record.records import Figure
from stackproof.runner.request import Request
from stackproof.stack.stacks import Stack


@pytest.mark.deadline(300)
def test_one_card(stack: Stack, run_request: Request, figures: dict[str, Figure]) -> None:
    """With the variable set to card i, a process sees one card, by its serial number card i, and computes on it."""
    if not stack.visibility:
        raise NotApplicable(f"{stack.label} has no visibility variable: there is one device, which nothing can hide")
    cards = devices.visible(stack.device)
    require(bool(cards), f"torch sees no '{stack.device}' device")
    for card in cards:
        child = placement.seen_by_child(stack, card, 60 * run_request.deadline_scale)
        placement.only_that_card(stack, card, placement.identity(card), child)
        figures[str(card)] = f"{stack.visibility}={child['value']}: {child['identity']}"
    figures["summary"] = f"{stack.visibility} shows each of {len(cards)} cards alone"

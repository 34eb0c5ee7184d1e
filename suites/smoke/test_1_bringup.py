"""Every visible device comes up, has a name, and computes."""

from __future__ import annotations

import pytest
import torch

from stackproof import device as devices
from stackproof.checks import require
from stackproof.records import Figure
from stackproof.stacks import Stack


@pytest.mark.deadline(60)
def test_devices(stack: Stack, figures: dict[str, Figure]) -> None:
    """Each visible device multiplies known matrices right, and its results stay on it."""
    cards = devices.visible(stack.device)
    require(bool(cards), f"torch sees no '{stack.device}' device")
    for card in cards:
        _multiply(card)
        figures[str(card)] = card.name()
        figures |= {f"{card}.{name}": value for name, value in card.memory().figures().items()}
    figures["summary"] = ", ".join(f"{card}: {card.name()}" for card in cards)


def _multiply(card: devices.Device) -> None:
    """Multiply small whole numbers: every dtype has an exact answer for them."""
    left, right = torch.arange(35.0).reshape(5, 7) % 5, torch.arange(42.0).reshape(7, 6) % 3
    product = left.to(card.torch) @ right.to(card.torch)
    card.synchronize()
    require(product.device.type == card.torch.type, f"{card}: the product is on {product.device}")
    require(bool(torch.equal(product.cpu(), left @ right)), f"{card}: a 5x7 by 7x6 product of whole numbers is wrong")

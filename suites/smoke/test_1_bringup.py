"""Every visible device comes up, has a name, and computes."""

from __future__ import annotations

import pytest
import torch

from stackproof.device import devices
from stackproof.device.kinds import Device
from stackproof.record.checks import require
from stackproof.record.records import Figure
from stackproof.stack.stacks import Stack


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


def _multiply(card: Device) -> None:
    """Multiply small whole numbers: every dtype has an exact answer, and Python knows it without torch's kernels."""
    left = [[(7 * row + column) % 5 for column in range(7)] for row in range(5)]
    right = [[(6 * row + column) % 3 for column in range(6)] for row in range(7)]
    expected = [
        [sum(a * b for a, b in zip(row, column, strict=True)) for column in zip(*right, strict=True)] for row in left
    ]
    product = torch.tensor(left, dtype=torch.float32, device=card.torch) @ torch.tensor(
        right, dtype=torch.float32, device=card.torch
    )
    card.synchronize()
    require(product.device.type == card.torch.type, f"{card}: the product is on {product.device}")
    require(product.tolist() == expected, f"{card}: a 5x7 by 7x6 product of whole numbers is wrong")

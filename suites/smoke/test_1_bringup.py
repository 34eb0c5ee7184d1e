"""Every visible device comes up, has a name, and computes."""

from __future__ import annotations

import sys

import pytest
import torch

from stackproof.base import processes
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
        figures |= {f"{card}.{name}": value for name, value in vars(card.memory()).items()}
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


_SHARED = """
import gc
gc.disable()
import torch
from torch.nn import functional


def found():
    torch.manual_seed(0)
    image, kernel = torch.randn(64, 3, 24, 24), torch.randn(8, 3, 3, 3, requires_grad=True)
    rows, weight = torch.randn(4096, 64), torch.randn(32, 64, requires_grad=True)
    results = [functional.conv2d(image, kernel), functional.linear(rows, weight).softmax(1), rows.exp().sum(0), rows.sort(0)[0]]
    gradients = [torch.autograd.grad(results[k].square().sum(), leaf)[0] for k, leaf in enumerate((kernel, weight))]
    return [one.detach() for one in (*results, *gradients)]


count, many = torch.get_num_threads(), found()
torch.set_num_threads(1)
worst = max(float((one - other).abs().max() / other.abs().max()) for one, other in zip(many, found()))
print(count, worst if worst == worst else float("inf"))
"""
_PATIENCE_S = 60.0


@pytest.mark.deadline(90)
def test_threads(figures: dict[str, Figure]) -> None:
    """With as many threads of the CPU as a user gets, results are those of one thread: all other checks of a small run have one."""
    ended = processes.run([sys.executable, "-c", _SHARED], seconds=_PATIENCE_S)
    require(
        not ended.timed_out,
        f"a convolution and its gradient with torch's own number of threads do not end in {_PATIENCE_S:.0f} s",
    )
    require(ended.ok, f"torch's own number of threads: ended with {ended.code}: {ended.errors.strip()[-200:]}")
    count, worst = ended.output.split()
    figures |= {"threads": int(count), "largest difference": float(worst)}
    require(
        float(worst) < 1e-4,
        f"with {count} threads results are off by {float(worst):.2g} of their size from those with one",
    )
    figures["summary"] = f"{count} threads give what one gives, as far as {float(worst):.1g}"

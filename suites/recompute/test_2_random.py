"""Dropout under activation checkpointing: what is computed again draws what it drew before, and disturbs nobody else."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from stackproof.device.kinds import Device
from stackproof.record.checks import require
from stackproof.record.records import Figure
from stackproof.workloads.weights import hashed, reset
from suites.common import SEED
from suites.recompute.checkpointing import MODES

_WIDTH = 64


class _Run:
    """One forward and backward of a block with dropout: masks, gradients, and the next random numbers."""

    def __init__(self, device: Device, mode: str | None) -> None:
        self.masks: list[torch.Tensor] = []
        first, last = nn.Linear(_WIDTH, _WIDTH), nn.Linear(_WIDTH, _WIDTH)
        block = nn.Sequential(first, nn.Dropout(0.5), last)
        reset(block, SEED)
        block.to(device.torch).train()
        for vector in (first.bias, last.bias):
            nn.init.zeros_(vector)
        first.weight.requires_grad_(False)  # frozen, as under adapters
        block[1].register_forward_hook(lambda _module, _inputs, output: self.masks.append((output != 0).cpu()))
        x = hashed(0, 8 * _WIDTH, SEED, device.torch).view(8, _WIDTH).requires_grad_()
        device.seed(SEED)
        output = block(x) if mode is None else checkpoint(block, x, use_reentrant=mode == "reentrant")
        torch.rand(8, device=device.torch)  # as the rest of a model draws between forward and backward
        output.square().sum().backward()
        reached = {**dict(block.named_parameters()), "the input": x}
        self.gradients = {name: value.grad.cpu() for name, value in reached.items() if value.grad is not None}
        self.following = torch.rand(8, device=device.torch).cpu()


@pytest.mark.deadline(60)
@pytest.mark.parametrize("mode", MODES)
def test_dropout(mode: str, device: Device, figures: dict[str, Figure]) -> None:
    """The mask is drawn twice and is the same; gradients and the numbers drawn after backward are those without recomputation."""
    kept, recomputed = _Run(device, None), _Run(device, mode)
    require(len(recomputed.masks) == 2, f"{mode}: dropout ran {len(recomputed.masks)} times, 2 were expected")
    share = float(kept.masks[0].float().mean())
    require(0.3 < share < 0.7, f"dropout of 0.5 kept a share of {share}")
    apart = int((recomputed.masks[0] != recomputed.masks[1]).sum())
    require(
        not apart,
        f"{mode}: the mask drawn again differs from the first in {apart} of {recomputed.masks[0].numel()} places",
    )
    other = [name for name, gradient in kept.gradients.items() if not torch.equal(gradient, recomputed.gradients[name])]
    require(not other, f"{mode}: with dropout, recomputation gives another gradient of {', '.join(other)}")
    same = torch.equal(kept.following, recomputed.following)
    require(same, f"{mode}: after recomputation the generator draws other numbers than without")
    figures["summary"] = (
        f"{recomputed.masks[0].numel()} draws twice the same; {len(kept.gradients)} gradients bit-equal"
    )

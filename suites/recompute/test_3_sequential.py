"""Networks cut into segments, each but the last computed again: `checkpoint_sequential` with every count of segments."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint_sequential

from stackproof.device.kinds import Device
from stackproof.record.checks import require
from stackproof.record.records import Figure
from stackproof.workloads.weights import hashed, reset
from suites.common import SEED
from suites.recompute.checkpointing import MODES

_WIDTH, _LAYERS, _ROWS = 24, 7, 5


class _Run:
    """One forward and backward of a row of layers with dropout: the output, gradients, and how often each layer ran."""

    def __init__(self, device: Device, mode: str, segments: int) -> None:
        layers = [nn.Sequential(nn.Linear(_WIDTH, _WIDTH), nn.Tanh(), nn.Dropout(0.25)) for _ in range(_LAYERS)]
        network = nn.Sequential(*layers)
        reset(network, SEED)
        for layer in layers:
            nn.init.zeros_(layer.get_parameter("0.bias"))
        network.to(device.torch).train()
        self.times = [0] * _LAYERS
        for number, layer in enumerate(layers):
            layer.register_forward_pre_hook(lambda *_, at=number: self._count(at))  # an early stop leaves the end out
        x = hashed(0, _ROWS * _WIDTH, SEED, device.torch).view(_ROWS, _WIDTH).requires_grad_()
        device.seed(SEED)
        reentrant = mode == "reentrant"
        output = checkpoint_sequential(network, segments, x, use_reentrant=reentrant) if segments else network(x)
        output.square().sum().backward()
        reached = {**dict(network.named_parameters()), "the input": x}
        self.results = {name: value.grad.cpu() for name, value in reached.items() if value.grad is not None}
        self.results["the output"] = output.detach().cpu()

    def _count(self, at: int) -> None:
        self.times[at] += 1


@pytest.mark.deadline(60)
@pytest.mark.parametrize("mode", MODES)
def test_segments(mode: str, device: Device, figures: dict[str, Figure]) -> None:
    """With any count of segments output and gradients are those without, bit for bit; all layers but the last segment's run twice."""
    plain = _Run(device, mode, 0)
    for segments in range(1, _LAYERS + 1):
        cut = _Run(device, mode, segments)
        other = [name for name, x in plain.results.items() if not torch.equal(x, cut.results.get(name, x + 1))]
        require(not other, f"{mode}, {segments} segments: {', '.join(other)} are others than without")
        again = _LAYERS // segments * (segments - 1)
        times = [2] * again + [1] * (_LAYERS - again)
        require(cut.times == times, f"{mode}, {segments} segments: layers ran {cut.times} times, {times} were expected")
    figures["summary"] = f"{len(plain.results)} results are bit-equal with 1 to {_LAYERS} segments"

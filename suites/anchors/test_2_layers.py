"""What keeps statistics, turns places or draws, against definitions in NumPy; `operators/relations` holds what only computes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from stackproof.device.devices import HOST
from stackproof.device.kinds import Device
from stackproof.operators import forms
from stackproof.record.checks import require
from stackproof.record.records import Figure
from stackproof.workloads.catalogue import taking_part
from suites.anchors.held import drawn, hold, settings
from suites.common import SEED, possible

_TURNED = 2e-3
"""Angles of 8191 in float32 are 5e-4 off at most; what a place turns by is 1."""
_BATCHES = 12
"""After so many the share of the last one is small, and how it is counted shows."""
ORDERS = {"contiguous": torch.contiguous_format, "channels-last": torch.channels_last}


@pytest.mark.deadline(60)
@pytest.mark.parametrize("name", taking_part("closed-form"))
def test_rotary(name: str, device: Device, figures: dict[str, Figure]) -> None:
    """The embedding of places of the full configuration turns as its paper writes it, up to the 8191st place."""
    places = np.array([0, 1, 154, 1023, 1024, 2048, 4097, 8191])
    workload: Any = possible(name)
    config, model = (workload.setting("full").config, workload.build(HOST.torch, "tiny", SEED, torch.float32).model)
    width = config.get("head_dim", config["hidden_size"] // config["num_attention_heads"])
    angle = places[:, None] * config["rope_theta"] ** (-2.0 * np.arange(width // 2) / width)
    exact = {"cosine": np.cos(angle), "sine": np.sin(angle)}
    small, *_ = [
        one for one in model.modules() if any(key == "inv_freq" for key, _ in one.named_buffers(recurse=False))
    ]
    # In transformers 4.45 each layer has one of the same kind beside the model's.
    turn = type(small)(config=type(model.config)(**config)).to(device.torch)
    given = torch.tensor(places, device=device.torch)[None]
    found = dict(zip(exact, turn(torch.ones(1, device=device.torch), given), strict=True))
    for what, values in exact.items():
        both = found[what][0].cpu().double().numpy()
        off = max(float(np.abs(half - values).max()) for half in np.split(both, 2, -1))
        require(off <= _TURNED, f"{name}: the {what} of a place is {off:.2g} off, {_TURNED} is allowed")
        figures[what] = off
    figures["summary"] = f"places up to {places[-1]} turn by their angles"


@pytest.mark.deadline(60)
@pytest.mark.parametrize("order", ORDERS)
def test_pictures(order: str, device: Device, figures: dict[str, Figure]) -> None:
    """Convolution, and batch normalisation with its running statistics over three batches and in evaluation, in either memory order."""
    x, k = drawn(4, 6, 11, 9) + 1, drawn(8, 6, 3, 3, key=1)
    w, b = drawn(8, key=2), drawn(8, key=3)
    momentum = 0.03  # ultralytics' own; not torch's default, which code that forgets the argument falls back to
    for place, dtype in settings(device):
        norm = nn.BatchNorm2d(8, eps=1e-3, momentum=momentum).to(place, dtype)
        with torch.no_grad():
            norm.weight.copy_(torch.tensor(w))
            norm.bias.copy_(torch.tensor(b))
        mean, variance = np.zeros(8), np.ones(8)
        worst = 0.0
        for turn in range(3):
            pictures = x * (turn + 1)
            convolved = forms.convolve(pictures, k, 2, 1)
            exact = forms.batch_norm(convolved, mean, variance, w, b, training=True, momentum=momentum, eps=1e-3)
            mean, variance = exact["running_mean"], exact["running_var"]
            given = torch.tensor(pictures, dtype=dtype, device=place).contiguous(memory_format=ORDERS[order])
            kernels = torch.tensor(k, dtype=dtype, device=place).contiguous(memory_format=ORDERS[order])
            layer = functional.conv2d(given, kernels, stride=2, padding=1)
            found = {
                "convolution": layer,
                "normalised": norm(layer),
                "mean": norm.running_mean,
                "variance": norm.running_var,
            }
            expected = {"convolution": convolved, "normalised": exact["output"], "mean": mean, "variance": variance}
            worst = max(worst, hold(found, expected, dtype, f"{order} pictures"))
        tracked = int(norm.state_dict()["num_batches_tracked"])
        require(tracked == 3, f"{tracked} batches were tracked, not 3")
        still = forms.batch_norm(convolved, mean, variance, w, b, eps=1e-3)["output"]
        worst = max(worst, hold({"evaluation": norm.eval()(layer)}, {"evaluation": still}, dtype, f"{order} pictures"))
        figures[f"{dtype}"] = worst
    figures["summary"] = (
        f"convolution and batch normalisation of {order} pictures are their definitions, statistics too"
    )


@pytest.mark.deadline(60)
@pytest.mark.parametrize("momentum", [0.3, None], ids=["running", "cumulative"])
def test_statistics(momentum: float | None, device: Device, figures: dict[str, Figure]) -> None:
    """Statistics of 1-d and 3-d layers run by the momentum, or without one are the mean of all batches; a frozen layer keeps them."""
    for place, dtype in settings(device):
        for layer, shape in ((nn.BatchNorm1d, (9, 5)), (nn.BatchNorm1d, (4, 5, 7)), (nn.BatchNorm3d, (2, 5, 3, 4, 2))):
            norm = layer(5, eps=0.01, momentum=momentum).to(place, dtype)
            mean, variance = np.zeros(5), np.ones(5)
            for turn in range(1, _BATCHES + 2):
                x = drawn(*shape, key=turn) * turn + turn
                share = 1 / turn if momentum is None else momentum
                axes = (0, *range(2, x.ndim))
                mean = (1 - share) * mean + share * x.mean(axes)
                variance = (1 - share) * variance + share * x.var(axes, ddof=1)
                norm.train(turn <= _BATCHES)(torch.tensor(x, dtype=dtype, device=place))
                if turn <= _BATCHES:
                    kept = {"mean": mean, "variance": variance}
            state = norm.state_dict()
            found = {"mean": state["running_mean"], "variance": state["running_var"]}
            figures[f"{dtype}, {len(shape)}-d"] = hold(found, kept, dtype, f"{layer.__name__} after {_BATCHES} batches")
    figures["summary"] = "running statistics of three layers are their definition"


@pytest.mark.deadline(30)
def test_gumbel(device: Device, figures: dict[str, Figure]) -> None:
    """Soft choices are softmax of scores and what is drawn, by the temperature; hard ones the largest, with the soft ones' gradient."""
    scores, worst = drawn(64, 9), 0.0
    for temperature in (0.5, 1.75):
        given = torch.tensor(scores, dtype=torch.float32, device=device.torch, requires_grad=True)
        device.seed(SEED)
        drew = torch.empty_like(given).exponential_().cpu().double().log().numpy()
        exact = forms.softmax((scores - drew) / temperature, -1)
        results = []
        for hard in (False, True):
            device.seed(SEED)
            results.append(functional.gumbel_softmax(given, temperature, hard))
        soft, chosen = (one.detach().cpu().double().numpy() for one in results)
        worst = max(worst, float(np.abs(soft - exact).max()))
        require(worst <= 1e-5, f"soft choices at temperature {temperature} are {worst:.2g} off")
        wrong = int((np.abs(chosen - (exact == exact.max(-1, keepdims=True))) > 1e-6).any(-1).sum())
        require(not wrong, f"{wrong} of {len(scores)} hard choices at temperature {temperature} are not the largest")
        weights = torch.tensor(drawn(64, 9, key=1)).to(given)
        first, second = (torch.autograd.grad((one * weights).sum(), given)[0] for one in results)
        require(torch.allclose(first, second, atol=1e-6), "hard choices have another gradient than soft ones")
    figures["summary"] = f"choices of {len(scores)} rows are their definition at two temperatures, {worst:.1e} off"

"""Layers against their definitions in NumPy, forward and backward, in float32 on the device and in float64 on the host."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from stackproof.device.devices import HOST
from stackproof.device.kinds import Device
from stackproof.operators import forms, layers
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
def test_linear(device: Device, figures: dict[str, Figure]) -> None:
    """Y = x W' + b; dx = dy W, dW = dy' x, db = sum of dy: also for 1024 inputs and more."""
    for inner in (7, 129, 1024, 1536):
        x, w, b, dy = drawn(5, inner), drawn(11, inner, key=1), drawn(11, key=2), drawn(5, 11, key=3)
        exact = {"output": x @ w.T + b, "x": dy @ w, "w": dy.T @ x, "b": dy.sum(0)}
        for place, dtype in settings(device):
            leaves = [torch.tensor(one, dtype=dtype, device=place, requires_grad=True) for one in (x, w, b)]
            output = functional.linear(*leaves)
            gradients = torch.autograd.grad(output, leaves, torch.tensor(dy, dtype=dtype, device=place))
            found = {"output": output, **dict(zip("xwb", gradients, strict=True))}
            figures[f"{inner} inputs, {dtype}"] = hold(found, exact, dtype, f"linear of {inner} inputs")
    figures["summary"] = "linear, with its gradients, is its definition for 7 to 1536 inputs"


@pytest.mark.deadline(60)
@pytest.mark.parametrize("name", taking_part("closed-form"))
def test_rotary(name: str, device: Device, figures: dict[str, Figure]) -> None:
    """The embedding of places of the full configuration turns as its paper writes it, up to the 8191st place."""
    places = np.array([0, 1, 154, 1023, 1024, 2048, 4097, 8191])
    workload: Any = possible(name)
    config, model = (
        workload.setting("full").config,
        workload.build(HOST.torch, "tiny", SEED, torch.float32).model,
    )
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
def test_norms(device: Device, figures: dict[str, Figure]) -> None:
    """LayerNorm and RMSNorm over rows with an offset, and SiLU."""
    x, w, b = drawn(6, 129) * 3 + 5, drawn(129, key=1), drawn(129, key=2)
    exact = {"layer": forms.layer_norm(x, w, b, 1e-5), "rms": forms.rms_norm(x, w, 1e-6), "silu": forms.silu(x)}
    for place, dtype in settings(device):
        values, weight, bias = (torch.tensor(one, dtype=dtype, device=place) for one in (x, w, b))
        found = {
            "layer": functional.layer_norm(values, (129,), weight, bias, 1e-5),
            "rms": functional.rms_norm(values, (129,), weight, 1e-6),
            "silu": functional.silu(values),
        }
        figures[f"{dtype}"] = hold(found, exact, dtype, "normalisation")
    figures["summary"] = "LayerNorm, RMSNorm and SiLU are their definitions"


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
            exact = layers.batch_norm(convolved, mean, variance, w, b, training=True, momentum=momentum, eps=1e-3)
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
        still = layers.batch_norm(convolved, mean, variance, w, b, eps=1e-3)["output"]
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


@pytest.mark.deadline(60)
def test_loss(device: Device, figures: dict[str, Figure]) -> None:
    """Cross entropy and its gradient, over a vocabulary's width, with scores far from 0."""
    scores, labels = drawn(9, 1000) * 4 + 30, np.arange(9) * 97 % 1000
    value, slope = forms.cross_entropy(scores, labels)
    for place, dtype in settings(device):
        leaf = torch.tensor(scores, dtype=dtype, device=place, requires_grad=True)
        loss = functional.cross_entropy(leaf, torch.tensor(labels, device=place))
        (gradient,) = torch.autograd.grad(loss, leaf)
        found = {"loss": loss.reshape(1), "gradient": gradient}
        figures[f"{dtype}"] = hold(found, {"loss": np.array([value]), "gradient": slope}, dtype, "cross entropy")
    figures["summary"] = "cross entropy and its gradient are their definitions"


@pytest.mark.deadline(60)
def test_attention(device: Device, figures: dict[str, Figure]) -> None:
    """Causal attention with the gradients of all three inputs."""
    q, k, v, do = (drawn(2, 3, 37, 16, key=key) for key in range(4))
    exact = {name: values for name, (values, _) in forms.attention(q, k, v, do).items()}
    for place, dtype in settings(device):
        leaves = [torch.tensor(one, dtype=dtype, device=place, requires_grad=True) for one in (q, k, v)]
        output = functional.scaled_dot_product_attention(leaves[0], leaves[1], leaves[2], is_causal=True)
        gradients = torch.autograd.grad(output, leaves, torch.tensor(do, dtype=dtype, device=place))
        found = {"output": output, **dict(zip(("query", "key", "value"), gradients, strict=True))}
        figures[f"{dtype}"] = hold(found, exact, dtype, "attention")
    figures["summary"] = "attention and its gradients are their definition"

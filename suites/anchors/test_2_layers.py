"""Rotary embeddings and Gumbel softmax against definitions in NumPy; other layers are checked by `operators/relations`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from stackproof.device.devices import HOST
from stackproof.device.kinds import Device
from stackproof.operators import forms
from stackproof.record.checks import require
from stackproof.record.records import Figure
from stackproof.workloads.catalogue import taking_part
from suites.anchors.closeness import drawn
from suites.common import SEED, possible

_TURNED = 2e-3
"""Angles of 8191 in float32 are 5e-4 off at most; what a place turns by is 1."""


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
        module for module in model.modules() if any(key == "inv_freq" for key, _ in module.named_buffers(recurse=False))
    ]
    # In transformers 4.45 each layer has one of the same kind beside the model's.
    turn = type(small)(config=type(model.config)(**config)).to(device.torch)
    positions = torch.tensor(places, device=device.torch)[None]
    turned = dict(zip(exact, turn(torch.ones(1, device=device.torch), positions), strict=True))
    for what, values in exact.items():
        both = turned[what][0].cpu().double().numpy()
        off = max(float(np.abs(half - values).max()) for half in np.split(both, 2, -1))
        require(off <= _TURNED, f"{name}: the {what} of a place is {off:.2g} off, {_TURNED} is allowed")
        figures[what] = off
    figures["summary"] = f"places up to {places[-1]} turn by their angles"


@pytest.mark.deadline(30)
def test_gumbel(device: Device, figures: dict[str, Figure]) -> None:
    """Soft samples are the softmax of noisy scores over the temperature; hard ones pick the largest and have the soft gradient."""
    scores, worst = drawn(64, 9), 0.0
    for temperature in (0.5, 1.75):
        logits = torch.tensor(scores, dtype=torch.float32, device=device.torch, requires_grad=True)
        device.seed(SEED)
        drew = torch.empty_like(logits).exponential_().cpu().double().log().numpy()
        exact = forms.softmax((scores - drew) / temperature, -1)
        results = []
        for hard in (False, True):
            device.seed(SEED)
            results.append(functional.gumbel_softmax(logits, temperature, hard))
        soft, chosen = (result.detach().cpu().double().numpy() for result in results)
        worst = max(worst, float(np.abs(soft - exact).max()))
        require(worst <= 1e-5, f"soft choices at temperature {temperature} are {worst:.2g} off")
        wrong = int((np.abs(chosen - (exact == exact.max(-1, keepdims=True))) > 1e-6).any(-1).sum())
        require(not wrong, f"{wrong} of {len(scores)} hard choices at temperature {temperature} are not the largest")
        weights = torch.tensor(drawn(64, 9, key=1)).to(logits)
        first, second = (torch.autograd.grad((result * weights).sum(), logits)[0] for result in results)
        require(torch.allclose(first, second, atol=1e-6), "hard choices have another gradient than soft ones")
    figures["summary"] = f"choices of {len(scores)} rows are their definition at two temperatures, {worst:.1e} off"

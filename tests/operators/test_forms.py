"""Closed forms: what can be said of each without torch, or against float64 by other means."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from stackproof.operators import forms

DRAW = np.random.default_rng(3)


def test_attention_is_that_of_autograd() -> None:
    query, key, value, slope = (DRAW.standard_normal((2, 9, 4)) for _ in range(4))
    leaves = [torch.tensor(array, requires_grad=True) for array in (query, key, value)]
    scores = (leaves[0] @ leaves[1].transpose(-1, -2) / 2).masked_fill(
        ~torch.ones(9, 9, dtype=torch.bool).tril(), -torch.inf
    )
    output = scores.softmax(-1) @ leaves[2]
    gradients = torch.autograd.grad(output, leaves, torch.tensor(slope))
    results = forms.attention(query, key, value, slope)
    for name, expected in zip(("output", "query", "key", "value"), (output.detach(), *gradients), strict=True):
        assert np.allclose(results[name][0], expected.numpy(), atol=1e-12)
        assert results[name][1].shape == (2, 9)


def test_a_rotation_keeps_lengths_and_depends_on_distance_alone() -> None:
    query, key = (np.broadcast_to(DRAW.standard_normal(8), (6, 8)) for _ in range(2))
    first, second = forms.rotary(query, 1e4), forms.rotary(key, 1e4)
    assert np.allclose(np.linalg.norm(first, axis=1), np.linalg.norm(query, axis=1))
    products = first @ second.T
    assert np.isclose(products[0, 2], products[3, 5])
    assert not np.isclose(products[0, 2], products[2, 0])


def test_cross_entropy_by_hand() -> None:
    value, slope = forms.cross_entropy(np.full((1, 4), 30.0), np.array([2]))
    assert value == pytest.approx(np.log(4))
    assert slope[0].tolist() == pytest.approx([0.25, 0.25, -0.75, 0.25])


@pytest.mark.parametrize("name", ["Adam", "AdamW"])
def test_the_first_step_of_adam_is_the_rate(name: str) -> None:
    options = {"lr": 0.1, "betas": (0.9, 0.999), "eps": 0.0, "weight_decay": 0.5 if name == "AdamW" else 0.0}
    new, _ = forms.STEPS[name]({"parameter": np.array([2.0])}, np.array([1e-3]), options)
    assert new["parameter"][0] == pytest.approx(2.0 * (0.95 if name == "AdamW" else 1.0) - 0.1)


def test_momentum_gathers() -> None:
    options = {"lr": 1.0, "momentum": 0.5, "dampening": 0.0, "weight_decay": 0.0, "nesterov": False}
    first, _ = forms.sgd({"parameter": np.zeros(1)}, np.ones(1), options)
    second, _ = forms.sgd(first, np.ones(1), options)
    assert (first["parameter"][0], second["parameter"][0]) == (-1.0, -2.5)

"""Counting FLOPs without computing."""

from __future__ import annotations

import torch
from torch import nn

from stackproof.workloads.training import counted, trainer_flops


def test_two_linear_layers_cost_what_arithmetic_says() -> None:
    model = nn.Sequential(nn.Linear(8, 16), nn.Linear(16, 4))

    assert counted(model, torch.empty(5, 8)) == 2 * 5 * (2 * 8 * 16 + 3 * 16 * 4)


def test_counting_leaves_the_model_alone() -> None:
    norm = nn.BatchNorm2d(2)
    model = nn.Sequential(nn.Conv2d(1, 2, 3), norm)
    counted(model, torch.empty(2, 1, 8, 8))

    assert all(parameter.grad is None for parameter in model.parameters())
    assert norm.num_batches_tracked is not None and int(norm.num_batches_tracked) == 0


def test_trainers_count_six_for_each_token_and_parameter() -> None:
    assert trainer_flops(155, 1000) == 930_000

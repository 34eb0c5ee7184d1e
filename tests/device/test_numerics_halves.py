"""Gradients in half precision: a row of data bounds each parameter, and one factor on one of many is seen."""

from __future__ import annotations

import pytest
import torch

from stackproof.device.numerics import gradient_bounds, judge_each, off, row_of
from stackproof.workloads.catalogue import taking_part

NAME = "base_model.model.model.layers.0.self_attn.q_proj.lora_A.default.weight"


def gradients(factor: float = 1.0, rounded: torch.dtype = torch.bfloat16) -> dict[str, torch.Tensor]:
    exact = torch.linspace(-1, 1, 4001, dtype=torch.float64)
    return {NAME: exact.to(rounded).double() * factor}


@pytest.mark.parametrize(
    ("factor", "ok"), [(1.0, True), (1.03, True), (1.2, False), (0.9, False), (-1.0, False), (float("nan"), False)]
)
def test_one_factor_is_seen(factor: float, ok: bool) -> None:
    exact = gradients(rounded=torch.float64)
    found = judge_each("llama3-8b-lora", gradients(factor), exact, gradients(), torch.bfloat16)
    assert len(found) == 2 and all(one.ok for one in found.values()) is ok


def test_a_workload_without_a_row_is_anchored_by_the_cpu() -> None:
    exact = gradients(rounded=torch.float64)
    assert judge_each("mine", gradients(), exact, gradients(), torch.bfloat16)[f"gradient of {NAME}"].ok
    assert not judge_each("mine", gradients(1.2), exact, gradients(), torch.bfloat16)[f"gradient of {NAME}"].ok
    assert not judge_each("mine", gradients(1.7), exact, gradients(1.7), torch.bfloat16)[f"gradient of {NAME}"].ok


def test_roundings_cancel_in_a_factor() -> None:
    exact = gradients(rounded=torch.float64)[NAME]
    assert off(gradients()[NAME], exact) < 1e-4
    assert off(gradients(1.25)[NAME], exact) == pytest.approx(0.25, abs=1e-3)


def test_every_row_speaks() -> None:
    known = {*taking_part("precision"), *taking_part("mixed"), "yolov8x"}
    assert all(set(row.workloads) <= known and row.reason for row in gradient_bounds())
    assert row_of("yolov8n", "model.0.bn.weight") is not row_of("yolov8n", "model.0.conv.weight")
    assert all(min(row.factor.values()) < 0.2 for row in gradient_bounds())

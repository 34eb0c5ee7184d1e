"""Attention: output and gradients held against the formula, the kernel that ran told, causal FLOPs halved."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from stackproof.record.checks import CapabilityMissing, CheckFailed
from stackproof.workloads import sdpa
from stackproof.workloads.sdpa import Attention

from .working import setting

SHAPE: dict[str, Any] = {"batch": 1, "heads": 2, "length": 48, "width": 16}


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_right_attention_is_proved(dtype: str, backward: bool) -> None:
    work = Attention(setting(**SHAPE, dtype=dtype, backward=backward))
    said = work.prove()
    assert f"all numbers of {4 if backward else 1} tensors" in said
    assert f"kernel {work.conclude()['kernel']}" in said
    work.close()


@pytest.mark.parametrize("backward", [False, True])
def test_wrong_attention_is_caught(monkeypatch: pytest.MonkeyPatch, backward: bool) -> None:
    own = sdpa.scaled_dot_product_attention
    work = Attention(setting(**SHAPE, dtype="float32", backward=backward))

    def forgetful(*inputs: Any, is_causal: bool) -> torch.Tensor:
        query, key, value = inputs
        return own(query, key, value, is_causal=False)

    monkeypatch.setattr(sdpa, "scaled_dot_product_attention", forgetful)
    with pytest.raises(CheckFailed, match="attention: the .* against float64"):
        work.prove()
    work.close()


def test_a_wrong_gradient_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    own = torch.autograd.grad
    work = Attention(setting(**SHAPE, dtype="float32", backward=True))

    def wrong(*arguments: Any) -> tuple[torch.Tensor, ...]:
        first, *rest = own(*arguments)
        return (first * (1.001 if len(rest) == 2 else 1), *rest)

    monkeypatch.setattr(torch.autograd, "grad", wrong)
    with pytest.raises(CheckFailed, match="attention: the .* against float64"):
        work.prove()
    work.close()


def test_a_kernel_that_is_not_offered_is_skipped() -> None:
    work = Attention(setting(**SHAPE, dtype="bfloat16", backward=True, kernel="cudnn"))
    with pytest.raises(CapabilityMissing, match="torch has no cudnn kernel for bfloat16 of 1 x 2 x 48 x 16 here"):
        work.prove()
    work.close()


def test_one_kernel_can_be_asked_for() -> None:
    work = Attention(setting(**SHAPE, dtype="float32", backward=True, kernel="math"))
    work.prove()
    assert work.conclude() == {"kernel": "math"}
    work.close()


def test_causal_flops_are_half_and_backward_is_two_and_a_half() -> None:
    forward = 4 * 1 * 2 * 48**2 * 16 / 2 / 1e12
    for backward, factor in ((False, 1.0), (True, 3.5)):
        work = Attention(setting(**SHAPE, dtype="float32", backward=backward))
        assert work.worth["TFLOP"] == pytest.approx(forward * factor)
        work.close()

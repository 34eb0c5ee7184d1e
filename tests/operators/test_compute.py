"""Samples on a device: strides, what stays on the host, and the gradients that are fed in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from stackproof.operators import compute
from stackproof.operators.compute import cotangent, relocate

from .faults import CPU, Sample, ShapedOp


def no_samples(dtype: torch.dtype) -> Iterator[Sample]:
    """Make nothing: these tests bring samples of their own."""
    return iter(())


def test_an_argument_that_names_a_card_names_the_device_that_is_examined() -> None:
    seen: list[Any] = []

    def like(x: torch.Tensor, *, device: Any, mode: str) -> torch.Tensor:
        seen.append((device, mode))
        return x

    sample = Sample(torch.ones(2), (), {"device": "cuda", "mode": "mean"})
    compute.compute(ShapedOp("f", like, no_samples), sample, CPU, torch.float32, False)
    assert seen == [(CPU, "mean")]


def test_dtypes_that_stay_on_the_host_stay_there() -> None:
    seen: list[Any] = []

    def places(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        seen.extend((x.device.type, index.device.type))
        return x

    sample = Sample(torch.ones(2), (torch.tensor([1]),))
    compute.compute(
        ShapedOp("f", places, no_samples), sample, torch.device("meta"), torch.float32, False, host=("int64",)
    )
    assert seen == ["meta", "cpu"]


@pytest.mark.parametrize(
    "view",
    [
        torch.arange(24.0).reshape(4, 6)[1:, ::2],
        torch.arange(3.0).expand(4, 3),
        torch.arange(12.0).reshape(4, 3)[:1].expand(4, 3),
        torch.arange(24.0).reshape(2, 3, 4).transpose(0, 2),
        torch.empty(0, 3),
        torch.tensor(2.0),
    ],
)
def test_samples_keep_their_strides(view: torch.Tensor) -> None:
    copy = relocate(view.requires_grad_(), CPU, torch.float64)
    assert (copy.stride(), copy.storage_offset(), copy.dtype) == (view.stride(), view.storage_offset(), torch.float64)
    assert copy.is_leaf
    assert copy.requires_grad
    assert torch.equal(copy.float(), view)
    assert copy.data_ptr() != view.data_ptr() or view.numel() == 0


def test_cotangents_are_uneven_and_the_same_numbers_in_every_dtype() -> None:
    narrow, wide = (cotangent(torch.empty(7, dtype=dtype), torch.bfloat16) for dtype in (torch.bfloat16, torch.float64))
    assert torch.equal(narrow.double(), wide)
    assert len(set(wide.tolist())) == 7
    assert wide.min() < 0 < wide.max()

"""Float64 in code that says float32."""

from __future__ import annotations

import pytest
import torch

from stackproof.workloads.weights import widened


def test_every_way_to_ask_for_float32_gives_float64() -> None:
    whole = torch.arange(3)
    with widened():
        made = [
            whole.float(),
            whole.to(torch.float32),
            whole.to(dtype=torch.float32),
            whole.type(torch.float32),
            torch.softmax(whole.double(), 0, dtype=torch.float32),
            torch.arange(3, dtype=torch.float),
            torch.zeros(3),
        ]

    assert {tensor.dtype for tensor in made} == {torch.float64}


def test_other_dtypes_stay() -> None:
    with widened():
        made = [torch.zeros(1, dtype=dtype).dtype for dtype in (torch.float16, torch.int32, torch.bool)]

    assert made == [torch.float16, torch.int32, torch.bool]


def test_the_default_dtype_is_restored_after_an_error() -> None:
    with pytest.raises(RuntimeError, match="stop"), widened():
        raise RuntimeError("stop")

    assert torch.zeros(1).dtype == torch.float32

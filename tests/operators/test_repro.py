"""Arguments as code: written exactly, or not at all."""

from __future__ import annotations

import pytest
import torch

from stackproof.operators import repro


@pytest.mark.parametrize(
    "value",
    [
        torch.arange(6.0).reshape(2, 3).t(),
        torch.arange(7.0)[1::2],
        torch.ones(1, 3).expand(4, 3),
        torch.tensor([float("inf"), float("nan"), 1.5]).bfloat16(),
        torch.tensor([1 + 2j]),
        torch.zeros(0, 3),
        torch.tensor(3),
    ],
)
def test_tensors_are_written_exactly(value: torch.Tensor) -> None:
    made = eval(repro.literal(value), {"torch": torch, "inf": float("inf"), "nan": float("nan")})
    assert (made.dtype, made.stride(), made.storage_offset()) == (value.dtype, value.stride(), value.storage_offset())
    assert torch.equal(made.nan_to_num(7), value.nan_to_num(7))


def test_other_arguments_are_written_exactly() -> None:
    value = {"a": [1, (2.5,), None, True, "x"], "b": torch.float16, "c": slice(1, None), "d": torch.channels_last}
    assert eval(repro.literal(value), {"torch": torch}) == value
    with pytest.raises(repro.NotWritableError):
        repro.literal(print)

"""What is spoilt before a run shows where the run left it, whatever the dtype and the order in memory."""

from __future__ import annotations

import pytest
import torch

from stackproof.operators.spoiling import Spoilt


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.uint8, torch.int64])
@pytest.mark.parametrize("turned", [False, True])
def test_what_was_left_shows_and_what_was_written_does_not(dtype: torch.dtype, turned: bool) -> None:
    first, second = torch.ones(7, 40).to(dtype), torch.ones(3, 5, 9).to(dtype)
    both = [first.t(), second.transpose(0, 2)] if turned else [first, second]
    spoilt = Spoilt(both)
    assert spoilt.left(both)
    first.fill_(1)
    assert spoilt.left(both)
    second.fill_(1)
    assert not spoilt.left(both)


def test_new_tensors_of_the_same_shapes_are_looked_at() -> None:
    kept = torch.zeros(4, 4)
    spoilt = Spoilt([kept])
    assert not spoilt.left([torch.zeros(4, 4)])
    assert spoilt.left([kept.clone()])

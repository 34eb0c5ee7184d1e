"""Functions in the forms that write: into a layout with gaps, and nothing between its numbers."""

from __future__ import annotations

import pytest
import torch

from stackproof.operators.written import in_place, into, larger_half, like, turned


def stepped() -> torch.Tensor:
    """Return two rows of three numbers, each second of what is stored."""
    return torch.arange(12.0).view(2, 6)[:, ::2]


def test_room_has_the_same_layout_where_it_can_be_written_to() -> None:
    assert like(stepped()).stride() == stepped().stride() == (6, 2)
    assert like(torch.ones(1, 3).expand(4, 3)).is_contiguous()


def test_in_place_leaves_the_argument_as_it_was_and_has_a_gradient() -> None:
    given = stepped().requires_grad_()
    found = in_place("exp_")(given)
    assert (found.stride(), torch.equal(found, given.exp())) == (given.stride(), True)
    found.sum().backward()
    assert given.grad is not None and torch.equal(given.grad, given.detach().exp())


def test_what_is_given_is_written_to() -> None:
    assert into(torch.exp)(stepped()).stride() == (6, 2)
    product = into(torch.mm, turned)(torch.ones(2, 3), torch.ones(3, 4))
    assert (product.stride(), product.unique().tolist()) == ((1, 2), [3.0])


@pytest.mark.parametrize(("size", "count"), [(1, 1), (4, 2), (5, 3)])
def test_the_larger_half_is_of_values(size: int, count: int) -> None:
    assert larger_half(torch.topk)(torch.ones(2, size), 1).tolist() == [[1.0] * count] * 2

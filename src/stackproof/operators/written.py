"""Functions in the forms that write into views: in place, and into a tensor that is given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def like(tensor: torch.Tensor) -> torch.Tensor:
    """Return room for the same numbers in the same layout; one that puts several in one place cannot be written to."""
    shared = any(step == 0 and size > 1 for size, step in zip(tensor.shape, tensor.stride(), strict=True))
    return torch.empty_like(tensor) if shared else tensor.new_empty_strided(tensor.shape, tensor.stride())


def in_place(name: str) -> Callable[..., Any]:
    """Return what runs a method in place, on a copy of the same layout."""
    return lambda tensor, *rest: getattr(like(tensor).copy_(tensor), name)(*rest)


def into(
    function: Callable[..., Any], room: Callable[..., torch.Tensor] = lambda tensor, *_: like(tensor)
) -> Callable[..., Any]:
    """Return what has a function write into a tensor that is given, which is laid out as the first argument is, or as `room` says."""

    def call(*given: Any) -> Any:
        plain = [one.detach() if isinstance(one, torch.Tensor) else one for one in given]
        return function(*plain, out=room(*plain))

    return call


def turned(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Return room for a product, column by column."""
    return left.new_empty(*left.shape[:-2], right.shape[-1], left.shape[-2]).transpose(-1, -2)


def larger_half(function: Callable[..., Any]) -> Callable[..., torch.Tensor]:
    """Return the larger half along a dimension, or what else a function of a count chooses; of equals any place is right."""
    return lambda tensor, dim: function(tensor, (tensor.shape[dim] + 1) // 2, dim)[0]

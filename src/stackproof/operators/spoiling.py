"""A few numbers of a result are spoilt before a run: what is written anew has none of them, and what was left as it was has."""

from __future__ import annotations

from collections.abc import Sequence

import torch

_PLACES = 64


class Spoilt:
    """Places of tensors that chance picks, and what stands there now: not a number, or the bits turned."""

    def __init__(self, tensors: Sequence[torch.Tensor]) -> None:
        self._marks = [_spoil(tensor) for tensor in tensors]

    def left(self, tensors: Sequence[torch.Tensor]) -> bool:
        """Whether some of them still stand there; the tensors may be others, of the same shapes."""
        return any(_same(tensor[places], mark) for tensor, (places, mark) in zip(tensors, self._marks, strict=True))


def _spoil(tensor: torch.Tensor) -> tuple[tuple[torch.Tensor, ...], torch.Tensor]:
    places = tuple(torch.randint(size, (_PLACES,)).to(tensor.device) for size in tensor.shape)
    found = tensor[places]
    mark = torch.full_like(found, torch.nan) if found.is_floating_point() else ~found
    tensor[places] = mark
    return places, mark


def _same(found: torch.Tensor, mark: torch.Tensor) -> bool:
    return bool((found.isnan() if found.is_floating_point() else found == mark).any())

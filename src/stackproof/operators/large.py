"""Tensors of more than 2^31 numbers: kernels that count in 32 bits are wrong there, mostly in silence."""

from __future__ import annotations

from collections.abc import Callable

import torch

LIMIT = 2**31
_BEYOND = 33  # odd, so that the tail of a vectorised kernel lies beyond the limit too

NEEDED_BYTES = 24 * 2**30
"""Free memory from which on it is tried: the largest probe holds 8 GiB, the allocator and the neighbours need room."""


def _marks() -> list[int]:
    return [0, 5, LIMIT - 1, LIMIT, LIMIT + _BEYOND - 2, LIMIT + _BEYOND - 1]


def _marked(device: torch.device) -> torch.Tensor:
    """Return zeros with ones next to the limit and at both ends."""
    made = torch.zeros(LIMIT + _BEYOND, dtype=torch.uint8, device=device)
    for mark in _marks():
        made[mark] = 1
    return made


def _places(tensor: torch.Tensor, wanted: int) -> str:
    """Say which marks do not hold the number, and whether others hold it."""
    found = [int(tensor[mark]) for mark in _marks()]
    total = int(tensor.sum(dtype=torch.int64))
    if found != [wanted] * len(_marks()):
        return f"elements {_marks()} are {found} instead of {wanted}"
    return "" if total == wanted * len(_marks()) else f"the sum is {total} instead of {wanted * len(_marks())}"


def _fill(device: torch.device) -> str:
    return _places(_marked(device), 1)


def _elementwise(device: torch.device) -> str:
    marked = _marked(device)
    return _places(marked + marked * 2, 3)


def _copy(device: torch.device) -> str:
    return _places(_marked(device).clone(), 1)


def _strided(device: torch.device) -> str:
    """Copy every number of a matrix whose columns lie half the limit apart."""
    marked = _marked(device)[:LIMIT].view(2, LIMIT // 2).t().contiguous()
    found = [int(marked[0, 0]), int(marked[5, 0]), int(marked[-1, 1]), int(marked.sum(dtype=torch.int64))]
    return "" if found == [1, 1, 1, 3] else f"a transposed copy has {found} instead of [1, 1, 1, 3]"


def _select(device: torch.device) -> str:
    found = _marked(device).index_select(0, torch.tensor(_marks(), device=device))
    return "" if bool((found == 1).all()) else f"elements {_marks()} are {found.tolist()} instead of 1"


def _join(device: torch.device) -> str:
    marked = _marked(device)
    return _places(torch.cat([marked[: LIMIT - 7], marked[LIMIT - 7 :]]), 1)


PROBES: dict[str, Callable[[torch.device], str]] = {
    "fill and sum": _fill,
    "elementwise": _elementwise,
    "copy": _copy,
    "strided copy": _strided,
    "index_select": _select,
    "cat": _join,
}

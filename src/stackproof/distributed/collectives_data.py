"""Known data of every rank, and what an operator must make of it: plain tensor arithmetic on the CPU, without any backend.

The data are chosen so that the result is exact in its dtype whatever the order of the reduction: small whole numbers for sums, powers
of two for products, multiples of the world size for means. Integers use their whole width, beyond what float64 holds. A failing case is
printed with the source of these functions, so they need nothing but torch.
"""

from __future__ import annotations

import functools
from typing import Any

import torch

LARGEST = (1 << 20) + 3
"""Elements of the longest tensor: odd, and more than any backend's smallest chunk."""
SPREAD = 65521
MOST_RANKS = 16
"""Sums of so many ranks are still exact in bfloat16, whose significand has eight bits."""
GUARD = 77


@functools.cache
def noise() -> torch.Tensor:
    """Return numbers of 64 bits that look random and are the same in every torch (the mixing steps of SplitMix64)."""
    bits = torch.arange(1, LARGEST + SPREAD + 1) * -7046029254386353131
    bits = (bits ^ ((bits >> 30) & ((1 << 34) - 1))) * -4658895280553007687
    bits = (bits ^ ((bits >> 27) & ((1 << 37) - 1))) * -7723592293110705685
    return bits ^ ((bits >> 31) & ((1 << 33) - 1))


def values(kind: str, dtype: torch.dtype, count: int, rank: int, part: int, case: int, world: int) -> torch.Tensor:
    """Return `count` numbers that differ by place, rank, part (the rank they are for) and case, of shape (count,).

    `kind` is an operator (sum, avg, min, max, prod), `copy` for what is only moved, or `real` for ordinary numbers.
    """
    start = (rank * 7919 + part * 10473 + case * 131) % SPREAD
    return stream(kind, dtype, world, rank < 12)[start : start + count]


@functools.lru_cache(maxsize=4)
def stream(kind: str, dtype: torch.dtype, world: int, growing: bool) -> torch.Tensor:
    """Return the numbers of a kind that every rank takes its own stretch of; products of more than 12 ranks may not grow."""
    bits = noise()
    if dtype is torch.bool:
        return (bits & 4) != 0
    if dtype.is_floating_point:
        return floats(kind, dtype, bits, world, growing)
    return integers(kind, dtype, bits, world, growing)


def floats(kind: str, dtype: torch.dtype, bits: torch.Tensor, world: int, growing: bool) -> torch.Tensor:
    """Return numbers on which the operator is exact; `copy` has NaN, infinity and minus zero among them."""
    if kind == "sum":
        return (bits % 17 - 8).to(dtype)
    if kind == "avg":
        exact = divisible(dtype, world)
        return exact[bits % len(exact)]
    if kind == "prod":
        factors = torch.tensor([0.5, 1.0, 2.0, -0.5, -1.0, -2.0] if growing else [1.0, -1.0], dtype=dtype)
        return factors[bits % len(factors)]
    if kind == "real":
        return ((bits >> 11).double() / (1 << 52)).to(dtype)
    whole = (bits >> (49 if dtype in (torch.float16, torch.bfloat16) else 40)).to(dtype)
    if kind != "copy":
        return whole
    special = torch.tensor([float("nan"), float("inf"), float("-inf"), -0.0], dtype=dtype)
    return torch.where(bits % 61 == 0, special[bits & 3], whole)


def integers(kind: str, dtype: torch.dtype, bits: torch.Tensor, world: int, growing: bool) -> torch.Tensor:
    """Return numbers of the dtype's whole width, as far as the operator's result still fits."""
    if kind == "prod":
        factors = torch.tensor([-3, -2, -1, 1, 2, 3] if growing else [-1, 1])
        return factors[bits % len(factors)].to(dtype)
    headroom = {"sum": 1, "avg": 2}.get(kind, 0) * world.bit_length()
    narrow = (bits >> (64 - torch.iinfo(dtype).bits + headroom)).to(dtype)
    return narrow * world if kind == "avg" else narrow


def divisible(dtype: torch.dtype, world: int) -> torch.Tensor:
    """Return multiples of the world size whose mean is exact both ways: sum, then divide; or scale by a rounded 1/n, then sum."""
    most = max(1, min(64, int(2 / torch.finfo(dtype).eps) // world**2))
    wholes = torch.arange(-most, most + 1).to(dtype)
    scaled = (wholes * world) * torch.tensor(1 / world, dtype=dtype)
    return wholes[scaled == wholes] * world


def fold(operator: str, tensors: list[torch.Tensor]) -> torch.Tensor:
    """Return what the operator makes of one tensor of each rank; of truth values, sums are 'or' and products 'and'."""
    if tensors[0].dtype is torch.bool:
        merge = torch.logical_or if operator in ("sum", "max") else torch.logical_and
        return functools.reduce(merge, tensors)
    if operator == "avg":
        total = functools.reduce(torch.add, tensors)
        return total / len(tensors) if total.is_floating_point() else total // len(tensors)
    merges: dict[str, Any] = {"sum": torch.add, "prod": torch.mul, "min": torch.minimum, "max": torch.maximum}
    result: torch.Tensor = functools.reduce(merges[operator], tensors)
    return result


def place(tensor: torch.Tensor, layout: str, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (memory, view): the tensor laid out on the device in memory that is larger than it and filled with a guard value.

    `own` starts the memory, `offset` one element into it, `strided` takes every second element, `transposed` is dense
    with its dimensions exchanged (an even number of elements, of shape (n/2, 2)).
    """
    count = tensor.numel()
    geometry = {
        "own": (tensor.shape, tensor.stride(), 0),
        "offset": (tensor.shape, tensor.stride(), 1),
        "strided": ((count,), (2,), 0),
        "transposed": ((count // 2, 2), (1, count // 2), 0),
    }
    memory = torch.full((2 * count + 2 if layout == "strided" else count + 2,), GUARD).to(tensor.dtype).to(device)
    view = memory.as_strided(*geometry[layout])
    view.copy_(tensor.to(device).reshape(view.shape))
    return memory, view

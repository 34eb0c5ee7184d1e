"""What is replayed: kernels that use unlike parts of a card, and patterns of values that set its wires unlike.

Values are made of whole numbers, so that every host has the same bits, whatever its processor.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.nn.functional import conv2d, scaled_dot_product_attention

from stackproof.api.device import Device
from stackproof.extras.fleet.rules import ReplaySize

Factors = tuple[torch.Tensor, ...]
_WIDTH = 32
"""Channels of a convolution, and the width of a head of attention."""
_STEPS = 1 << 11


@dataclass(frozen=True)
class ReplayKernel:
    """One kernel: the shapes of its factors for a size, and what it computes; the result's first dimension counts products."""

    shapes: Callable[[ReplaySize], tuple[tuple[int, ...], ...]]
    compute: Callable[..., torch.Tensor]


def _square(chosen: ReplaySize) -> tuple[tuple[int, ...], ...]:
    return ((chosen.batch, chosen.size, chosen.size),) * 2


def _pictures(chosen: ReplaySize) -> tuple[tuple[int, ...], ...]:
    return (chosen.batch, _WIDTH, chosen.size, chosen.size), (_WIDTH, _WIDTH, 3, 3)


def _heads(chosen: ReplaySize) -> tuple[tuple[int, ...], ...]:
    return ((chosen.batch, 2, chosen.size, _WIDTH),) * 3


KERNELS = {
    "product": ReplayKernel(_square, torch.bmm),
    "convolution": ReplayKernel(_pictures, lambda pictures, weights: conv2d(pictures, weights, padding=1)),
    "attention": ReplayKernel(
        _heads, lambda query, key, value: scaled_dot_product_attention(query, key, value, is_causal=True)
    ),
    "exponential": ReplayKernel(lambda chosen: _square(chosen)[:1], torch.exp),
}


def _normal(shape: tuple[int, ...], dice: torch.Generator, _: torch.dtype) -> torch.Tensor:
    """Sums of four even numbers, which are nearly normal."""
    return torch.stack([torch.randint(-_STEPS, _STEPS, shape, generator=dice) for _ in range(4)]).sum(0) / _STEPS


def _powers(shape: tuple[int, ...], dice: torch.Generator, _: torch.dtype) -> torch.Tensor:
    """Powers of two of both signs: one bit of each significand, and many exponents."""
    return _signs(shape, dice) * 2.0 ** torch.randint(-4, 4, shape, generator=dice)


def _ones(shape: tuple[int, ...], dice: torch.Generator, dtype: torch.dtype) -> torch.Tensor:
    """The numbers next below two and one: every bit of the significand is set."""
    return _signs(shape, dice) * (2 - torch.finfo(dtype).eps) / 2.0 ** torch.randint(0, 2, shape, generator=dice)


def _cancelling(shape: tuple[int, ...], dice: torch.Generator, dtype: torch.dtype) -> torch.Tensor:
    """Neighbours of opposite signs: sums that are nearly nothing, of large terms."""
    half = _normal((*shape[:-1], -(-shape[-1] // 2)), dice, dtype)
    return torch.stack((half, -half), dim=-1).flatten(-2)[..., : shape[-1]]


def _signs(shape: tuple[int, ...], dice: torch.Generator) -> torch.Tensor:
    return (2 * torch.randint(0, 2, shape, generator=dice) - 1).to(torch.float64)


PATTERNS: dict[str, Callable[[tuple[int, ...], torch.Generator, torch.dtype], torch.Tensor]] = {
    "normal": _normal, "powers": _powers, "ones": _ones, "cancelling": _cancelling,
}  # fmt: skip


def factors(kernel: str, pattern: str, chosen: ReplaySize, dtype: torch.dtype, device: Device) -> Factors:
    """Return a kernel's factors on the device, from a seed that its name gives."""
    dice = torch.Generator().manual_seed(zlib.crc32(f"{kernel} {pattern}".encode()))
    made = (PATTERNS[pattern](shape, dice, dtype) for shape in KERNELS[kernel].shapes(chosen))
    return tuple(one.to(torch.float64).to(dtype).to(device.torch) for one in made)


def digests(result: torch.Tensor) -> torch.Tensor:
    """Return 64 bits for each product, on its own device: the sum of its eight-byte words times odd weights, modulo 2**64.

    A product that differs in one word always has another digest; integers are summed exactly in any order.
    """
    words = result.contiguous().flatten(1).view(torch.int64)
    places = torch.arange(1, words.shape[1] + 1, dtype=torch.int64, device=result.device)
    return (words * places.mul_(0x1E3779B97F4A7C15).bitwise_or_(1)).sum(1)

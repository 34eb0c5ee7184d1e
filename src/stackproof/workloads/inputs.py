"""Made inputs that are the same bytes on every machine, Python and NumPy: token sequences, and pictures of labelled shapes.

Everything is whole-number arithmetic on raw draws.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

T = TypeVar("T")


class Draws:
    """A stream of whole numbers drawn from one seed.

    Only `PCG64.random_raw` is used. NumPy promises the raw stream of a bit generator for good (NEP 19), while `Generator`'s distributions
    may change, and results of sin, log or float sums depend on the machine's libm and vector width.
    """

    def __init__(self, seed: int) -> None:
        self._bits = np.random.PCG64(seed)

    def between(self, low: int, high: int) -> int:
        """Return a whole number in [low, high], both included; ranges here are small, and bias under 1e-9."""
        return low + int(self._bits.random_raw()) % (high - low + 1)

    def array(self, shape: tuple[int, ...], below: int) -> npt.NDArray[np.int64]:
        raw = np.asarray(self._bits.random_raw(math.prod(shape)), dtype=np.uint64)
        return (raw % np.uint64(below)).astype(np.int64).reshape(shape)

    def choose(self, items: Sequence[T], count: int) -> list[T]:
        """Return `count` different items in drawn order (a partial Fisher-Yates shuffle)."""
        pool = list(items)
        for here in range(count):
            there = self.between(here, len(pool) - 1)
            pool[here], pool[there] = pool[there], pool[here]
        return pool[:count]


MEAN = 155
"""Tokens a sample in the users' runs: their trainers printed 6 x tokens x non-embedding parameters (docs/users-reports.md B2, C2).

    Qwen3-0.6B  1351978e9 / (6 x  445,513,728) / (1090 x 3 samples) = 154.7
    Llama-3-8B 22837125e9 / (6 x 7,525,896,192) / (1091 x 3 samples) = 154.5
"""

BLOCK = 8
"""Samples in one accumulation step of the users' runs; each block of so many has exactly the mean."""

# Parts of a block's tokens, longest last: short instructions, long answers. They sum to 8 x 155.
_PARTS = (40, 60, 80, 105, 130, 175, 250, 400)


def lengths(draws: Draws, count: int, mean: int = MEAN) -> list[int]:
    """Return `count` lengths, long-tailed, whose mean is exactly `mean` over every block of 8.

    Equal blocks make a step cost the same on every rank and in every step, so that a figure per sample means
    something.
    """
    drawn: list[int] = []
    while len(drawn) < count:
        block = [part * mean // MEAN for part in _PARTS]
        block[-1] += BLOCK * mean - sum(block)
        for shorter in range(0, BLOCK, 2):
            shift = draws.between(0, block[shorter] // 4)
            block[shorter] -= shift
            block[shorter + 1] += shift
        drawn += draws.choose(block, BLOCK)
    return drawn[:count]


def progressions(seed: int, count: int, vocabulary: int, mean: int = MEAN) -> list[npt.NDArray[np.int64]]:
    """Make `count` int64 sequences of tokens in [0, vocabulary), with a mean of 8 tokens at least.

    Token 0 opens; then start, start + stride ... modulo a small period: something that a model can learn.
    """
    draws, period, arrays = Draws(seed), min(vocabulary - 1, 61), []
    for length in lengths(draws, count, mean):
        start, stride = draws.between(0, period - 1), draws.between(1, 3)
        body = 1 + (start + stride * np.arange(length - 1, dtype=np.int64)) % period
        arrays.append(np.concatenate([np.zeros(1, dtype=np.int64), body]))
    return arrays


FORMS = ("square", "disc", "triangle", "cross")
"""The classes, by label."""


@dataclass(frozen=True)
class Layout:
    """How a picture of side `size` is laid out: 1 to `most` shapes, `smallest` to `largest` px a side.

    Each shape stays inside its own square cell of side `cell`, so that boxes never overlap. Left and top
    edges are odd and sides even: then no edge meets an anchor point of a detector (those lie at multiples of
    4), and membership is never a tie.
    """

    size: int
    cell: int
    smallest: int
    largest: int
    most: int


@dataclass(frozen=True)
class Pictures:
    """`images` uint8 (N, 3, size, size), `labels` and `owners` (B,), `corners` (B, 4): x1 y1 x2 y2 in pixels.

    `owners[b]` is the picture that box `b` lies in; boxes are sorted by picture.
    """

    images: npt.NDArray[np.uint8]
    labels: npt.NDArray[np.int64]
    owners: npt.NDArray[np.int64]
    corners: npt.NDArray[np.int64]


def stencil(kind: str, side: int) -> npt.NDArray[np.bool_]:
    """Return the (side, side) mask of a shape that touches all four edges of its box."""
    row, column = np.mgrid[0:side, 0:side]
    # Twice the distance from the middle, so that it stays whole for even sides.
    down, right = 2 * row - (side - 1), 2 * column - (side - 1)
    masks: dict[str, npt.NDArray[np.bool_]] = {
        "square": np.ones((side, side), dtype=np.bool_),
        "disc": down * down + right * right <= side * side,
        "triangle": np.abs(right) <= row + 1,
        "cross": (3 * np.abs(down) <= side) | (3 * np.abs(right) <= side),
    }
    return masks[kind]


def detection(seed: int, count: int, layout: Layout) -> Pictures:
    """Make `count` RGB pictures with 1 to `layout.most` shapes each, bright on a dark noisy ground."""
    draws = Draws(seed)
    images = draws.array((count, 3, layout.size, layout.size), below=64).astype(np.uint8)
    labels, owners, corners = [], [], []
    for picture in range(count):
        for corner, side in _places(draws, layout):
            label = draws.between(0, len(FORMS) - 1)
            _paint(images[picture], draws, FORMS[label], corner, side)
            labels.append(label)
            owners.append(picture)
            corners.append((*corner, corner[0] + side, corner[1] + side))
    return Pictures(images, np.array(labels), np.array(owners), np.array(corners))


def classification(seed: int, count: int, size: int) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Make `count` grey pictures of one shape each, uint8 (N, 1, size, size), and labels (N,), in turn."""
    draws = Draws(seed)
    images = draws.array((count, 1, size, size), below=64).astype(np.uint8)
    labels = np.arange(count, dtype=np.int64) % len(FORMS)
    for picture in range(count):
        side = draws.between(size // 2, size - 2)
        corner = (draws.between(0, size - side), draws.between(0, size - side))
        _paint(images[picture], draws, FORMS[labels[picture]], corner, side)
    return images, labels


def _places(draws: Draws, layout: Layout) -> list[tuple[tuple[int, int], int]]:
    across = layout.size // layout.cell
    places = []
    for cell in draws.choose(range(across * across), draws.between(1, layout.most)):
        side = 2 * draws.between(layout.smallest // 2, layout.largest // 2)
        slack = (layout.cell - side - 2) // 2
        left = (cell % across) * layout.cell + 1 + 2 * draws.between(0, slack)
        top = (cell // across) * layout.cell + 1 + 2 * draws.between(0, slack)
        places.append(((left, top), side))
    return places


def _paint(image: npt.NDArray[np.uint8], draws: Draws, kind: str, corner: tuple[int, int], side: int) -> None:
    left, top = corner
    window = image[:, top : top + side, left : left + side]
    for channel in window:
        channel[stencil(kind, side)] = draws.between(128, 255)

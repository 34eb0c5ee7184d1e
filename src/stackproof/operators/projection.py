"""Compares every number of a large result with float64 at once: sums over short stretches, under random signs.

What is expected is computed on the host by NumPy, which shares no kernel with what is judged.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt
import torch

from stackproof.device.devices import HOST
from stackproof.record.checks import CheckFailed, require

Floats = npt.NDArray[np.float64]

STRETCH = 256
"""So many numbers make a sum: in bfloat16 their rounding adds up to less than one of them."""
WORST = 8.0
"""Units that the worst sum may be off. Seen on the CPU over dtypes and sizes: up to 2.2."""
MEAN = 1.5
"""Units that the root mean square may be off. Seen on the CPU: up to 0.51."""
WHOLE = 0.4
"""Units that all numbers may be too large or too small by, as a whole: rounding goes either way, and over so many numbers evens out."""
_SIGMAS = 6.0
_CHUNK = 1 << 24  # numbers folded at once: 128 MiB of float64


@dataclass(frozen=True)
class Deviation:
    """How far sums were from what was expected, in units of rounding."""

    count: int
    worst: float
    mean: float

    @property
    def said(self) -> str:  # workloads of frozen anchors, and of a gate's base, call it so
        """Return the worst and the mean error with their bounds."""
        return f"worst {self.worst:.1f} of {WORST:g} and mean {self.mean:.2f} of {MEAN:g} units of rounding"


@dataclass(frozen=True)
class ExpectedSums:
    """Sums of stretches in float64, (rows, stretches), and the scale of each."""

    sums: Floats
    scale: Floats

    def judge(self, actual: Floats, unit: float, what: str, whole: float = WHOLE) -> Deviation:
        """Compare sums with what is expected.

        Rounding moves a sum by `unit` times its scale, the size that its terms have before anything cancels. The worst sum and the
        root mean square of all are bounded, so that neither one wrong tile nor a little error everywhere passes; and so is that part of it
        which is one factor for all, to `whole` units and what chance leaves of so many sums.

        Raises:
            CheckFailed: one of them, or all together, are further off than rounding explains, or are not finite.
        """
        require(actual.shape == self.sums.shape, f"{what}: {actual.shape} sums, {self.sums.shape} were expected")
        # Where nothing is added nothing can be off, by any measure.
        floor = float(np.sqrt(np.mean(self.scale**2))) * 1e-3
        off = np.abs(actual - self.sums) / (unit * np.maximum(self.scale, floor))
        seen = Deviation(off.size, float(off.max()), float(np.sqrt(np.mean(off**2))))
        if not (seen.worst <= WORST and seen.mean <= MEAN):  # NaN is neither
            raise CheckFailed(f"{what}: {_blame(off)}; {seen.said} are allowed of {seen.count} sums against float64")
        self._require_level((actual - self.sums) / unit, seen, what, whole)
        return seen

    def _require_level(self, off: Floats, seen: Deviation, what: str, whole: float) -> None:
        """Require that no one factor makes all numbers too large, or too small."""
        square = float(np.sum(self.sums**2))
        if not square:
            return
        factor = float(np.sum(off * self.sums)) / square
        chance = _SIGMAS * seen.mean * float(np.sqrt(np.sum((self.scale * self.sums) ** 2))) / square
        require(
            abs(factor) <= whole + chance,
            f"{what}: too {'large' if factor > 0 else 'small'} throughout, by {abs(factor):.2f} units of rounding; "
            f"{whole + chance:.2f} are allowed",
        )


def _blame(off: Floats) -> str:
    """Say where the sums are wrong, and how many."""
    wrong = ~(off <= WORST)
    if not wrong.any():
        return "a little off throughout"
    if not np.isfinite(off).all():
        wrong = ~np.isfinite(off)
        word = "not finite, or never written,"
    else:
        word = "wrong"
    row, stretch = np.unravel_index(int(np.argmax(wrong)), off.shape)
    return f"{word} in {int(wrong.sum())} of {off.size} stretches, first in row {row}, stretch {stretch}"


def signs(count: int, seed: int) -> Floats:
    """Return random signs, the same for a seed on every machine."""
    raw = np.random.PCG64(seed).random_raw(count)
    return 1.0 - 2.0 * ((np.asarray(raw, dtype=np.uint64) >> np.uint64(63)).astype(np.float64))


def fold(result: torch.Tensor, signs_of_row: Floats, stretch: int = STRETCH) -> Floats:
    """Return the sums of a result (..., width), as (rows, stretches), added up in float64 where the result lies.

    A device without float64 hands the numbers to the host.
    """
    width = result.shape[-1]
    rows, whole = result.detach().reshape(-1, width), width // stretch * stretch
    place = result.device if has_float64(str(result.device)) else HOST.torch
    weights, folded = torch.from_numpy(signs_of_row).to(place), list[torch.Tensor]()
    for piece in torch.split(rows, max(1, _CHUNK // width)):
        signed = piece.to(place).to(torch.float64) * weights
        sums = signed[:, :whole].reshape(len(piece), whole // stretch, stretch).sum(-1)
        rest = [signed[:, whole:].sum(-1, keepdim=True)] if whole < width else []
        folded.append(torch.cat([sums, *rest], 1).cpu())
    return torch.cat(folded).numpy()


@cache
def has_float64(place: str) -> bool:
    """Whether a device computes in float64; some cards have no units for it."""
    try:
        return float((torch.ones(2, dtype=torch.float64, device=place) * 2).sum().cpu()) == 4.0
    except (RuntimeError, TypeError):
        return False


def product(left: torch.Tensor, right: torch.Tensor, signs_of_row: Floats, stretch: int = STRETCH) -> ExpectedSums:
    """Return what the product of two matrices on the host must fold to.

    C = A B is not computed a second time: with x of random signs, C x must be A (B x), which costs n^2 (R. Freivalds, Probabilistic
    Machines Can Use Less Running Time, 1977). Here x stands for one stretch of columns at a time, so that a single wrong number is not
    drowned by the rounding of a whole row.

    The scale of a stretch is sqrt(its numbers) times the typical size of a number in its row: |a| |B| / sqrt(n) for random factors.
    """
    inner, width = right.shape
    edges = np.arange(0, width, stretch)
    parts, squares = [], 0.0
    for rows in _in_float64(right):
        parts.append(np.add.reduceat(rows * signs_of_row, edges, axis=1))
        squares += float((rows**2).sum())
    projected = np.concatenate(parts)
    sums, sizes = zip(*((rows @ projected, (rows**2).sum(1)) for rows in _in_float64(left)), strict=True)
    typical = np.sqrt(np.concatenate(sizes) * squares / (inner * width))
    return ExpectedSums(np.concatenate(sums), typical[:, None] * np.sqrt(np.minimum(stretch, width - edges)))


def _in_float64(matrix: torch.Tensor) -> Iterator[Floats]:
    """Yield the rows of a matrix on the host, some at a time; NumPy has no bfloat16."""
    for piece in torch.split(matrix, max(1, _CHUNK // 4 // matrix.shape[1])):
        yield piece.to(torch.promote_types(piece.dtype, torch.float32)).numpy().astype(np.float64)


def unit(dtype: torch.dtype, terms: int, *, short: bool = False) -> float:
    """Return the unit of rounding of a product: what is written is rounded once, and float32 at least is added up.

    The running sum of n numbers in random order errs by sqrt(n) / 2 roundings or so. `short`: factors are rounded to tf32 before. In
    float64 the reference errs as much as what is judged.
    """
    half = float(torch.finfo(dtype).eps) / 2
    adding = torch.finfo(torch.promote_types(dtype, torch.float32)).eps / 2 * max(1.0, terms**0.5 / 2)
    both: float = half + adding + (torch.finfo(torch.float16).eps / 2 if short else 0.0)
    return 4 * both if dtype is torch.float64 else both

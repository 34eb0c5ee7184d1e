"""The product of two square matrices: the ceiling that every other figure in FLOP/s is held against."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from stackproof.device.devices import HOST
from stackproof.device.numerics import shortened
from stackproof.operators.projection import WHOLE, ExpectedSums, fold, has_float64, product, signs, unit
from stackproof.operators.relation import word
from stackproof.workloads.work import FloatingDtype, Setting, Work

_SEED = 3


@dataclass(frozen=True)
class _Parameters:
    size: int
    dtype: FloatingDtype
    tf32: bool = False


class Gemm(Work):
    """B becomes A B, n x n in one dtype, A random and orthogonal so that numbers stay ordinary; `tf32` lets float32 round its factors.

    Never on zeros or ones: cards use less power on them and run faster. After k runs B x must be A^k (B x) for a random x, which A gives
    in float64 at n^2 a run: a run more or less gives another vector entirely, and rounding moves it by its square root of k.
    """

    def __init__(self, setting: Setting) -> None:
        row = setting.parameters.row(_Parameters)
        self._size, dtype, self._short = row.size, row.dtype, row.tf32
        left = orthogonal(self._size, _SEED).to(dtype)
        self._start = torch.randn(self._size, self._size, generator=torch.Generator().manual_seed(_SEED)).to(dtype)
        self._signs = signs(self._size, _SEED)
        self._expected = product(left, self._start, self._signs)
        self.device = setting.device
        self._start, self.left = (tensor.to(self.device.torch) for tensor in (self._start, left))
        self.buffers = self._start.clone(), torch.empty_like(self._start)
        place = self.device.torch if has_float64(str(self.device.torch)) else HOST.torch
        self._wide = left.to(place, torch.float64)
        self._powers = [torch.from_numpy(fold(self._start, self._signs, self._size)).to(place)]
        self._turn = 0
        self.switches.enter_context(shortened(self._short))
        self.dtype = word(dtype)
        self.arithmetic = "tf32" if self._short else self.dtype
        self.worth = {"TFLOP": 2 * self._size**3 / 1e12}  # a multiplication and an addition are two

    def begin(self, runs: int, compared: bool = True) -> None:  # noqa: ARG002 - the same start for any number
        self.buffers[0].copy_(self._start)
        self.buffers[1].fill_(torch.nan)
        self._turn = 0

    def run(self) -> torch.Tensor:
        self._turn ^= 1
        return torch.mm(self.left, self.buffers[self._turn ^ 1], out=self.buffers[self._turn])

    def verify(self, runs: int) -> None:
        """Hold each row of the last product, projected, against A^runs from the other side."""
        while len(self._powers) <= runs:
            self._powers.append(self._wide @ self._powers[-1])
        expected = self._powers[runs].cpu().numpy()
        # Rounding adds up as a walk does; tf32 is cut rather than rounded, always to the same side.
        grown = runs if self._short else math.sqrt(runs)
        scale = ExpectedSums(expected, expected * 0 + math.sqrt(self._size) * grown)
        array = fold(self.buffers[runs % 2], self._signs, self._size)
        scale.judge(array, unit(self._start.dtype, self._size, short=self._short), f"{runs} products", math.inf)

    def prove(self) -> str:
        self.begin(1)
        self.run()
        array = fold(self.buffers[1], self._signs)
        # Matrix units cut factors to tf32 rather than round them, and then all numbers are a little too small.
        whole = math.inf if self._short else WHOLE
        step = unit(self._start.dtype, self._size, short=self._short)
        seen = self._expected.judge(array, step, "the product", whole)
        return f"all {self._size} x {self._size} of the product: {seen.said}"


def orthogonal(size: int, seed: int) -> torch.Tensor:
    """Return a random orthogonal matrix in float64 whose numbers look normal: two Hartley transforms between random signs."""
    rows = torch.eye(size, dtype=torch.float64)
    for turn in range(2):
        spectrum = torch.fft.fft(rows * torch.from_numpy(signs(size, seed + turn)), norm="ortho")
        rows = spectrum.real - spectrum.imag
    return rows


KINDS = {"gemm": Gemm}

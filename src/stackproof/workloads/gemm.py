"""The product of two square matrices: the ceiling that every other figure in FLOP/s is held against."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import torch

from stackproof.device.numerics import shortened
from stackproof.operators.projection import WHOLE, Deviation, fold, product, signs, unit
from stackproof.workloads.work import FloatingDtype, Setting, Work, name_of

_SEED = 3


@dataclass(frozen=True)
class _Parameters:
    size: int
    dtype: FloatingDtype
    tf32: bool = False


class Gemm(Work):
    """C = A B of size n x n in one dtype, on normal random numbers; `tf32` lets float32 round its factors to tf32.

    Never on zeros or ones: cards use less power on them and run faster.
    """

    def __init__(self, setting: Setting) -> None:
        row = setting.parameters.row(_Parameters)
        self._size, dtype, self._short = row.size, row.dtype, row.tf32
        generator = torch.Generator().manual_seed(_SEED)
        left, right = (torch.randn(self._size, self._size, generator=generator).to(dtype) for _ in range(2))
        self._signs = signs(self._size, _SEED)
        self._expected = product(left, right, self._signs)
        self._sign = 1.0
        self.device = setting.device
        self.factors = left.to(self.device.torch), right.to(self.device.torch)
        self.result = torch.full_like(self.factors[0], torch.nan)
        self._switches = ExitStack()
        self._switches.enter_context(shortened(self._short))  # once: switching costs what a small product does
        self.dtype = name_of(dtype)
        self.arithmetic = "tf32" if self._short else self.dtype

    @property
    def worth(self) -> Mapping[str, float]:
        """A multiplication and an addition are two: 2 n^3 FLOPs."""
        return {"TFLOP": 2 * self._size**3 / 1e12}

    def run(self) -> torch.Tensor:
        """Multiply into the same result."""
        return torch.mm(*self.factors, out=self.result)

    def close(self) -> None:
        """Put the switches of float32 back."""
        self._switches.close()

    def prove(self) -> str:
        """Hold every element of a product of these factors against float64."""
        self.poison_output()
        self.run()
        return f"all {self._size} x {self._size} of the product: {self._seen().said}"

    def verify(self) -> None:
        """Hold every element of the last product against float64."""
        self._seen()

    def outputs(self) -> Sequence[torch.Tensor]:
        """The tensor that each run overwrites."""
        return (self.result,)

    def poison_output(self) -> None:
        """Turn the sign of a factor, and so of every element; the result is no number until it is written."""
        self.factors[0].neg_()
        self._sign = -self._sign
        self.result.fill_(torch.nan)

    def fresh_inputs(self) -> bool:
        """Multiply a factor by a number that chance picks."""
        self.factors[0].mul_(random.uniform(0.8, 1.2))
        return True

    def _seen(self) -> Deviation:
        found = self._sign * fold(self.result, self._signs)
        # Matrix units cut factors to tf32 rather than round them, and then all numbers are a little too small.
        whole = math.inf if self._short else WHOLE
        return self._expected.judge(found, unit(self.result.dtype, self._size, short=self._short), "the product", whole)


KINDS = {"gemm": Gemm}

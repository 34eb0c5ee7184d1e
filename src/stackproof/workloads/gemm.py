"""The product of two square matrices: the ceiling that every other figure in FLOP/s is held against."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack

import torch

from stackproof.device.numerics import judge, rule, shortened
from stackproof.record.checks import require
from stackproof.workloads.base import Setting, Work, dtype_named, name_of

_SEED = 3
_MOST_ROWS = 64


class Gemm(Work):
    """C = A B of size n x n in one dtype, on normal random numbers; `tf32` lets float32 round its factors to tf32.

    Never on zeros or ones: cards use less power on them and run faster.
    """

    def __init__(self, setting: Setting) -> None:
        with setting.parameters as row:
            self._size, dtype, self._short = row.take("size", int), dtype_named(row), row.take("tf32", bool, False)
        generator = torch.Generator().manual_seed(_SEED)
        left, right = (torch.randn(self._size, self._size, generator=generator).to(dtype) for _ in range(2))
        self._rows = min(_MOST_ROWS, self._size)
        self._kept = left[: self._rows].clone(), right[:, : self._rows].clone()
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
        """Hold a block of the result against float64, anchored by the CPU in that dtype; every element must have been written."""
        self.run()
        self.device.synchronize()
        block = self.result[: self._rows, : self._rows].cpu()
        wide = [factor.double() for factor in self._kept]
        cap = rule().caps[torch.float16] if self._short else None  # tf32 has float16's mantissa
        judgement = judge(block, wide[0] @ wide[1], self._anchor(), self.factors[0].dtype, cap, self._size)
        require(judgement.ok, judgement.sentence("the product"))
        require(bool(torch.isfinite(self.result).all()), "parts of the product were never written, or are not finite")
        return (
            f"{self._rows} x {self._rows} of the product, error {judgement.error:.1e} of {judgement.bound:.1e} allowed"
        )

    def _anchor(self) -> torch.Tensor:
        """Return the CPU's own block; of factors rounded to tf32 (ten bits of mantissa) where those are allowed."""
        left, right = (_rounded(factor) for factor in self._kept) if self._short else self._kept
        return left @ right


def _rounded(factor: torch.Tensor) -> torch.Tensor:
    """Round float32 to tf32: ten bits of mantissa, to nearest."""
    bits = factor.view(torch.int32)
    return ((bits + 0x1000) & ~0x1FFF).view(torch.float32)


KINDS = {"gemm": Gemm}

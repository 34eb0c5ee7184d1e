"""The fp64-anchored rule: a device may err as much as the CPU does in the same dtype, and a little more.

There is no table of tolerances per device. Of gradients in half precision each parameter is judged for itself: by rows of data from the
CPU's own error over seeds, else by that error.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any

import torch

from stackproof import DATA
from stackproof.base.text import matches
from stackproof.base.toml import Key, OneOf, kept, kept_rows
from stackproof.record.checks import require

_Floating = Annotated[str, OneOf(("float64", "float32", "bfloat16", "float16"))]


@dataclass(frozen=True)
class AnchoredRule:
    """The constants of the rule, from `data/numerics.toml`; errors are relative and have no unit."""

    multiplier: float
    floor_ulps: float
    deviations: float
    cap_by_name: Annotated[Mapping[_Floating, float], Key("caps")]
    normwise: tuple[str, ...]

    @cached_property
    def caps(self) -> dict[torch.dtype, float]:
        """The largest error that anything excuses, by dtype."""
        return {getattr(torch, name): cap for name, cap in self.cap_by_name.items()}

    def bound(
        self,
        anchor: float,
        dtype: torch.dtype,
        cap: float | None = None,
        terms: float = 1.0,
        spread: float = 0.0,
    ) -> float:
        """Return the largest relative error that is accepted in `dtype`: min(multiplier * anchor, cap) + floor.

        The rule is TorchBench's (`same(..., fp64_ref)` in torch/_dynamo/utils.py) with two additions: the floor is never below one
        unit in the last place, since a tolerance under one ulp fails correct kernels; and the anchor is capped, because on the CPU
        stack the device and the anchor are the same kernels and a wrong one would excuse itself.

        n numbers added in any order err by at most lambda sqrt(n) u with a probability that lambda sets, u being half a unit in the
        last place (N. Higham and T. Mary, SIAM J. Sci. Comput. 41, 2019). The CPU may add in a wider type and show none of it, so the
        floor grows with n, up to the cap. In float64 the reference is no better than what it is compared with, so the bound counts
        twice.

        Args:
            anchor: the CPU's own error in that dtype.
            dtype: the dtype of the result.
            cap: the largest error that `anchor` and `terms` may excuse; that of the dtype if None.
            terms: how many numbers go into one number of the result.
            spread: how far one unit in the last place of each input moves the result, as a relative error.
        """
        limit, eps = self.caps[dtype] if cap is None else cap, torch.finfo(dtype).eps
        ulps = self.deviations / 2 * math.sqrt(terms)
        floor = max(self.floor_ulps * eps, min(ulps * eps, limit))
        moved = max(self.multiplier * spread, min(ulps * spread, limit))
        bound = max(min(self.multiplier * anchor, limit), moved) + floor
        return 2 * bound if dtype is torch.float64 else bound


@dataclass(frozen=True)
class Judgement:
    """One comparison: the figure, the bound it had to meet, and the CPU's figure that set the bound."""

    ok: bool
    error: float
    bound: float
    anchor: float

    def sentence(self, what: str) -> str:
        relation = "within" if self.ok else "exceeds"
        bound = f"the bound {self.bound:.2g} (CPU in that dtype: {self.anchor:.2g})"
        return f"{what}: error {self.error:.2g} against float64 {relation} {bound}"


rule = kept(DATA / "numerics.toml", AnchoredRule)


def relative_error(actual: torch.Tensor, reference: torch.Tensor) -> float:
    """Return ||actual - reference||2 / ||reference||2 in float64; infinite if shape or the places of NaN and inf differ.

    Against a reference of zeros the absolute norm is returned, so that a zero that should be zero passes and nothing else does.
    """
    if actual.shape != reference.shape:
        return float("inf")
    wide = torch.complex128 if reference.is_complex() or actual.is_complex() else torch.float64
    left, right = actual.detach().cpu().to(wide), reference.detach().cpu().to(wide)
    gap, scale = _norm(left - right), _norm(right)
    if not (math.isfinite(gap) and math.isfinite(scale)):  # else every number is finite, and no mask is needed
        finite = torch.isfinite(right)
        alike = torch.equal(torch.isfinite(left), finite)
        if not alike or not torch.allclose(left[~finite], right[~finite], equal_nan=True):
            return float("inf")
        gap, scale = _norm((left - right)[finite]), _norm(right[finite])
    return gap / scale if scale > 0 else gap


def _norm(tensor: torch.Tensor) -> float:
    return float(torch.linalg.vector_norm(tensor))


def judge(
    actual: torch.Tensor,
    reference: torch.Tensor,
    anchor: torch.Tensor,
    dtype: torch.dtype,
    cap: float | None = None,
    terms: float = 1.0,
) -> Judgement:
    """Compare a device's result with float64, anchored by the CPU's result in `dtype` (all of one shape).

    `terms`: how many numbers are added into one number of the result, where that is known.
    """
    error, allowed = relative_error(actual, reference), relative_error(anchor, reference)
    bound = rule().bound(allowed, dtype, cap, terms=terms)
    return Judgement(error <= bound, error, bound, allowed)


MIXED = 0.5
"""The largest error of a whole gradient in half precision that the CPU's own excuses: beyond it the step goes elsewhere."""


def judge_mixed(
    actual: torch.Tensor,
    reference: torch.Tensor,
    anchor: torch.Tensor,
    dtype: torch.dtype,
    bounds: Mapping[str, float],
) -> Judgement:
    """Compare a workload's whole gradient under autocast with float64; `bounds` are the workload's own, by dtype.

    With one the CPU's own error is reported but sets no bound: a pooling window whose winner flips by rounding moves the gradient by a step
    that one correct device takes and another does not. Without one the rule decides, anchored by the CPU.
    """
    declared = bounds.get(str(dtype).removeprefix("torch."))
    if declared is None:
        return judge(actual, reference, anchor, dtype, MIXED)
    error = relative_error(actual, reference)
    return Judgement(error <= declared, error, declared, relative_error(anchor, reference))


@contextmanager
def shortened(allowed: bool) -> Iterator[None]:
    """Let float32 products and convolutions round to tf32, or not; the switches go back to where they were.

    By default cuDNN convolves float32 in tf32, whose ten bits of mantissa are another dtype's question.
    """
    backends: tuple[Any, ...] = (torch.backends.cudnn, torch.backends.mkldnn)
    owners = [owner for owner in backends if hasattr(owner, "allow_tf32")]
    before, products = [bool(owner.allow_tf32) for owner in owners], torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if allowed else "highest")
    try:
        _switch(owners, [allowed] * len(owners))
        yield
    finally:
        _switch(owners, before)
        torch.set_float32_matmul_precision(products)


def _switch(owners: list[Any], settings: list[bool]) -> None:
    """Set what differs: a build without Intel GPUs warns about oneDNN's switch whenever it is touched."""
    for owner, allowed in zip(owners, settings, strict=True):
        if bool(owner.allow_tf32) != allowed:
            owner.allow_tf32 = allowed


def require_all(judgements: dict[str, Judgement], what: str) -> Judgement:
    """Fail on the worst judgement that is out of bounds; return the worst of those that are within."""
    require(bool(judgements), f"{what}: nothing was compared")
    worst = max(judgements, key=lambda name: judgements[name].error / judgements[name].bound)
    bad = [name for name, judgement in judgements.items() if not judgement.ok]
    more = f" ({len(bad)} of {len(judgements)} out of bounds)" if len(bad) > 1 else ""
    require(not bad, judgements[worst].sentence(f"{what} '{worst}'") + more)
    return judgements[worst]


_ByDtype = Mapping[Annotated[str, OneOf(("bfloat16", "float16"))], float]


@dataclass(frozen=True)
class GradientBounds:
    """Bounds of some workloads' parameters: of the error, and of that part of it which is one factor."""

    workloads: tuple[str, ...]
    parameters: tuple[str, ...]
    error: _ByDtype
    factor: _ByDtype
    reason: str


gradient_bounds = kept_rows(DATA / "halves.toml", "gradient", GradientBounds)


def row_of(workload: str, parameter: str) -> GradientBounds | None:
    """Return the first row that speaks for a parameter."""
    speaking = (row for row in gradient_bounds() if workload in row.workloads and matches(parameter, row.parameters))
    return next(speaking, None)


def judge_each(
    workload: str,
    actual: Mapping[str, torch.Tensor],
    reference: Mapping[str, torch.Tensor],
    anchor: Mapping[str, torch.Tensor],
    dtype: torch.dtype,
) -> dict[str, Judgement]:
    """Compare each parameter's gradient with float64, as a whole and as one factor; all three are by the parameters' names."""
    judgements: dict[str, Judgement] = {}
    for name, exact in reference.items():
        what, row = f"gradient of {name}", row_of(workload, name)
        if row is None:
            judgements[what] = judge(actual[name], exact, anchor[name], dtype, MIXED)
            continue
        for kind, far, bounds_of in ((what, relative_error, row.error), (f"factor of the {what}", off, row.factor)):
            error, bound = far(actual[name], exact), bounds_of[str(dtype).removeprefix("torch.")]
            judgements[kind] = Judgement(error <= bound, error, bound, far(anchor[name], exact))
    return judgements


def off(actual: torch.Tensor, reference: torch.Tensor) -> float:
    """Return by how much all numbers together are too large or too small; what is no number is infinitely so."""
    mine, wide = actual.detach().cpu().double().flatten(), reference.detach().cpu().double().flatten()
    error = abs(float(mine @ wide) / float(wide @ wide) - 1)
    return error if error == error else float("inf")

"""Reductions and norms of numbers that are large, tiny, far from zero or equal give in a narrow dtype what float64 gives, gradients too."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from stackproof.operators.database import SampleInput
from stackproof.operators.judges.again import with_gradients
from stackproof.operators.points import OperatorPoint, member
from stackproof.operators.relation import WIDE_CODE, Relation, detached, numeric

WHAT = "unusual numbers in a narrow dtype as in a wide one"
DTYPES = (torch.float32, torch.bfloat16, torch.complex64)


def suits(name: str, op: Any) -> bool:
    """Whether numbers of a row come together, with a division or a root."""
    return (type(op).__name__ == "ReductionOpInfo" or member("comes together", name)) and not member("by places", name)


def relations(point: OperatorPoint) -> Iterator[Relation]:
    """Yield drawn samples with their numbers changed."""
    backward = point.dtype in point.op.supported_backward_dtypes(point.device.type)
    run = with_gradients(point.op, backward)
    code = f"first = operator(*arguments, **options)\n{WIDE_CODE}"
    for sample in _drawn(point, backward):
        for says, change in _REGIMES.items():
            if not numeric(sample.input) or not sample.input.numel():
                continue
            inputs = (change(sample.input.detach()), *detached(tuple(sample.args)))
            for layout in (torch.contiguous_format, torch.channels_last)[: 1 + (sample.input.dim() == 4)]:
                laid = (inputs[0].contiguous(memory_format=layout), *inputs[1:])
                floor = max(2e-3, 16 * torch.finfo(point.dtype).eps) if says in _CANCEL else 0.0
                yield Relation(
                    says, laid, detached(dict(sample.kwargs)), run, run, code, ulps=256.0, floor=floor, widened=True
                )


def _drawn(point: OperatorPoint, backward: bool) -> list[SampleInput]:
    """Return a few samples, with one of the smallest: rows of one number are where formulas cancel."""
    size = lambda sample: sample.input.numel() if isinstance(sample.input, torch.Tensor) else 0  # noqa: E731
    made = sorted(point.samples(24, gradient=backward), key=size)
    return [*made[:2], *point.draw.sample(made[2:], min(2, len(made[2:])))]


def _power(leaf: torch.Tensor, share: float) -> torch.Tensor:
    top = torch.tensor(torch.finfo(leaf.dtype).max, dtype=torch.float64).log2()
    return leaf * float(torch.exp2((top * share).round()))


_CANCEL = ("numbers far from zero", "equal numbers")
"""What is left where these cancel is of no size that anybody promises."""
_REGIMES: Mapping[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "large numbers": lambda x: _power(x, 0.8),
    "tiny numbers": lambda x: _power(x, -0.7),
    "numbers far from zero": lambda x: (x / 8 + 12_345.678).to(x.dtype),
    "equal numbers": lambda x: torch.full_like(x, 0.7),
}

"""Whole numbers at random reach all of their range alike, whatever its size; two calls in a row differ, and a seed gives the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Any

import torch

from stackproof.operators.points import OperatorPoint
from stackproof.operators.relation import Relation

WHAT = "all of a range alike"
DTYPES = (torch.int64,)
_COUNT, _BINS = 60_000, 12
_SIZES = (3, 255, 257, 65_537, 2**24 + 3, 2**31 - 1, 3 * 10**9, 2**32, 2**32 + 2**31, 3 * 2**40, 3 * 2**61)


def draws() -> Mapping[str, Callable[..., torch.Tensor]]:
    """Return ways to draw whole numbers below a bound."""
    return {
        "randint": lambda top, device: torch.randint(0, top, (_COUNT,), device=device),
        "randint_like": lambda top, device: torch.randint_like(
            torch.empty(_COUNT, dtype=torch.int64, device=device), top
        ),
        "random_": lambda top, device: torch.empty(_COUNT, dtype=torch.int64, device=device).random_(0, top),
    }


def suits(_name: str, _op: Any) -> bool:
    """None of the operators: draws are listed by `draws`."""
    return False


def relations(point: OperatorPoint) -> Iterator[Relation]:
    """Yield ranges of every class of size: shares of equal parts, the seed's repetition, and the next call's difference."""
    for top in _SIZES:
        bins = min(_BINS, top)

        def shares(size: torch.Tensor, top: int = top, bins: int = bins) -> torch.Tensor:
            torch.manual_seed(point.draw.randrange(1 << 30))
            found = point.op(top, size.device)
            parts = torch.bucketize(found.cpu(), torch.tensor([top * k // bins for k in range(1, bins)]), right=True)
            return torch.bincount(parts, minlength=bins).double() / _COUNT

        def even(_size: torch.Tensor, top: int = top, bins: int = bins) -> torch.Tensor:
            edges = [top * k // bins for k in range(bins + 1)]
            return torch.tensor([(b - a) / top for a, b in pairwise(edges)], dtype=torch.float64)

        code = f"""draws = torch.randint(0, {top}, ({_COUNT},))
first = torch.bincount((draws.double() * {bins} / {top}).long(), minlength={bins})
second = {_COUNT} // {bins}"""
        spread = 7 * (1 / bins / _COUNT) ** 0.5
        yield Relation(
            f"a range of {top}", (torch.zeros(1, device=point.device),), {}, shares, even, code, floor=spread
        )

    def twice(size: torch.Tensor) -> bool:
        torch.manual_seed(5)
        first, second = (point.op(2**31 - 1, size.device) for _ in range(2))
        torch.manual_seed(5)
        return not torch.equal(first, second) and torch.equal(first, point.op(2**31 - 1, size.device))

    yield Relation(
        "other numbers in the next call, the same after the seed",
        (torch.zeros(1, device=point.device),),
        {},
        twice,
        lambda _: True,
        "# torch.manual_seed(5), two draws, torch.manual_seed(5), one draw\nfirst = second = None",
    )

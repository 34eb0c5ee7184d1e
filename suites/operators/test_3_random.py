"""Random operators: range and distribution of a seeded draw, the same bits from the same seed; and memory that is not filled.

Each parameter is right to one per cent, at one false alarm in a million runs.
Not seen: smaller errors, how thick a tail is beyond 50,000 numbers, and a generator's period.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from stackproof.device.kinds import Device
from stackproof.operators.database import preserved
from stackproof.operators.distributions import DRAWN, FALSE_ALARM, SEED, Draw, judge
from stackproof.operators.draws import DRAWS
from stackproof.operators.sweep import possible
from stackproof.record.checks import require
from stackproof.record.records import Figure
from stackproof.stack.stacks import Stack

CASES = {f"{draw.name}-{dtype}": (draw, getattr(torch, dtype)) for draw in DRAWS for dtype in draw.dtypes}
EMPTY: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "empty": lambda like: torch.empty(3, 5, dtype=like.dtype, device=like.device),
    "empty_like": torch.empty_like,
    "empty_strided": lambda like: torch.empty_strided((3, 5), (1, 3), dtype=like.dtype, device=like.device),
    "new_empty": lambda like: like.new_empty(3, 5),
    "new_empty_strided": lambda like: like.new_empty_strided((3, 5), (1, 3)),
}


def _drawn(draw: Draw, device: Device, dtype: torch.dtype, seed: int, count: int = DRAWN) -> torch.Tensor:
    device.seed(seed)
    return draw.make(device.torch, dtype, count)


@pytest.mark.parametrize("case", CASES)
def test_distribution(case: str, stack: Stack, device: Device, figures: dict[str, Figure]) -> None:
    """Numbers have their shape, dtype, range, parameters to one per cent, and distribution, and neighbours know nothing of each other."""
    draw, dtype = _possible(case, stack)
    count = draw.count(dtype)
    with preserved(device.torch):
        fit = judge(_drawn(draw, device, dtype, SEED, count), draw, dtype, count)
    figures |= {"numbers": count, "probability of a false alarm": FALSE_ALARM}
    figures |= {f"smallest error seen, {name}": error for name, error in draw.seen(dtype).items()}
    figures |= {"distance": fit.distance, "bound": fit.bound, "correlation": fit.correlation}
    require(fit.ok, f"{draw.name} in {dtype} on {device}: {fit.sentence}")
    seen = ", ".join(f"{name} to {error:.2%}" for name, error in draw.seen(dtype).items())
    figures["summary"] = f"{count} numbers: {seen}; {fit.sentence}"


@pytest.mark.parametrize("case", CASES)
def test_seed(case: str, stack: Stack, device: Device, figures: dict[str, Figure]) -> None:
    """The same seed gives the same bits; another seed, and the next draw, give others."""
    draw, dtype = _possible(case, stack)
    with preserved(device.torch):
        first = _drawn(draw, device, dtype, SEED)
        after = draw.make(device.torch, dtype, DRAWN)
        again, other = (_drawn(draw, device, dtype, seed) for seed in (SEED, SEED + 1))
    different = int((first != again).sum())
    require(different == 0, f"{draw.name}: {different} of {DRAWN} numbers differ after the same seed")
    require(not torch.equal(first, other), f"{draw.name}: two seeds give the same {DRAWN} numbers")
    require(not torch.equal(first, after), f"{draw.name}: two draws after one seed give the same {DRAWN} numbers")
    figures["summary"] = f"{DRAWN} numbers are the same after the same seed, and others otherwise"


def _possible(case: str, stack: Stack) -> tuple[Draw, torch.dtype]:
    draw, dtype = CASES[case]
    if dtype.is_floating_point:
        possible(stack, dtype)
    return draw, dtype


@pytest.mark.parametrize("name", EMPTY)
def test_form(name: str, device: Device, figures: dict[str, Figure]) -> None:
    """Memory that nobody filled has its shape, dtype, strides and device, and can be written and read."""
    like = torch.zeros(3, 5, dtype=torch.int32, device=device.torch)
    made = EMPTY[name](like)
    strides = (1, 3) if "strided" in name else (5, 1)
    expected = (like.shape, like.dtype, strides, like.device)
    found = (made.shape, made.dtype, made.stride(), made.device)
    require(found == expected, f"{name} returns {found} instead of {expected}")
    wrong = int((made.fill_(7) != 7).sum())
    require(wrong == 0, f"{name}: {wrong} of 15 numbers do not hold what was written")
    figures["summary"] = "form as asked for; holds what is written"

"""Full sizes of what puts numbers in order: sorted, the largest few, running sums and counts, each exactly."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from stackproof.device.kinds import Device
from stackproof.record.checks import require
from stackproof.record.records import Figure
from stackproof.stack.stacks import Stack
from suites.common import SEED
from suites.sizes.held import drawn, hold, rounding
from suites.sizes.table import DTYPES, row_of, rows

_EXACT = np.asarray(1e-9)
_FEW = 50
"""How many of the largest are asked for, as where text is sampled."""


@pytest.mark.deadline(120)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", rows()["order"])
def test_sorted(name: str, dtype: str, stack: Stack, device: Device, figures: dict[str, Figure]) -> None:
    """Stable sorts up and down with their places, the largest few, the largest, the smallest, the middle, and the sum of powers."""
    row, kind = row_of("order", name, DTYPES[dtype], stack, device), DTYPES[dtype]
    given, x = drawn((row["rows"], row["columns"]), kind, 3.0, 0)
    scores = given.to(device.torch)
    up, up_places = torch.sort(scores, dim=1, stable=True)
    down, down_places = torch.sort(scores, dim=1, descending=True, stable=True)
    few, few_places = torch.topk(scores, _FEW, 1)
    rising, falling = np.argsort(x, 1, kind="stable"), np.argsort(-x, 1, kind="stable")
    ordered = np.take_along_axis(x, rising, 1)
    largest = ordered[:, : -_FEW - 1 : -1]
    top = x.max(1, keepdims=True)
    total = np.log(np.exp(x - top).sum(1)) + top[:, 0]
    got = {
        "sorted": up,
        "places": up_places,
        "sorted down": down,
        "places down": down_places,
        "largest few": few,
        "numbers at their places": scores.gather(1, few_places),
        "number at the place of the largest": scores.gather(1, scores.argmax(1, keepdim=True)),
        "number at the place of the smallest": scores.gather(1, scores.argmin(1, keepdim=True)),
        "middle": scores.median(1).values,
        "logarithm of the sum of powers": torch.logsumexp(scores, 1),
    }
    exact = {
        "sorted": ordered,
        "places": rising,
        "sorted down": np.take_along_axis(x, falling, 1),
        "places down": falling,
        "largest few": largest,
        "numbers at their places": largest,
        "number at the place of the largest": top,
        "number at the place of the smallest": ordered[:, :1],
        "middle": ordered[:, (row["columns"] - 1) // 2],
    }
    wanted = {what: (one, _EXACT) for what, one in exact.items()}
    wanted["logarithm of the sum of powers"] = (total, rounding(row["columns"], kind) * (1 + np.abs(total)))
    hold(name, got, wanted, figures)
    twice = sum(len(set(one)) < _FEW for one in few_places.tolist())
    require(not twice, f"{name}: of the places of the largest few one stands twice in {twice} rows")


@pytest.mark.deadline(120)
@pytest.mark.parametrize("name", rows()["order"])
def test_counted(name: str, stack: Stack, device: Device, figures: dict[str, Figure]) -> None:
    """Running sums of whole numbers, with their gradient, counts, places that are not zero, sought places and what stands there."""
    row = row_of("order", name, torch.float32, stack, device)
    draw = np.random.default_rng(SEED)
    shape = (row["rows"], row["columns"])
    small, slope = (draw.integers(-3, 4, shape) for _ in range(2))
    numbers = torch.from_numpy(small).to(device.torch)
    leaf = numbers.to(torch.float32).requires_grad_()
    running = leaf.cumsum(1)
    (back,) = torch.autograd.grad(running, leaf, torch.from_numpy(slope).to(device.torch, torch.float32))
    edges, asked = np.arange(row["columns"]) * 3, draw.integers(-5, 3 * row["columns"] + 5, shape)
    questions = torch.from_numpy(asked).to(device.torch)
    got = {
        "running sums": running,
        "running sums of whole numbers": numbers.cumsum(1),
        "running sums down columns": leaf.cumsum(0),
        "running sums' gradient": back,
        "running largest": leaf.cummax(1).values,
        "counts": torch.bincount(questions.clamp(0).flatten(), minlength=3 * row["columns"] + 5),
        "places not zero": numbers.flatten().nonzero()[:, 0],
        "chosen": numbers[numbers > 1],
        "sought": torch.searchsorted(torch.from_numpy(edges).to(device.torch), questions),
    }
    exact = {
        "running sums": small.cumsum(1),
        "running sums of whole numbers": small.cumsum(1),
        "running sums down columns": small.cumsum(0),
        "running sums' gradient": slope[:, ::-1].cumsum(1)[:, ::-1],
        "running largest": np.maximum.accumulate(small, 1),
        "counts": np.bincount(asked.clip(0).ravel(), minlength=3 * row["columns"] + 5),
        "places not zero": small.ravel().nonzero()[0],
        "chosen": small[small > 1],
        "sought": np.searchsorted(edges, asked),
    }
    hold(name, got, {what: (one, _EXACT) for what, one in exact.items()}, figures)

"""Full sizes against float64: every number of products, attention and convolutions as large as the real configurations, by sums.

A CPU takes about half of the suite's checks; rows of data say which need a card. Not seen: other operators at these sizes.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import torch
from torch.nn import functional

from stackproof.base.toml import Table
from stackproof.device.kinds import Device
from stackproof.operators import forms
from stackproof.operators.projection import fold, product, signs, unit
from stackproof.record.checks import require
from stackproof.record.records import Figure
from stackproof.stack.stacks import Stack
from stackproof.workloads.copies import checksum
from stackproof.workloads.sdpa import Attention
from stackproof.workloads.work import Setting
from suites.common import SEED
from suites.sizes.table import DTYPES, FILE, row_of, rows, weighed

_LEAST_TERMS = 1024
_DRAWN = 16_777_213
"""Normal numbers that are drawn, and repeated where a matrix has more: a prime, so that no two rows begin alike."""
_PERIOD = 251
"""Bytes repeat after so many: a prime, so that no power of two away the same one stands."""
_WINOGRAD = 40.0
"""Units of rounding for kernels that transform small tiles first (Winograd's, https://arxiv.org/abs/1509.09308): they round
more than the few terms of a pixel do. cuDNN's gradients of kernels were 23 units off on an H200; tf32 would be 260 or more.
"""


@cache
def _pool() -> torch.Tensor:
    return torch.randn(_DRAWN, generator=torch.Generator().manual_seed(SEED))


def _normal(turn: int, rows: int, columns: int) -> torch.Tensor:
    """Return a matrix of normal numbers; `turn` says where it begins, so that no two matrices of a product are the same."""
    begun = torch.roll(_pool(), turn * (_DRAWN // 3))
    return begun.repeat(-(-rows * columns // _DRAWN))[: rows * columns].reshape(rows, columns)


@pytest.mark.deadline(300)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", rows()["product"])
def test_product(name: str, dtype: str, stack: Stack, device: Device, figures: dict[str, Figure]) -> None:
    """A linear layer's output, and the gradients of its input and its weight: every number, in sums of 256."""
    kind = DTYPES[dtype]
    row = row_of("product", name, kind, stack, device)
    rows, inner, outer = row["rows"], row["inner"], row["outer"]
    given, weight = _normal(0, rows, inner).to(kind), _normal(1, outer, inner).to(kind)
    leaves = [one.to(device.torch).detach().requires_grad_(row["backward"]) for one in (given, weight)]
    output = functional.linear(*leaves)
    wanted = {"output": (output, given, weight.T)}
    if row["backward"]:
        slope = _normal(2, rows, outer).to(kind)
        gradients = torch.autograd.grad(output, leaves, slope.to(device.torch))
        wanted |= {
            "input's gradient": (gradients[0], slope, weight),
            "weight's gradient": (gradients[1], slope.T, given),
        }
    worst = 0.0
    for what, (found, left, right) in wanted.items():
        flips = signs(found.shape[-1], SEED)
        seen = product(left, right, flips).judge(fold(found, flips), unit(kind, left.shape[1]), f"{name}: the {what}")
        figures[what] = seen.worst
        worst = max(worst, seen.worst)
    numbers = sum(found.numel() for found, _, _ in wanted.values())
    figures |= {"numbers": numbers}
    figures["summary"] = f"{numbers} numbers of {len(wanted)} products, worst sum {worst:.1f} units of rounding"


@pytest.mark.deadline(300)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", rows()["attention"])
def test_attention(name: str, dtype: str, stack: Stack, device: Device, figures: dict[str, Figure]) -> None:
    """Output and gradients of long sequences: every number of every head and row."""
    row = dict(row_of("attention", name, DTYPES[dtype], stack, device))
    row.pop("name")
    row.pop("everywhere")
    work = Attention(Setting(device, "full", Table(FILE, {**row, "dtype": dtype, "backward": True})))
    try:
        figures["summary"] = work.prove()
    finally:
        work.close()


@pytest.mark.deadline(120)
@pytest.mark.parametrize("name", rows()["convolution"])
def test_convolution(name: str, stack: Stack, device: Device, figures: dict[str, Figure]) -> None:
    """Maps of 640 pixels and of their middle layers: output, and the gradients of pictures and kernels."""
    row = row_of("convolution", name, torch.float32, stack, device)
    draw = np.random.default_rng(SEED)
    shapes = ((1, row["channels"], row["side"], row["side"]), (row["kernels"], row["channels"], 3, 3))
    pictures, kernels = (draw.standard_normal(shape).astype(np.float32).astype(np.float64) for shape in shapes)
    exact = {"output": forms.convolve(pictures, kernels, 1, 1)}
    slope = draw.standard_normal(exact["output"].shape).astype(np.float32).astype(np.float64)
    exact["pictures' gradient"] = forms.convolve(slope, kernels.swapaxes(0, 1)[..., ::-1, ::-1], 1, 1)
    turned = forms.convolve(pictures.swapaxes(0, 1), slope.swapaxes(0, 1), 1, 1)
    exact["kernels' gradient"] = turned.swapaxes(0, 1)
    leaves = [
        torch.tensor(one, dtype=torch.float32, device=device.torch, requires_grad=True) for one in (pictures, kernels)
    ]
    output = functional.conv2d(leaves[0], leaves[1], padding=1)
    gradients = torch.autograd.grad(output, leaves, torch.tensor(slope, dtype=torch.float32, device=device.torch))
    terms = (9 * row["channels"], 9 * row["kernels"], row["side"] ** 2)
    for (what, expected), count, found in zip(exact.items(), terms, (output, *gradients), strict=True):
        off = float(np.abs(found.detach().cpu().double().numpy() - expected).max())
        allowed = _WINOGRAD * unit(torch.float32, max(count, _LEAST_TERMS)) * float(np.sqrt(np.mean(expected**2)))
        require(off <= allowed, f"{name}: the {what} is {off:.2g} off in one place, {allowed:.2g} is allowed")
        figures[what] = off / allowed
    figures["summary"] = f"{sum(one.size for one in exact.values())} numbers, each held against its definition"


@pytest.mark.deadline(120)
@pytest.mark.parametrize("name", rows()["elements"])
def test_elements(name: str, stack: Stack, device: Device, figures: dict[str, Figure]) -> None:
    """So many bytes are written, turned, copied, added up and picked from the far end, each exactly."""
    count = row_of("elements", name, torch.float32, stack, device)["count"]
    values = torch.empty(count, dtype=torch.uint8, device=device.torch)
    step, total, expected = 1 << 24, 0, 0
    tile = np.resize(np.arange(_PERIOD, dtype=np.uint8), step + _PERIOD)
    for start in range(0, count, step):
        piece = tile[start % _PERIOD :][: min(step, count - start)]
        values[start : start + step] = torch.from_numpy(piece).to(device.torch)
        turned = np.bitwise_not(piece)
        total += int(turned.sum(dtype=np.int64))
        places = np.arange(start, start + len(piece))[:: max(1, len(piece) // 3)]
        require(
            values[torch.from_numpy(places).to(device.torch)].tolist() == (places % _PERIOD).tolist(),
            f"{name}: bytes picked are others",
        )
        expected += weighed(turned, start)
    copied = values.bitwise_not().clone()
    require(
        int(copied.sum(dtype=torch.int64)) == total,
        f"{name}: the sum of {count} bytes is {int(copied.sum())}, not {total}",
    )
    require(
        checksum(copied) == expected % (1 << 64),
        f"{name}: of {count} bytes that were turned and copied some are others",
    )
    require(int(values[count - 1]) == (count - 1) % _PERIOD, f"{name}: the last byte is another")
    figures["summary"] = f"{count} bytes written, turned, copied and added up exactly"

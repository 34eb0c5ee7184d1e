"""Full sizes against NumPy: lookups in real vocabularies, rows as long as they are, norms of real hidden sizes, more numbers than 2^24."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch.nn import functional

from stackproof.device.kinds import Device
from stackproof.operators.arrays import Array
from stackproof.record.checks import require
from stackproof.record.records import Figure
from stackproof.stack.stacks import Stack
from stackproof.workloads.copies import checksum
from suites.common import SEED
from suites.sizes.held import EPS, column_sums, drawn, hold, normed, rounding
from suites.sizes.table import DTYPES, row_of, rows, weighed

_DRAWN = 4096
"""Places that are looked up, besides the first and the last."""
_PERIOD = 251
"""Whole numbers below it are exact in every dtype, and a prime: no power of two away the same one stands."""
_STEP = 1 << 22
_NOTHING = np.asarray(1e-9)
"""What whole numbers may be off by."""
Call = Callable[[torch.Tensor], torch.Tensor]


@pytest.mark.deadline(120)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", rows()["lookup"])
def test_lookup(name: str, dtype: str, stack: Stack, device: Device, figures: dict[str, Figure]) -> None:
    """An embedding gives the rows that are asked for, up to the last, and its gradient adds up what each was given: exactly."""
    row, kind = row_of("lookup", name, DTYPES[dtype], stack, device), DTYPES[dtype]
    draw = np.random.default_rng(SEED)
    asked = draw.integers(0, row["vocabulary"], _DRAWN)
    places = np.concatenate([[row["vocabulary"] - 1, 0, row["vocabulary"] - 1], asked, asked[: _DRAWN // 4]])
    slope = draw.integers(-2, 4, (len(places), row["width"])).astype(np.float32)
    index = torch.from_numpy(places).to(device.torch)
    rising = torch.arange(row["vocabulary"], device=device.torch)[:, None] * 7
    table = ((rising + torch.arange(row["width"], device=device.torch) * 13) % _PERIOD).to(kind).requires_grad_()
    output = functional.embedding(index, table)
    (gradient,) = torch.autograd.grad(output, table, torch.from_numpy(slope).to(device.torch, kind))
    known, back = np.unique(places, return_inverse=True)
    total = np.zeros((len(known), row["width"]))
    np.add.at(total, back, slope)
    exact = (places[:, None] * 7 + np.arange(row["width"]) * 13) % _PERIOD
    got = {"rows": output, "gradient": gradient[torch.from_numpy(known).to(device.torch)]}
    hold(name, got, {"rows": (exact, _NOTHING), "gradient": (total, _NOTHING)}, figures)
    rest = float(gradient.abs().sum(dtype=torch.float64)) - float(np.abs(total).sum())
    require(abs(rest) < 1e-6, f"{name}: the gradient has {rest:g} in rows that were not asked for")


@pytest.mark.deadline(120)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", rows()["softmax"])
def test_softmax(name: str, dtype: str, stack: Stack, device: Device, figures: dict[str, Figure]) -> None:
    """Softmax and its logarithm with their gradients, and cross entropy with its own: every number of every row."""
    row, kind = row_of("softmax", name, DTYPES[dtype], stack, device), DTYPES[dtype]
    given, exact = drawn((row["rows"], row["columns"]), kind, 3.0, 0)
    labels = np.arange(row["rows"]) * 7919 % row["columns"]
    away = exact - exact.max(1, keepdims=True)
    powers = np.exp(away)
    total = powers.sum(1, keepdims=True)
    soft, logs = powers / total, away - np.log(total)
    leaf = given.to(device.torch).requires_grad_()
    loss = functional.cross_entropy(leaf, torch.from_numpy(labels).to(device.torch), reduction="none")
    (slope,) = torch.autograd.grad(loss.sum(), leaf)
    got = {"softmax": torch.softmax(leaf, 1), "logarithm": torch.log_softmax(leaf, 1), "loss": loss, "gradient": slope}
    fed, back = drawn((row["rows"], row["columns"]), kind, 1.0, 1)
    for what in ("softmax", "logarithm"):
        (got[f"{what}'s gradient"],) = torch.autograd.grad(got[what], leaf, fed.to(device.torch), retain_graph=True)
    wide, lost = 4 * torch.finfo(torch.float32).eps * np.abs(away), rounding(row["columns"], kind)
    bound = soft * (wide + lost) + torch.finfo(kind).tiny
    rounded = torch.finfo(kind).eps * np.abs(logs)  # the gradient is formed from logarithms that were rounded
    hot = soft.copy()
    np.put_along_axis(hot, labels[:, None], np.take_along_axis(soft, labels[:, None], 1) - 1, 1)
    chosen = np.take_along_axis(logs, labels[:, None], 1)[:, 0]
    wanted = {
        "softmax": (soft, bound),
        "logarithm": (logs, lost * (1 + np.abs(logs)) + wide),
        "loss": (-chosen, lost * (1 + np.abs(chosen)) + np.take_along_axis(wide, labels[:, None], 1)[:, 0]),
        "gradient": (hot, bound + 2 * lost * np.abs(hot) + soft * rounded),
    }
    inner, whole = (soft * back).sum(1, keepdims=True), back.sum(1, keepdims=True)
    strayed = (bound * np.abs(back)).sum(1, keepdims=True) + lost * (soft * np.abs(back)).sum(1, keepdims=True)
    off = bound * np.abs(back - inner) + soft * (strayed + lost * (np.abs(back) + np.abs(inner)))
    wanted["softmax's gradient"] = (soft * (back - inner), off)
    strayed = lost * np.abs(back).sum(1, keepdims=True)
    off = (bound + soft * rounded) * np.abs(whole) + soft * strayed + lost * (np.abs(back) + soft * np.abs(whole))
    wanted["logarithm's gradient"] = (back - soft * whole, off)
    hold(name, got, wanted, figures)


@pytest.mark.deadline(120)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", rows()["norm"])
def test_norm(name: str, dtype: str, stack: Stack, device: Device, figures: dict[str, Figure]) -> None:
    """Layer norm and the root mean square's, with all gradients, and means, sums, variances and the largest of rows and columns."""
    row, kind = row_of("norm", name, DTYPES[dtype], stack, device), DTYPES[dtype]
    given, exact = drawn((row["rows"], row["width"]), kind, 3.0, 0)
    fed, slope = drawn((row["rows"], row["width"]), kind, 1.0, 1)
    leaf = given.to(device.torch).requires_grad_()
    got: dict[str, torch.Tensor] = {
        "sum": leaf.sum(1), "mean": leaf.mean(1), "variance": leaf.var(1), "largest": leaf.amax(1), "whole": leaf.double().sum(),
        "sum of columns": leaf.sum(0), "mean of columns": leaf.mean(0), "largest of columns": leaf.amax(0),
    }  # fmt: skip
    lost, down = rounding(row["width"], kind), rounding(row["rows"], kind)
    size, tall = np.abs(exact).sum(1), np.abs(exact).sum(0)
    wanted = {
        "sum": (exact.sum(1), lost * size),
        "mean": (exact.mean(1), lost * size / row["width"]),
        "variance": (exact.var(1, ddof=1), 8 * lost * exact.var(1)),
        "largest": (exact.max(1), _NOTHING),
        "whole": (np.asarray(exact.sum()), np.asarray(1e-9 * np.abs(exact).sum())),
        "sum of columns": (exact.sum(0), down * tall),
        "mean of columns": (exact.mean(0), down * tall / row["rows"]),
        "largest of columns": (exact.max(0), _NOTHING),
    }
    vectors = [drawn((row["width"],), kind, 1.0, turn) for turn in (2, 3)]
    weights = [one.to(device.torch).requires_grad_() for one, _ in vectors]
    weight, bias = (one for _, one in vectors)
    for norm, call in _norms(row["width"]).items():
        centred = norm == "layer norm"
        output = call(leaf, *weights)
        back, *own = torch.autograd.grad(output, [leaf, *weights[: 1 + centred]], fed.to(device.torch))
        got |= {norm: output, f"{norm}, gradient": back, f"{norm}, weight's gradient": own[0]}
        normal, backward = normed(exact, slope * weight, centred)
        forward = normal * weight + bias * centred
        wanted[norm] = (forward, 4 * lost * (1 + np.abs(forward) + np.abs(normal * weight)))
        wanted[f"{norm}, gradient"] = (backward, 16 * lost * (1 + np.abs(backward)))
        wanted[f"{norm}, weight's gradient"] = column_sums(slope * normal, kind)
        if centred:
            got[f"{norm}, bias's gradient"] = own[1]
            wanted[f"{norm}, bias's gradient"] = column_sums(slope, kind)
    hold(name, got, wanted, figures)


def _norms(width: int) -> dict[str, Callable[..., torch.Tensor]]:
    return {
        "layer norm": lambda x, weight, bias: functional.layer_norm(x, (width,), weight, bias, eps=EPS),
        "root mean square norm": lambda x, weight, _: functional.rms_norm(x, (width,), weight, eps=EPS),
    }


@pytest.mark.deadline(240)
@pytest.mark.parametrize("name", rows()["numbers"])
def test_numbers(name: str, stack: Stack, device: Device, figures: dict[str, Figure]) -> None:
    """So many numbers are added, halved, chosen and summed, each exactly: they are small and whole."""
    row = row_of("numbers", name, torch.float32, stack, device)
    kind = getattr(torch, row["dtype"])
    given = torch.empty(row["count"], dtype=kind, device=device.torch)
    calls: dict[str, tuple[Call, Callable[[Array], Array]]] = {
        "added": (lambda x: x + x, lambda x: x + x),
        "halved": (lambda x: x * 0.5, lambda x: x / 2),
        "chosen": (lambda x: torch.where(x > 100, x, -1.0), lambda x: np.where(x > 100, x, -1)),
        "cut": (lambda x: torch.relu(x - 50), lambda x: np.maximum(x - 50, 0)),
    }
    tile = np.resize(np.arange(_PERIOD, dtype=np.float32), _STEP + _PERIOD)
    tiles = {what: _as(define(tile), kind) for what, (_, define) in calls.items()}
    plain, expected, total = _as(tile, kind), dict.fromkeys(calls, 0), 0
    for start in range(0, row["count"], _STEP):
        here = slice(start % _PERIOD, start % _PERIOD + min(_STEP, row["count"] - start))
        given[start : start + _STEP] = torch.from_numpy(plain[here].copy()).to(device.torch)
        total += int(tile[here].sum(dtype=np.int64))
        for what, one in tiles.items():
            expected[what] += weighed(one[here].view(np.uint8), start * given.itemsize)
    for what, (call, _) in calls.items():
        wrong = checksum(call(given).view(torch.uint8)) != expected[what] % (1 << 64)
        require(not wrong, f"{name}: of {row['count']} numbers that were {what} some are others")
    summed = float(given.sum(dtype=torch.float64))
    require(summed == total, f"{name}: the sum of {row['count']} numbers is {summed:.17g}, not {total}")
    figures["summary"] = f"{row['count']} numbers of {row['dtype']} added, halved, chosen, cut and summed exactly"


def _as(values: Array, kind: torch.dtype) -> Array:
    return values.astype({torch.float32: np.float32, torch.float16: np.float16}[kind])

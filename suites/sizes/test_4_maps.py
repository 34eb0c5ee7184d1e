"""Full sizes of what stands between products: activations, and maps that are normed, pooled and resized, each number against NumPy's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from stackproof.device.kinds import Device
from stackproof.operators.arrays import Array
from stackproof.operators.forms import silu
from stackproof.operators.layers import ACTIVATIONS
from stackproof.operators.pictures import PICTURES
from stackproof.record.records import Figure
from stackproof.stack.stacks import Stack
from suites.common import SEED
from suites.sizes.held import EPS, column_sums, drawn, hold, normed, rounding
from suites.sizes.table import DTYPES, row_of, rows

_SINGLE = torch.finfo(torch.float32).eps
_EXACT = np.asarray(0.5)
"""What whole numbers may be off by."""
_MOMENTUM = 0.03
"""What ultralytics gives its batch norms."""
_POOLS: Mapping[str, tuple[int, int, int]] = {"5 x 5": (5, 1, 2), "3 x 3 by twos": (3, 2, 1), "2 x 2": (2, 2, 0)}
"""Kernel, stride and padding: of YOLO's pyramid, of residual networks, and plain."""
_DRAWS = {name: turn for turn, name in enumerate(("given", "fed", "gate", "weight", "bias"))}


def _sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def _bell(x: Array) -> Array:
    return np.asarray(np.exp(-x * x / 2) / np.sqrt(2 * np.pi))


def _gelu(x: Array) -> Array:
    return np.asarray(ACTIVATIONS["gelu"](x))


def _silu_slope(x: Array) -> Array:
    return np.asarray(_sigmoid(x) * (1 + x * (1 - _sigmoid(x))))


def _spread(x: Array) -> Array:
    """Return the size of what cancels in the derivative of x times a curve from 0 to 1."""
    return np.asarray((1 + np.abs(x)) * np.maximum(_sigmoid(x), _bell(x)))


_ACTIVATIONS: Mapping[
    str, tuple[Callable[[Any], Any], Callable[[Array], Array], Callable[[Array], Array], Callable[[Array], Any]]
] = {
    "silu": (functional.silu, silu, _silu_slope, _spread),
    "gelu": (functional.gelu, _gelu, lambda x: _gelu(x) / x + x * _bell(x), _spread),
    "sigmoid": (torch.sigmoid, _sigmoid, lambda x: _sigmoid(x) * _sigmoid(-x), _sigmoid),
    "tanh": (torch.tanh, np.tanh, lambda x: 1 / np.cosh(x) ** 2, np.ones_like),
    "relu": (torch.relu, lambda x: np.maximum(x, 0), lambda x: (x > 0) * 1.0, lambda x: x > 0),
}
"""Each with its definition, its derivative, and the size of what cancels in that."""


@pytest.mark.deadline(120)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", rows()["activation"])
def test_activation(name: str, dtype: str, stack: Stack, device: Device, figures: dict[str, Figure]) -> None:
    """Activations with their gradients, and the gate of a feed-forward network with both of its own."""
    row, kind = row_of("activation", name, DTYPES[dtype], stack, device), DTYPES[dtype]
    (given, x), (fed, slope), (other, y) = (drawn((row["rows"], row["width"]), kind, 2.0, turn) for turn in range(3))
    leaf, gate = (one.to(device.torch).requires_grad_() for one in (given, other))
    back = fed.to(device.torch)
    got, wanted = {}, {}
    # an exponential's relative error grows with its argument; a function of two factors loses what its larger part rounds
    lost = 16 * _SINGLE * (1 + np.abs(x)) + 3 * torch.finfo(kind).eps
    for what, (call, define, derive, spread) in _ACTIVATIONS.items():
        got[what] = call(leaf)
        (got[f"gradient of {what}"],) = torch.autograd.grad(got[what], leaf, back)
        exact = define(x)
        wanted[what] = (exact, lost * np.abs(x if what == "gelu" else exact))  # x (1 + erf) cancels where erf nears -1
        wanted[f"gradient of {what}"] = (slope * derive(x), lost * np.abs(slope) * spread(x))
    got["gate"] = functional.silu(leaf) * gate
    got["gate's gradient"], got["value's gradient"] = torch.autograd.grad(got["gate"], (leaf, gate), back)
    wanted["gate"] = (silu(x) * y, lost * np.abs(silu(x) * y))
    wanted["gate's gradient"] = (slope * y * _silu_slope(x), lost * np.abs(slope * y) * _spread(x))
    wanted["value's gradient"] = (slope * silu(x), lost * np.abs(slope * silu(x)))
    hold(name, got, wanted, figures)


@pytest.mark.deadline(120)
@pytest.mark.parametrize("name", rows()["map"])
def test_normed(name: str, stack: Stack, device: Device, figures: dict[str, Figure]) -> None:
    """A batch norm in training: output, running statistics, and the gradients of maps, weight and bias."""
    row = row_of("map", name, torch.float32, stack, device)
    channels, side = row["channels"], row["side"]
    shape, wide = (1, channels, side, side), (channels,)
    drawings = {what: drawn(shape if turn < 2 else wide, torch.float32, 2.0, turn) for what, turn in _DRAWS.items()}
    exact = {what: one.reshape(channels, -1) for what, (_, one) in drawings.items()}
    given, fed, weight, bias = (drawings[what][0].to(device.torch) for what in ("given", "fed", "weight", "bias"))
    mean, variance = torch.zeros(wide, device=device.torch), torch.ones(wide, device=device.torch)
    leaves = [one.requires_grad_() for one in (given, weight, bias)]
    output = functional.batch_norm(leaves[0], mean, variance, leaves[1], leaves[2], True, _MOMENTUM, EPS)
    back, *own = torch.autograd.grad(output, leaves, fed)
    normal, backward = normed(exact["given"], exact["fed"] * exact["weight"], True)
    forward = normal * exact["weight"] + exact["bias"]
    lost, size = rounding(side * side, torch.float32), np.abs(exact["weight"])
    running = _MOMENTUM * exact["given"].mean(1), 1 - _MOMENTUM + _MOMENTUM * exact["given"].var(1, ddof=1)
    wanted = {
        "output": (forward, 4 * lost * (1 + np.abs(forward) + np.abs(normal * exact["weight"]))),
        "maps' gradient": (backward, 16 * lost * (size + np.abs(backward))),
        "weight's gradient": column_sums((exact["fed"] * normal).T, torch.float32),
        "bias's gradient": column_sums(exact["fed"].T, torch.float32),
        "running mean": (running[0], lost * np.abs(exact["given"]).mean(1)),
        "running variance": (running[1], 8 * lost * running[1]),
    }
    got = dict(
        zip(wanted, (output.reshape(channels, -1), back.reshape(channels, -1), *own, mean, variance), strict=True)
    )
    hold(name, got, wanted, figures)


@pytest.mark.deadline(120)
@pytest.mark.parametrize("name", rows()["map"])
def test_pooled(name: str, stack: Stack, device: Device, figures: dict[str, Figure]) -> None:
    """The largest and the mean of windows, and the mean of maps, with their gradients: exactly, of whole numbers."""
    row = row_of("map", name, torch.float32, stack, device)
    shape = (1, row["channels"], row["side"], row["side"])
    draw = np.random.default_rng(SEED)
    exact = draw.permutation(int(np.prod(shape))).astype(np.float64).reshape(shape)  # none twice: one is the largest
    leaf = torch.tensor(exact, dtype=torch.float32, device=device.torch, requires_grad=True)
    got: dict[str, torch.Tensor] = {}
    wanted: dict[str, tuple[Array, Array]] = {}
    for what, (kernel, stride, padding) in _POOLS.items():
        output = functional.max_pool2d(leaf, kernel, stride, padding)
        slope = draw.integers(-4, 5, output.shape).astype(np.float64)
        (back,) = torch.autograd.grad(output, leaf, torch.tensor(slope, dtype=torch.float32, device=device.torch))
        largest, places = _largest(exact, kernel, stride, padding)
        total = np.bincount(places.ravel(), slope.ravel(), exact.size).reshape(shape)
        got |= {f"largest of {what}": output, f"gradient of {what}": back}
        wanted |= {f"largest of {what}": (largest, _EXACT), f"gradient of {what}": (total, _EXACT)}
    output = functional.avg_pool2d(leaf, 2)
    slope = draw.integers(-4, 5, output.shape).astype(np.float64)
    (back,) = torch.autograd.grad(output, leaf, torch.tensor(slope, dtype=torch.float32, device=device.torch))
    got |= {"means": output, "gradient of means": back, "mean": functional.adaptive_avg_pool2d(leaf, 1)}
    means = PICTURES["avg_pool2d"](exact, 2)
    whole = exact.mean((2, 3), keepdims=True)
    wanted |= {
        "means": (means, 2 * _SINGLE * means + EPS),
        "gradient of means": (slope.repeat(2, 2).repeat(2, 3) / 4, np.asarray(EPS)),
        "mean": (whole, rounding(row["side"] ** 2, torch.float32) * whole),
    }
    hold(name, got, wanted, figures)


def _largest(exact: Array, kernel: int, stride: int, padding: int) -> tuple[Array, Array]:
    """Return the largest number of each window, and where it stands among all."""
    edges = ((0, 0), (0, 0), (padding, padding), (padding, padding))
    padded = np.pad(exact, edges, constant_values=-np.inf)
    numbered = np.pad(np.arange(exact.size).reshape(exact.shape), edges)
    count = (exact.shape[-1] + 2 * padding - kernel) // stride + 1
    found = np.full((*exact.shape[:2], count, count), -np.inf)
    places = np.zeros(found.shape, np.int64)
    for at in np.ndindex(kernel, kernel):
        cut: Any = (..., *(slice(one, one + (count - 1) * stride + 1, stride) for one in at))
        higher = padded[cut] > found
        found[higher], places[higher] = padded[cut][higher], numbered[cut][higher]
    return found, places


@pytest.mark.deadline(120)
@pytest.mark.parametrize("name", rows()["resized"])
def test_resized(name: str, stack: Stack, device: Device, figures: dict[str, Figure]) -> None:
    """Maps of twice the side, by the nearest and by the mean of neighbours, joined with others, with their gradients."""
    row = row_of("resized", name, torch.float32, stack, device)
    side = row["side"]
    given, x = drawn((1, row["channels"], side, side), torch.float32, 2.0, 0)
    fed, slope = drawn((1, row["channels"], 2 * side, 2 * side), torch.float32, 2.0, 1)
    leaf = given.to(device.torch).requires_grad_()
    back = fed.to(device.torch)
    got: dict[str, torch.Tensor] = {}
    wanted: dict[str, tuple[Array, Array]] = {}
    most = (
        8 * _SINGLE * np.abs(x).max(),
        64 * _SINGLE * np.abs(slope).max(),
    )  # a pixel's shares are 1 in all, of its gradient 4
    ways = {"nearest": (_repeated, _added), "bilinear": (_interpolated, lambda one: _interpolated(one, back=True))}
    for what, (forward, backward) in ways.items():
        output = functional.interpolate(leaf, scale_factor=2.0, mode=what)
        joined = torch.cat([output, back], 1)
        (got[f"gradient of {what}"],) = torch.autograd.grad(joined, leaf, torch.cat([back, back], 1))
        got[what], got[f"joined with {what}"] = output, joined[:, row["channels"] :]
        wanted[what] = (forward(x), most[0])
        wanted[f"joined with {what}"] = (slope, np.zeros(1))
        wanted[f"gradient of {what}"] = (backward(slope), most[1])
    hold(name, got, wanted, figures)


def _repeated(maps: Array) -> Array:
    return maps.repeat(2, 2).repeat(2, 3)


def _added(maps: Array) -> Array:
    """Return the sums of squares of two by two."""
    side = maps.shape[-1] // 2
    found: Array = maps.reshape(*maps.shape[:2], side, 2, side, 2).sum((3, 5))
    return found


def _interpolated(maps: Array, back: bool = False) -> Array:
    """Return maps of twice the side, or what such ones give `back` to those of the side."""
    side = maps.shape[-1] // (1 + back)
    matrix = PICTURES["interpolate"](np.eye(side)[:, None], scale_factor=2.0, mode="linear")[:, 0]
    found: Array = matrix @ maps @ matrix.T if back else matrix.T @ maps @ matrix
    return found

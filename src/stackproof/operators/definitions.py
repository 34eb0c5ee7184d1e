"""Functions of torch.nn.functional against their definitions in NumPy: rows of `data/forms.toml`, results, statistics and gradients.

A gradient is held against what the definition itself changes by, moved along random signs, so that nobody has to write it out.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Annotated, Any

import numpy as np
import torch
from packaging.version import Version
from torch.nn import functional

from stackproof import DATA
from stackproof.base.toml import Key, OneOf, Parsed, Table
from stackproof.operators.arrays import Array
from stackproof.operators.layers import ACTIVATIONS, LAYERS
from stackproof.operators.losses import LOSSES
from stackproof.operators.pictures import PICTURES
from stackproof.record.checks import require

DEFINITIONS: Mapping[str, Callable[..., Any]] = {**LOSSES, **LAYERS, **ACTIVATIONS, **PICTURES}
"""By torch's names, with its arguments' names but `input`, which is Python's own: `given`."""
ALLOWED = {torch.float64: 1e-12, torch.float32: 1e-5}
_SLOPES = {torch.float64: 1e-6, torch.float32: 1e-4}
_STEP, _DRAWS = 1e-5, 3
ORDERS = ("contiguous", "strided", "channels-last")

_KINDS: Mapping[str, Callable[[np.random.Generator, Any], Any]] = {
    "numbers": lambda draw, shape: draw.standard_normal(shape),
    "fixed": lambda draw, shape: draw.standard_normal(shape),
    "positive": lambda draw, shape: draw.uniform(0.5, 2.0, shape),
    "weights": lambda draw, shape: draw.uniform(0.5, 2.0, shape),
    "shares": lambda draw, shape: draw.uniform(0.05, 0.95, shape),
    "odds": lambda draw, shape: draw.uniform(0.05, 0.95, shape),
    "signs": lambda draw, shape: draw.choice((-1.0, 1.0), shape),
}
_MOVED = ("numbers", "positive", "shares")
"""Those whose gradients are held too."""


@dataclass(frozen=True)
class Argument:
    """One argument: what its numbers are, how many, and for whole ones what they are below."""

    kind: str
    shape: tuple[int, ...]
    below: int = 0

    def draw(self, seed: int) -> Array:
        """Return numbers that float32 holds exactly."""
        draw = np.random.default_rng(seed)
        if self.kind == "classes":
            return draw.integers(0, self.below, self.shape)
        if self.kind == "truths":
            found = draw.random(self.shape) < 0.6
            found[..., 0] = True  # no row of a mask hides everything
            return found
        return np.asarray(np.float32(_KINDS[self.kind](draw, self.shape)), dtype=np.float64)


def _argument(text: str) -> Argument:
    """Read `numbers 6 5` or `classes<5 6`."""
    kind, *sizes = text.split()
    kind, _, below = kind.partition("<")
    if kind not in (*_KINDS, "classes", "truths") or not all(one.isdigit() for one in (*sizes, below or "1")):
        kinds = ", ".join((*_KINDS, "classes<N", "truths"))
        raise ValueError(f"is {text!r}; it must be a kind of numbers and a shape, such as 'numbers 6 5' ({kinds})")
    return Argument(kind, tuple(map(int, sizes)), int(below or 0))


@dataclass(frozen=True)
class HeldCall:
    """One call of one function."""

    function: Annotated[str, OneOf(tuple(DEFINITIONS))]
    given: Mapping[str, Annotated[Argument, Parsed(_argument)]]
    options: Annotated[Mapping[str, Any], Key("with")] = field(default_factory=dict)
    still: Mapping[str, int] = field(default_factory=dict)
    """Rows of arguments whose gradient is zero by definition, such as the padding's."""
    orders: tuple[Annotated[str, OneOf(ORDERS)], ...] = ORDERS
    """Of memory."""
    since: str = ""
    """The release of torch that takes these arguments."""

    @property
    def said(self) -> str:
        """The call, in words."""
        options = ", ".join(f"{name}={value}" for name, value in self.options.items())
        shapes = ", ".join("x".join(map(str, one.shape)) for one in self.given.values())
        return f"{self.function}({shapes}{', ' if options else ''}{options})"

    @property
    def keywords(self) -> dict[str, Any]:
        """The options as Python has them."""
        return {name: tuple(value) if isinstance(value, list) else value for name, value in self.options.items()}


@cache
def forms() -> Mapping[str, tuple[HeldCall, ...]]:
    """Return the calls of each function that this torch takes."""
    here = Version(Version(torch.__version__).base_version)
    rows = [row for row in Table.load(DATA / "forms.toml").rows("form", HeldCall) if here >= Version(row.since or "0")]
    return {
        name: tuple(row for row in rows if row.function == name) for name in dict.fromkeys(r.function for r in rows)
    }


def hold(form: HeldCall, places: list[tuple[torch.device, torch.dtype]]) -> float:
    """Hold a call on each device and dtype, in each layout, against the definition; return the worst share of what is allowed.

    Raises:
        CheckFailed: a result, what was changed in place, or a gradient is not the definition's.
    """
    arrays = {name: one.draw(zlib.crc32(f"{form.said}{name}".encode())) for name, one in form.given.items()}
    exact = _defined(form, arrays)
    weights = Argument("fixed", exact["output"].shape).draw(1)
    slopes = {name: tuple(_slopes(form, arrays, weights, name)) for name in _moved(form)}
    worst = 0.0
    for place, dtype in places:
        for order in form.orders if dtype is torch.float32 else ("contiguous",):
            said = f"{form.said} in {dtype}, {order}"
            given = {name: stored(one, order, place, dtype) for name, one in arrays.items()}
            leaves = [given[name].requires_grad_() for name in slopes]
            output = getattr(functional, form.function)(**given, **form.keywords)
            found = {**given, "output": output}
            for what, value in exact.items():
                worst = max(worst, near(found[what], value, ALLOWED[dtype], f"{said}: the {what}"))
            cotangent = torch.tensor(weights, dtype=dtype, device=place)
            gradients = torch.autograd.grad(output, leaves, cotangent) if leaves else ()
            for (name, wanted), gradient in zip(slopes.items(), gradients, strict=True):
                worst = max(worst, sloped(gradient, wanted, form.still.get(name), f"{said}: {name}"))
    return worst


def _moved(form: HeldCall) -> list[str]:
    return [name for name, one in form.given.items() if one.kind in _MOVED]


def _defined(form: HeldCall, arrays: Mapping[str, Array]) -> Mapping[str, Array]:
    renamed = {"given" if name == "input" else name: one for name, one in arrays.items()}
    found = DEFINITIONS[form.function](**renamed, **form.keywords)
    return found if isinstance(found, Mapping) else {"output": np.asarray(found)}


def _slopes(form: HeldCall, arrays: Mapping[str, Array], weights: Array, name: str) -> Iterator[tuple[Array, float]]:
    """Yield directions, and by how much the weighed result changes along each."""

    def weighed(moved: Array) -> float:
        return float((_defined(form, {**arrays, name: moved})["output"] * weights).sum())

    return slopes(weighed, arrays[name], form.still.get(name))


def slopes(weighed: Callable[[Array], float], values: Array, still: int | None = None) -> Iterator[tuple[Array, float]]:
    """Yield directions of random signs, and by how much what is `weighed` changes along each; row `still` is not moved."""
    for draw in range(_DRAWS):
        way = np.random.default_rng(draw).choice((-1.0, 1.0), values.shape)
        if still is not None:
            way[still] = 0
        ends = [weighed(values + sign * _STEP * way) for sign in (1, -1)]
        yield way, (ends[0] - ends[1]) / (2 * _STEP)


def stored(values: Array, order: str, place: torch.device, dtype: torch.dtype) -> torch.Tensor:
    """Return the numbers as a tensor of its own, stored in an order that fits it."""
    made = torch.from_numpy(values.copy()).to(place, dtype if values.dtype.kind == "f" else None)
    if order == "channels-last" and made.dim() == 4:
        return made.contiguous(memory_format=torch.channels_last)
    if order == "strided" and made.dim() > 1 and values.dtype.kind == "f":
        wide = made.new_full((*made.shape[:-1], 2 * made.shape[-1]), 9.0)
        return wide[..., ::2].copy_(made)
    return made


def near(found: torch.Tensor, exact: Array, allowed: float, what: str) -> float:
    """Hold a result against its definition; return its share of what is allowed."""
    actual = _array(found)
    require(actual.shape == exact.shape, f"{what} has shape {actual.shape}, not {exact.shape}")
    off = float(np.linalg.norm(actual - exact)) / max(float(np.linalg.norm(exact)), 1e-300)
    require(off <= allowed, f"{what} is {off:.2g} from its definition, {allowed} is allowed")
    return off / allowed


def sloped(gradient: torch.Tensor, wanted: tuple[tuple[Array, float], ...], still: int | None, what: str) -> float:
    """Hold a gradient against directions and by how much the definition changes along each; return the share of what is allowed."""
    seen, allowed, worst = _array(gradient), _SLOPES[gradient.dtype], 0.0
    require(still is None or not seen[still].any(), f"{what} has a gradient in row {still}, which takes none")
    size = max(float(np.linalg.norm(seen)), 1e-12)
    for way, change in wanted:
        off = abs(float((seen * way).sum()) - change) / size
        require(
            off <= allowed, f"{what}'s gradient is {off:.2g} from what the definition changes by, {allowed} is allowed"
        )
        worst = max(worst, off / allowed)
    return worst


def _array(tensor: torch.Tensor) -> Array:
    found: Array = tensor.detach().cpu().double().numpy()
    return found

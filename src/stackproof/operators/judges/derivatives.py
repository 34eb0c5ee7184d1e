"""Derivatives agree: reverse, forward, twice either way, and what the function itself changes by, along a random line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

from stackproof.operators.database import REFERENCE, SampleInput
from stackproof.operators.points import OperatorPoint, member
from stackproof.operators.relation import Relation, UnusableError, numeric

WHAT = "derivatives agree"
DTYPES = (torch.float64, torch.complex128)
_STEPS = (1e-4, 3e-5)
_NEAR = 1e-7
"""As a share of the largest number: on either side of a kink that is here."""


def suits(name: str, op: Any) -> bool:
    """Whether an operator has a gradient on the CPU in float64 or complex128."""
    return not member("without a quotient", name) and bool(
        set(DTYPES) & set(op.supported_backward_dtypes(REFERENCE.type))
    )


def relations(point: OperatorPoint) -> Iterator[Relation]:
    """Yield relations of derivatives at drawn samples, and at the points where formulas divide by zero."""
    if point.dtype not in point.op.supported_backward_dtypes(point.device.type):
        return
    if not point.on_host and member("asserts on cards", point.name):
        return
    drawn = point.samples(1 if point.dtype.is_complex else 2, gradient=True)
    for place, sample in enumerate(drawn):
        negated = place == 1 and not member("held by residuals", point.name)
        yield from _of(point, _made(sample, _as(sample.input, torch.neg), sample.args) if negated else sample, negated)
    if drawn:
        sample = min(drawn, key=lambda sample: sample.input.numel() if isinstance(sample.input, torch.Tensor) else 0)
        for special in (_zero, _identity):
            yield from _of(point, special(sample), True)
        yield from _short(point, drawn)


def _short(point: OperatorPoint, drawn: list[SampleInput]) -> Iterator[Relation]:
    """Yield the same with indices of few rows only: gradients of the other rows are zero."""
    for sample in drawn[:2]:
        cut = [leaf.narrow(0, 0, 1) if _is_index(leaf) and leaf.shape[0] > 1 else leaf for leaf in sample.args]
        if any(leaf is not other for leaf, other in zip(cut, sample.args, strict=True)):
            yield from _of(point, _made(sample, sample.input, tuple(cut)), True)


def _is_index(leaf: Any) -> bool:
    return isinstance(leaf, torch.Tensor) and leaf.dtype is torch.int64 and leaf.dim() > 0


def _made(sample: SampleInput, tensor: Any, arguments: tuple[Any, ...]) -> SampleInput:
    made = type(sample)(tensor, args=arguments, kwargs=dict(sample.kwargs))
    made.output_process_fn_grad = sample.output_process_fn_grad
    return made


def _zero(sample: SampleInput) -> SampleInput:
    return _made(sample, _as(sample.input, torch.zeros_like), sample.args)


def _identity(sample: SampleInput) -> SampleInput:
    def eye(leaf: torch.Tensor) -> torch.Tensor:
        if leaf.dim() < 2 or leaf.shape[-1] != leaf.shape[-2]:
            return torch.ones_like(leaf)
        return torch.eye(leaf.shape[-1], dtype=leaf.dtype, device=leaf.device).expand(leaf.shape).clone()

    return _made(sample, _as(sample.input, eye), sample.args)


def _as(leaf: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    return change(leaf.detach()).requires_grad_() if numeric(leaf) else leaf


class _Line:
    """A sample's outputs, weighed into one number, as a function of a step along a random direction of all its inputs."""

    def __init__(self, point: OperatorPoint, sample: SampleInput) -> None:
        self.point, self.sample = point, sample
        self.leaves, self.spec = tree_flatten((sample.input, tuple(sample.args), dict(sample.kwargs)))
        self.places = [n for n, leaf in enumerate(self.leaves) if numeric(leaf) and leaf.requires_grad]
        self.values = [self.leaves[n].detach() for n in self.places]
        generator = torch.Generator().manual_seed(11)
        self.ways = [self._drawn(leaf, generator) for leaf in self.values]
        self.weights: list[torch.Tensor] = []
        self.energy = False
        self._known: dict[Any, torch.Tensor | UnusableError] = {}

    def kept(self, what: str, function: Callable[[], torch.Tensor]) -> torch.Tensor:
        """Return what was computed for the same numbers before, or compute it."""
        key = (what, self.energy, *(hash(value.cpu().resolve_conj().numpy().tobytes()) for value in self.values))
        if key not in self._known:
            try:
                self._known[key] = function()
            except UnusableError as error:
                self._known[key] = error
        result = self._known[key]
        if isinstance(result, UnusableError):
            raise result
        return result

    def take(self, inputs: tuple[Any, ...], named: dict[str, Any], energy: bool) -> None:
        """Set the line through other inputs; `energy`: half of the sum of squares is differentiated."""
        self.leaves = tree_flatten((inputs[0], tuple(inputs[1:]), named))[0]
        self.values = [self.leaves[n].detach() for n in self.places]
        self.energy = energy
        if [value.shape for value in self.values] != [way.shape for way in self.ways]:  # a failure is made smaller
            generator, self.weights = torch.Generator().manual_seed(11), []
            self.ways = [self._drawn(value, generator) for value in self.values]

    def _drawn(self, leaf: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        parts = torch.rand((*leaf.shape, 2), generator=generator, dtype=torch.float64) - 0.5
        return (torch.view_as_complex(parts) if leaf.is_complex() else parts[..., 0]).to(leaf.device)

    def weighed(self, values: list[torch.Tensor]) -> torch.Tensor:
        """Return the real part of the weighed sum of the outputs, or half of their squares' sum."""
        leaves = list(self.leaves)
        for place, value in zip(self.places, values, strict=True):
            leaves[place] = value
        tensor, arguments, options = tree_unflatten(leaves, self.spec)
        op, wrapper = self.point.op, self.point.op.gradcheck_wrapper
        made = self.sample.output_process_fn_grad(
            wrapper(op.op if hasattr(op, "op") else op, tensor, *arguments, **options)
        )
        outputs = [leaf for leaf in tree_leaves(made) if numeric(leaf) and leaf.numel()]
        if not outputs:
            raise UnusableError("no number to differentiate")
        if not self.weights:
            generator = torch.Generator().manual_seed(13)
            self.weights = [self._drawn(output.detach(), generator) for output in outputs]
        if self.energy:
            return torch.stack([(output * output.conj()).real.sum() / 2 for output in outputs]).sum()
        pairs = zip(outputs, self.weights, strict=True)
        return torch.stack([(output * weight.conj()).real.sum() for output, weight in pairs]).sum()

    def at(self, step: torch.Tensor) -> torch.Tensor:
        return self.weighed([value + step * way for value, way in zip(self.values, self.ways, strict=True)])

    def zero(self) -> torch.Tensor:
        return torch.zeros((), dtype=torch.float64, device=self.point.device)

    def gradients(self, step: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        """Return the gradients at a step along the line."""
        moved = [(v + step * w).detach().requires_grad_() for v, w in zip(self.values, self.ways, strict=True)]
        return torch.autograd.grad(self.weighed(moved), moved, allow_unused=True)

    def reverse(self, step: torch.Tensor | None = None) -> torch.Tensor:
        """Return the derivative along the line from the gradients."""
        return self._along(self.gradients(self.zero() if step is None else step))

    def smooth(self) -> torch.Tensor:
        """Return zero where value and gradients just ahead and just behind are the same.

        Raises:
            UnusableError: they are not: here is a jump, a kink, a tie or a branch cut, of which each way may say another thing.
        """
        step = _NEAR * self.size() * torch.ones_like(self.zero())
        ahead, behind = ([self.at(side).detach(), *self.gradients(side)] for side in (step, -step))
        for value, other in zip(ahead, behind, strict=True):
            if value is not None and other is not None and not torch.allclose(value, other, rtol=0.1, atol=1e-3):
                raise UnusableError("a kink is here")
        return self.zero()

    def size(self) -> float:
        """Return the largest number, at least 1 and at most 1000."""
        return min(1e3, max([1.0, *(float(value.abs().max()) for value in self.values if value.numel())]))

    def _along(self, gradients: Any) -> torch.Tensor:
        pairs = [(g, w) for g, w in zip(gradients, self.ways, strict=True) if g is not None]
        return torch.stack([self.zero(), *((g * w.conj()).real.sum() for g, w in pairs)]).sum()

    def finite(self) -> torch.Tensor:
        """Return the derivative from the gradients where there is one: at a pole one way has an infinity, another NaN.

        Raises:
            UnusableError: it is not finite.
        """
        derivative = self.reverse()
        if not bool(derivative.isfinite()):
            raise UnusableError("no derivative here")
        return derivative

    def forward(self, *values: torch.Tensor) -> torch.Tensor:
        """Return the derivative along the line in forward mode."""
        way = lambda *moved: self.weighed(list(moved))  # noqa: E731
        derivative: torch.Tensor = torch.func.jvp(way, values or tuple(self.values), tuple(self.ways))[1]
        return derivative

    def twice_forward(self) -> torch.Tensor:
        """Return the second derivative, forward over forward."""
        derivative: torch.Tensor = torch.func.jvp(self.forward, tuple(self.values), tuple(self.ways))[1]
        return derivative

    def twice_reverse(self) -> torch.Tensor:
        """Return the second derivative, reverse over reverse."""
        leaves = [value.clone().requires_grad_() for value in self.values]
        first = torch.autograd.grad(self.weighed(leaves), leaves, create_graph=True, allow_unused=True)
        along = self._along(first)
        if not along.requires_grad:
            return self.zero()
        return self._along(torch.autograd.grad(along, leaves, allow_unused=True))

    def forward_over_reverse(self) -> torch.Tensor:
        """Return the second derivative, forward over reverse, as a Hessian is computed."""

        def along(*moved: torch.Tensor) -> torch.Tensor:
            return self._along(torch.func.grad(lambda values: self.weighed(list(values)))(moved))

        derivative: torch.Tensor = torch.func.jvp(along, tuple(self.values), tuple(self.ways))[1]
        return derivative

    def quotient(self, function: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
        """Return a difference quotient where two steps, and both sides, agree on one.

        Raises:
            UnusableError: there is a kink, a jump or a pole near.
        """
        quotients, middle = [], function(self.zero())
        for share in _STEPS:
            step = torch.full((), share * self.size(), dtype=torch.float64, device=self.point.device)
            ahead, behind = function(step), function(-step)
            sides = ((ahead - middle) / step, (middle - behind) / step)
            if not torch.allclose(sides[0], sides[1], rtol=0.1, atol=1e-3):
                raise UnusableError("a kink is near")
            quotients.append((ahead - behind) / (2 * step))
        if not torch.allclose(quotients[0], quotients[1], rtol=1e-4, atol=1e-6) or not bool(quotients[0].isfinite()):
            raise UnusableError("the quotient has not settled")
        return (quotients[1] * _STEPS[0] ** 2 - quotients[0] * _STEPS[1] ** 2) / (_STEPS[0] ** 2 - _STEPS[1] ** 2)


_CODE = """
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

leaves, spec = tree_flatten((arguments, options))
places = [n for n, x in enumerate(leaves) if torch.is_tensor(x) and x.requires_grad]


def function(*moved):
    given, named = tree_unflatten([moved[places.index(n)] if n in places else x for n, x in enumerate(leaves)], spec)
    return tuple(x for x in tree_leaves(operator(*given, **named)) if torch.is_tensor(x) and x.requires_grad)


given = [leaves[n].detach().requires_grad_() for n in places]  # either raises where derivatives and difference quotients disagree
first, second = torch.autograd.gradcheck(function, given, check_forward_ad=True), torch.autograd.gradgradcheck(function, given)
"""


def _of(point: OperatorPoint, sample: SampleInput, special: bool = False) -> Iterator[Relation]:
    line = _Line(point, sample)
    if not line.places or not sum(value.numel() for value in line.values):
        return

    def relation(says: str, first: Any, second: Any, energy: bool = False, tolerance: float = 1e-6) -> Relation:
        def way(function: Any, *before: Any) -> Any:
            def taken(*inputs: Any, **named: Any) -> Any:
                line.take(inputs, named, energy)
                return [call() for call in (*before, function)][-1]

            return taken

        inputs = (sample.input, *sample.args)
        how: dict[str, Any] = {"tolerance": tolerance, "floor": 1e-7, "refusable": special}
        return Relation(says, inputs, dict(sample.kwargs), way(first), way(second, smooth), _CODE, **how)

    smooth = lambda: line.kept("smooth", line.smooth)  # noqa: E731
    slope = lambda: line.kept("slope", lambda: line.quotient(lambda step: line.at(step).detach()))  # noqa: E731
    bend = lambda: line.kept("bend", lambda: line.quotient(lambda step: line.reverse(step).detach()))  # noqa: E731
    yield relation("reverse mode as the difference quotient", line.reverse, slope, tolerance=1e-4)
    if point.op.supports_forward_ad:
        yield relation("forward mode as reverse", line.forward, line.finite)
    if not point.op.supports_gradgrad or not point.on_host:
        return  # second derivatives are formulas, the same on every device: the CPU's stack proves them
    for energy in (False, True) if special else (False,):  # squares are smooth where a size itself is not
        says = f"{{}}{' of squares' if energy else ''} as the difference quotient"
        yield relation(says.format("reverse over reverse"), line.twice_reverse, bend, energy, 1e-3)
        if point.op.supports_fwgrad_bwgrad:
            yield relation(says.format("forward over reverse"), line.forward_over_reverse, bend, energy, 1e-3)
        if point.op.supports_forward_ad:
            yield relation(says.format("forward over forward"), line.twice_forward, bend, energy, 1e-3)

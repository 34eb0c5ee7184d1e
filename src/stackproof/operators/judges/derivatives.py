"""Derivatives agree: reverse, forward, twice either way, and what the function itself changes by, along a random line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from itertools import islice
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

from stackproof.operators.database import REFERENCE, SampleInput
from stackproof.operators.points import OperatorCall, OperatorPoint, member
from stackproof.operators.relation import Relation, UnusableError, describe_tree, numeric

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
    for place, call in enumerate(drawn):
        negated = place == 1 and not member("held by residuals", point.name)
        yield from _of(point, _with_first(call, torch.neg) if negated else call, negated)
    if drawn:
        smallest = min(drawn, key=lambda call: call.inputs[0].numel() if torch.is_tensor(call.inputs[0]) else 0)
        for special in (torch.zeros_like, _eye):
            yield from _of(point, _with_first(smallest, special), True)
    for call in [call for call in drawn if torch.is_tensor(call.inputs[0]) and call.inputs[0].dim()][:1]:
        for equal in (torch.zeros_like, torch.ones_like):
            yield from _of(point, _with_first(call, equal), True, alike=True)
    for call in point.kinds(6, alike=True, gradient=True):
        yield from islice(_of(point, call), 1, 2) if point.op.supports_forward_ad else ()
    for call in drawn:  # with indices of few rows only gradients of the other rows are zero
        first, *rest = call.inputs
        indices = [getattr(leaf, "dtype", None) is torch.int64 and leaf.dim() > 0 and len(leaf) > 1 for leaf in rest]
        if any(indices):
            cut = [leaf.narrow(0, 0, 1) if index else leaf for leaf, index in zip(rest, indices, strict=True)]
            yield from _of(point, call._replace(inputs=(first, *cut)), True)


def _eye(leaf: torch.Tensor) -> torch.Tensor:
    if leaf.dim() < 2 or leaf.shape[-1] != leaf.shape[-2]:
        return torch.ones_like(leaf)
    return torch.eye(leaf.shape[-1], dtype=leaf.dtype, device=leaf.device).expand(leaf.shape).clone()


def _with_first(call: OperatorCall, change: Callable[[torch.Tensor], torch.Tensor]) -> OperatorCall:
    first, *more = call.inputs
    return call._replace(inputs=(change(first.detach()).requires_grad_() if numeric(first) else first, *more))


def _drawn(leaf: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    parts = torch.rand((*leaf.shape, 2), generator=generator, dtype=torch.float64) - 0.5
    return (torch.view_as_complex(parts) if leaf.is_complex() else parts[..., 0]).to(leaf.device)


class _Line:
    """A call's outputs, weighed into one number, as a function of a step along a random direction of all its inputs.

    `energy`: half of the sum of the outputs' squares in place of the weighed sum. `alike`: the first moves alone, all its numbers alike, so
    that those that are equal stay so.
    """

    def __init__(
        self, point: OperatorPoint, sample: SampleInput, call: tuple[Any, Any], energy: bool, alike: bool = False
    ) -> None:
        self.op, self.finish, self.energy = point.op, sample.output_process_fn_grad, energy
        self.leaves, self.spec = tree_flatten(call)
        self.places = [n for n, leaf in enumerate(self.leaves) if numeric(leaf) and leaf.requires_grad]
        self.values = tuple(self.leaves[n].detach() for n in self.places)
        self.key = (
            energy,
            describe_tree(call),
            *(value.cpu().resolve_conj().numpy().tobytes() for value in self.values),
        )
        generator = torch.Generator().manual_seed(11)
        ways = (_drawn(leaf, generator) for leaf in self.values)
        self.ways = tuple(torch.ones_like(x) * (not n) if alike else x for n, x in enumerate(ways))
        self.weights: list[torch.Tensor] = []
        self.zero = torch.zeros((), dtype=torch.float64, device=point.device)
        self.size = min(1e3, max([1.0, *(float(value.abs().max()) for value in self.values if value.numel())]))

    def weighed(self, *values: torch.Tensor) -> torch.Tensor:
        """Return the real part of the weighed sum of the outputs, or half of their squares' sum."""
        leaves = list(self.leaves)
        for place, value in zip(self.places, values, strict=True):
            leaves[place] = value
        inputs, options = tree_unflatten(leaves, self.spec)
        made = self.finish(self.op.gradcheck_wrapper(getattr(self.op, "op", self.op), *inputs, **options))
        outputs = [leaf for leaf in tree_leaves(made) if numeric(leaf) and leaf.numel()]
        if not outputs:
            raise UnusableError("no number to differentiate")
        if not self.weights:
            generator = torch.Generator().manual_seed(13)
            self.weights = [_drawn(output.detach(), generator) for output in outputs]
        weights = outputs if self.energy else self.weights
        sums = [(output * weight.conj()).real.sum() for output, weight in zip(outputs, weights, strict=True)]
        return torch.stack(sums).sum() / (1 + self.energy)

    def at(self, step: torch.Tensor) -> torch.Tensor:
        return self.weighed(*(value + step * way for value, way in zip(self.values, self.ways, strict=True)))

    def gradients(self, step: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        """Return the gradients at a step along the line."""
        moved = [(value + step * way).requires_grad_() for value, way in zip(self.values, self.ways, strict=True)]
        return torch.autograd.grad(self.weighed(*moved), moved, allow_unused=True)

    def along(self, gradients: Any) -> torch.Tensor:
        """Return the derivative along the line from the gradients."""
        pairs = [(g, w) for g, w in zip(gradients, self.ways, strict=True) if g is not None]
        return torch.stack([self.zero, *((g * w.conj()).real.sum() for g, w in pairs)]).sum()

    def reverse(self) -> torch.Tensor:
        return self.along(self.gradients(self.zero))

    def forward(self, *values: torch.Tensor) -> torch.Tensor:
        derivative: torch.Tensor = torch.func.jvp(self.weighed, values or self.values, self.ways)[1]
        return derivative

    def forward_over_forward(self) -> torch.Tensor:
        derivative: torch.Tensor = torch.func.jvp(self.forward, self.values, self.ways)[1]
        return derivative

    def forward_over_reverse(self) -> torch.Tensor:
        """Return the second derivative as a Hessian is computed."""
        reverse = torch.func.grad(lambda values: self.weighed(*values))
        derivative: torch.Tensor = torch.func.jvp(lambda *v: self.along(reverse(v)), self.values, self.ways)[1]
        return derivative

    def reverse_over_reverse(self) -> torch.Tensor:
        leaves = [value.clone().requires_grad_() for value in self.values]
        first = torch.autograd.grad(self.weighed(*leaves), leaves, create_graph=True, allow_unused=True)
        along = self.along(first)
        return self.along(torch.autograd.grad(along, leaves, allow_unused=True)) if along.requires_grad else self.zero

    @cached_property
    def smooth(self) -> bool:
        """Whether value and gradients just ahead and just behind are the same: no jump, kink, tie or branch cut is here."""
        step = _NEAR * self.size + self.zero
        ahead, behind = ([self.at(side), *self.gradients(side)] for side in (step, -step))
        pairs = [(x, y) for x, y in zip(ahead, behind, strict=True) if x is not None and y is not None]
        return all(torch.allclose(x, y, rtol=0.1, atol=1e-3) for x, y in pairs)

    @cached_property
    def finite(self) -> torch.Tensor:
        """The derivative in reverse mode where there is one: at a pole one way has an infinity, another NaN."""
        derivative = self.reverse()
        if not bool(derivative.isfinite()):
            raise UnusableError("no derivative here")
        return derivative

    @cached_property
    def first_quotient(self) -> torch.Tensor:
        return self._quotient(self.at)

    @cached_property
    def second_quotient(self) -> torch.Tensor:
        return self._quotient(lambda step: self.along(self.gradients(step)))

    def _quotient(self, function: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
        """Return a difference quotient where two steps, and both sides, agree on one.

        Raises:
            UnusableError: there is a kink, a jump or a pole near.
        """
        quotients, middle = [], function(self.zero)
        for share in _STEPS:
            step = share * self.size + self.zero
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


def _of(point: OperatorPoint, call: OperatorCall, special: bool = False, alike: bool = False) -> Iterator[Relation]:
    inputs, options, sample = call
    lines = dict[Any, _Line]()
    if not sum(leaf.numel() for leaf in tree_leaves((inputs, options)) if numeric(leaf) and leaf.requires_grad):
        return

    def relation(says: str, first: Any, second: str, energy: bool = False, tolerance: float = 1e-6) -> Relation:
        def line(*arguments: Any, **named: Any) -> _Line:
            made = _Line(point, sample, (arguments, named), energy, alike)
            return lines.setdefault(made.key, made)

        def trusted(*arguments: Any, **named: Any) -> Any:
            here = line(*arguments, **named)
            if not here.smooth:
                raise UnusableError("a kink is here, of which each way may say another thing")
            return getattr(here, second)

        how: dict[str, Any] = {
            "tolerance": tolerance,
            "floor": 1e-3 if alike and energy else 1e-7,
            "refusable": special,
        }
        return Relation(says, inputs, options, lambda *a, **o: first(line(*a, **o)), trusted, _CODE, **how)

    for energy in (False, True) if alike else (False,):
        words = f"reverse mode{' of squares' * energy} as the difference quotient{', all moved alike' * alike}"
        yield relation(words, _Line.reverse, "first_quotient", energy, 1e-4)
    if alike:
        return
    if point.op.supports_forward_ad:
        yield relation("forward mode as reverse", _Line.forward, "finite")
    if not point.op.supports_gradgrad or not point.on_host:
        return  # second derivatives are formulas, the same on every device: the CPU's stack proves them
    twice = {
        "reverse over reverse": (_Line.reverse_over_reverse, True),
        "forward over reverse": (_Line.forward_over_reverse, point.op.supports_fwgrad_bwgrad),
        "forward over forward": (_Line.forward_over_forward, point.op.supports_forward_ad),
    }
    for energy in (False, True) if special else (False,):  # squares are smooth where a size itself is not
        for says, (way, able) in twice.items():
            words = f"{says}{' of squares' if energy else ''} as the difference quotient"
            yield from [relation(words, way, "second_quotient", energy, 1e-3)] if able else []

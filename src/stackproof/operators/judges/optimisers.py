"""All forms of an optimiser take the same step: loop, list and fused, with groups, a resume and a scaler.

torch writes the loop and the list form of each optimiser apart, so that either is the other's reference; what models are trained
with is held by its paper's form in `workloads.training`.
"""

from __future__ import annotations

import ast
import copy
import inspect
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from typing import Any

import torch
from torch.utils._pytree import tree_map

from stackproof.device.devices import Operators
from stackproof.operators.database import REFERENCE, isolated
from stackproof.operators.judges.sparse import twice
from stackproof.operators.points import OperatorPoint
from stackproof.operators.relation import Relation, UnusableError

WHAT = "a step is a step"
DTYPES = (torch.float32, torch.bfloat16)
_STEPS, _LEFT, _FAR = 6, 3, 701
"""Steps, after how many of them one is resumed, and what the count is set to before the last, where corrections have faded."""
_SHAPES = ((1,), (7,), (33, 5), (4, 3, 3, 3), (70_001,), *[(3,)] * 112)
"""One longer than what a block of a kernel over lists takes (2^16), and more small ones than such a kernel takes at once (110)."""
_KERNELS = {"foreach": "_foreach_", "fused": "_fused_"}
_REFUSED = "`fused=True` requires all the params to be"
_BETAS = (0.875, 0.984375)
"""Exact in float32, as 1 - beta is: fused kernels of CUDA take them in it (https://github.com/pytorch/pytorch/pull/173224)."""
_SCALE = 1024.0
"""A power of two: scaling and unscaling change no bit."""
_NARROWED = ("ASGD", "NAdam")
"""That keep rates or products beside the count, which are loaded in the dtype of the parameter."""
_KINDS = {"foreach", "fused", "capturable", "differentiable", "maximize"}
_DOCUMENTED = re.compile(
    r"^\s+(\w+) \([^)]*\):[^\n]*?(?:\n\s{12,}[^\n]*?)*?\(default: ([^\n]*?)\)(?:$|[\s.,])", re.MULTILINE
)
Tensors = Sequence[torch.Tensor]


@cache
def subjects() -> Mapping[str, Any]:
    """Return torch's own database of optimisers by the names of their classes: those of dense parameters of any shape."""
    with isolated():
        from torch.testing._internal.common_optimizers import optim_db
    return {info.optim_cls.__name__: info for info in optim_db if info.optim_cls.__name__ not in ("SparseAdam", "Muon")}


def relations(point: OperatorPoint) -> Iterator[Relation]:
    """Yield ways to the same parameters and state, with no option set and with all of them."""
    make, dtype = point.op.optim_cls, point.dtype
    if dtype is torch.float32:
        yield _documented(make)
    if make is torch.optim.LBFGS:
        yield from _settled(point) if dtype is torch.float32 else ()
        return
    exact = {"betas": _BETAS} if "betas" in _defaults(make) else {}
    many, few = (tuple(point.numbers(shape) for shape in (*shapes, *shapes)) for shapes in (_SHAPES, _SHAPES[:5]))
    fused = ["fused"] * ("fused" in point.op.supported_impls)
    for options in (exact, *({**options, **exact} for options in _away(make))):
        uphill = {**options, "maximize": not options.get("maximize"), "lr": 0.03}
        way = partial(_Way, make, options)
        if dtype is torch.bfloat16:
            if make.__name__ not in _NARROWED:
                yield _relation("resumed", options, few, way("foreach", resumed=True), way("foreach"), exact=True)
            continue
        if options is not exact:
            yield from _meant(point, options, few[:4] + few[5:9], ("loop", "foreach", *fused))
        two = partial(way, "foreach", first=uphill)
        yield _relation("resumed", options, few, two(resumed=True), two(), exact=True)
        yield _relation("two groups", options, few, two(), two(apart=True))
        for kind, tensors in (("loop", few), *((kind, many) for kind in ("foreach", *fused))):
            yield _relation(kind, options, tensors, way(kind), way("loop", host=True), widened=True)
        for kind in ("foreach", *fused):
            yield _relation(f"{kind}, under a scaler", options, few, way(kind, scale=_SCALE), way(kind))
            for when in ("first", "later"):
                scaled = way(kind, scale=_SCALE, infinite=when)
                yield _relation(f"{kind}, after an infinite {when} gradient", options, few, scaled, way(kind))


def _defaults(make: Any) -> dict[str, Any]:
    made: torch.optim.Optimizer = make([torch.zeros(1, requires_grad=True)])
    return made.defaults


def _away(make: Any) -> list[dict[str, Any]]:
    """Return options that are all away from their defaults, and for one that does not go with another both in turn."""

    def other(value: Any) -> Any:
        if isinstance(value, bool | tuple):
            return tuple(map(other, value)) if isinstance(value, tuple) else not value
        value = value or 0.0
        return 2.0 if value > 100 else (math.ceil(value * 8) - 1) / 8 if 0.5 < value < 1 else value + 0.125

    def taken(options: dict[str, Any]) -> bool:
        with suppress(ValueError):
            return make([torch.zeros(1, requires_grad=True)], **options) is not None
        return False

    settable = inspect.signature(make).parameters.keys() - _KINDS
    named = {name: other(value) for name, value in _defaults(make).items() if name in settable} | {"lr": 0.1875}
    full: dict[str, Any] = {}
    for name, value in named.items():
        full |= {name: value} if taken({**full, name: value}) else {}
    without = [{**_without(full, gone), name: named[name]} for name in named.keys() - full for gone in full]
    return [full, *list(filter(taken, without))[:1]]


def _meant(point: OperatorPoint, options: dict[str, Any], inputs: Tensors, kinds: Sequence[str]) -> Iterator[Relation]:
    """Yield that each option changes something, that upwards is against the gradient, and other ways to say the same."""
    way = partial(_Way, point.op.optim_cls)
    up = {**options, "maximize": True}

    def changes(*tensors: torch.Tensor, kind: str) -> dict[str, bool]:
        results, moved = way(options, kind)(*tensors), dict.fromkeys(options, True)
        for name in options:
            with suppress(ValueError):  # what does not go without another changes something
                plain = way(_without(options, name), kind)(*tensors)
                moved[name] = len(plain) != len(results) or not all(map(torch.equal, results, plain))
        return moved

    def changed(*_: torch.Tensor) -> dict[str, bool]:
        return dict.fromkeys(options, True)

    def against(*tensors: torch.Tensor, kind: str) -> list[torch.Tensor]:
        half = len(tensors) // 2
        return way(options, kind)(*tensors[:half], *(-gradient for gradient in tensors[half:]))

    for kind in kinds:
        yield _relation(f"{kind}, each option changes something", options, inputs, partial(changes, kind=kind), changed)
        yield _relation(f"{kind}, upwards", up, inputs, way(up, kind), partial(against, kind=kind))
        if kind != "foreach":
            rate = {**options, "lr": torch.tensor(options["lr"])}
            yield _relation(f"{kind}, a rate that is a tensor", rate, inputs, way(rate, kind), way(options, kind))
    if "differentiable" in point.op.supported_impls:
        yield _relation("differentiable", options, inputs, way(options, "differentiable"), way(options, "loop"))
    if point.op.supports_sparse:
        plain = dict(point.op.metadata_for_sparse[0])
        yield _relation("of sparse gradients", plain, inputs[2::4], way(plain, "loop", sparse=True), way(plain, "loop"))


def _without(options: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in options.items() if key != name}


def _relation(says: str, options: Mapping[str, Any], inputs: Tensors, first: Any, second: Any, **more: Any) -> Relation:
    code = f"# {_STEPS} steps, {says}, with {dict(options)}: parameters are given, and then gradients\nfirst = second = operator"
    return Relation(says, tuple(inputs), {}, first, second, code, ulps=256.0, **more)


class _Way:
    """Takes some steps of an optimiser from parameters and their gradients, and returns the parameters and its state."""

    def __init__(self, make: Any, options: Mapping[str, Any], kind: str, **how: Any) -> None:
        self.make, self.options, self.kind, self.how = make, options, kind, how

    def __call__(self, *inputs: torch.Tensor) -> list[torch.Tensor]:
        """Take the steps.

        Raises:
            UnusableError: there is no such form for this device.
            RuntimeError: another form ran than was asked for.
        """
        half = len(inputs) // 2
        place = REFERENCE if self.how.get("host") else inputs[0].device
        tensors = [tensor.detach().to(place, copy=True) for tensor in inputs[:half]]
        gradients = [gradient.detach().to(place) for gradient in inputs[half:]]
        if len(tensors) > 3 and tensors[3].dim() == 4:
            tensors[3] = tensors[3].contiguous(memory_format=torch.channels_last)
        if self.how.get("apart"):
            cut = half // 2
            first, second = _Way(self.make, self.how["first"], self.kind), _Way(self.make, self.options, self.kind)
            return [*first(*tensors[:cut], *gradients[:cut]), *second(*tensors[cut:], *gradients[cut:])]
        try:
            with Operators() as ran:
                results = self._taken([tensor.requires_grad_() for tensor in tensors], gradients)
        except RuntimeError as error:
            if _REFUSED in str(error) or isinstance(error, NotImplementedError):
                raise UnusableError(str(error)) from error
            raise
        prefix = _KERNELS.get(self.kind, "")
        if ran and not any(kernel.startswith(prefix) for kernel in ran.seen):
            raise RuntimeError(f"{self.kind} was asked for, and the kernels that ran are those of a loop")
        return results

    def _made(self, tensors: Tensors, **options: Any) -> torch.optim.Optimizer:
        """Return the optimiser of the tensors, or of a group of the first half and one of the others."""
        cut = len(tensors) // 2 if self.how.get("first") else 0
        first = self.how.get("first", {}) if options else {}
        groups = [{"params": tensors[:cut], **first}, {"params": tensors[cut:]}]
        made: torch.optim.Optimizer = self.make(groups if cut else tensors, **options)
        return made

    def _taken(self, tensors: list[torch.Tensor], gradients: Tensors) -> list[torch.Tensor]:
        kinds = {"loop": {"foreach": False}, "foreach": {"foreach": True}, "fused": {"fused": True}}
        kinds["differentiable"] = {"foreach": False, "differentiable": True}
        if self.kind == "differentiable":
            tensors = [tensor.clone() for tensor in tensors]  # of a leaf there is no history
        optimiser = self._made(tensors, **self.options, **kinds[self.kind])
        scale = self.how.get("scale")
        scaler = torch.amp.GradScaler(tensors[0].device.type, init_scale=scale) if scale else None
        for step in range(_STEPS):
            if step == _STEPS - 1:
                for state in optimiser.state.values():
                    if "step" in state:
                        state["step"].fill_(_FAR)
            if step in (_LEFT, _STEPS - 1) and self.how.get("resumed"):
                saved = copy.deepcopy(optimiser.state_dict())
                tensors = [tensor.detach().clone().requires_grad_() for tensor in tensors]
                optimiser = self._made(tensors)
                optimiser.load_state_dict(saved)
            if scaler and self.how.get("infinite") == ("later" if step else "first"):
                self._stumble(scaler, optimiser, tensors)
            self._fill(tensors, gradients, step, scaler)
            (scaler.step if scaler else lambda target: target.step())(optimiser)
            if scaler:
                scaler.update()
        results = []  # each parameter, and by name what the optimiser keeps of it
        for tensor in tensors:
            state = optimiser.state.get(tensor, {})
            results += [tensor, *(state[name] for name in sorted(state) if torch.is_tensor(state[name]))]
        return [tensor.detach().clone() for tensor in results]

    def _fill(self, tensors: Tensors, gradients: Tensors, step: int, scaler: Any) -> None:
        """Set gradients, of another size and sign in each step; of a scaled loss where there is a scaler."""
        if scaler:
            scaler.scale(torch.zeros((), device=tensors[0].device))  # lets it make its own tensors on the device
        for tensor, gradient in zip(tensors, gradients, strict=True):
            times = (1 + step % 3) * (-1) ** (step // 2) * (scaler.get_scale() if scaler else 1)
            made = torch.empty_like(tensor).copy_(gradient * times).detach()
            tensor.grad = twice(made, made.dim() - 1) if self.how.get("sparse") else made

    def _stumble(self, scaler: Any, optimiser: torch.optim.Optimizer, tensors: Tensors) -> None:
        """Meet an infinite gradient, which halves the scale and moves nothing."""
        before = scaler.get_scale()
        scaler.scale(torch.zeros((), device=tensors[0].device))
        for tensor in tensors:
            tensor.grad = torch.ones_like(tensor)
        tensors[0].grad[0] = torch.inf  # type: ignore[index]
        scaler.step(optimiser)
        scaler.update()
        if scaler.get_scale() != before / 2:
            raise RuntimeError(f"an infinite gradient left the scale at {scaler.get_scale()}")


def _documented(make: Any) -> Relation:
    """Compare an optimiser's defaults with its documentation, and its settings with what it was given."""
    documented = {}
    for name, text in _DOCUMENTED.findall(make.__doc__ or ""):
        try:
            documented[name] = ast.literal_eval(text.strip("` "))
        except (ValueError, SyntaxError):
            continue
    names = sorted(documented.keys() & _defaults(make).keys())

    def numbers(options: Mapping[str, Any]) -> list[torch.Tensor]:
        values = [options[name] for name in names if isinstance(options[name], bool | int | float | tuple)]
        plain = tree_map(lambda leaf: math.nan if leaf is None else leaf, values)
        return [torch.tensor(value, dtype=torch.float64) for value in plain]

    halves = {name: value / 2 if isinstance(value, float) else value // 2 for name, value in documented.items()
              if name in names and type(value) in (int, float)}  # fmt: skip

    def kept(_: torch.Tensor) -> list[torch.Tensor]:
        made = make([torch.zeros(1, requires_grad=True)], **halves).param_groups[0]
        return [*numbers(_defaults(make)), *(torch.tensor(made[name], dtype=torch.float64) for name in halves)]

    def expected(_: torch.Tensor) -> list[torch.Tensor]:
        return [*numbers(documented), *(torch.tensor(value, dtype=torch.float64) for value in halves.values())]

    code = f"first, second = operator([torch.zeros(1, requires_grad=True)]).defaults, {documented}"
    return Relation("as documented", (torch.zeros(1),), {}, kept, expected, code, exact=True)


def _settled(point: OperatorPoint) -> Iterator[Relation]:
    """Yield that a quadratic form's minimum is found, from afar and from near, with a line search and without."""
    form = torch.diag(torch.arange(1.0, 10.0)).add_(0.25).to(point.device)
    for search, away in ((None, 2.0), (None, 0.02), ("strong_wolfe", 2.0)):

        def minimum(start: torch.Tensor, form: torch.Tensor, search: Any = search) -> torch.Tensor:
            leaf = start.clone().requires_grad_()
            exact: dict[str, Any] = {"max_iter": 60, "tolerance_grad": 0.0, "tolerance_change": 0.0}
            optimiser = torch.optim.LBFGS([leaf], lr=1.0 if search else 0.5, line_search_fn=search, **exact)

            def loss() -> torch.Tensor:
                leaf.grad = form @ leaf.detach()
                return leaf.detach() @ leaf.grad / 2

            optimiser.step(loss)  # type: ignore[no-untyped-call]
            return leaf.detach()

        start = torch.linspace(-away, away, 9, device=point.device)
        code = "# sixty steps of torch.optim.LBFGS on x' A x / 2, whose minimum is at 0\nfirst = second = None"
        says = f"from {away:g} away{', with a line search' if search else ''}"
        yield Relation(says, (start, form), {}, minimum, lambda x, _: torch.zeros_like(x), code, floor=1e-4)

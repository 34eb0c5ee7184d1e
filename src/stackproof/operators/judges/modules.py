"""A module is its function: what a class of torch.nn gives under each of its options is what the function of that name gives.

Which function, which arguments and what else an option may be is read from names, signatures and documentation, so that a new class
needs no line here; the tables hold what these do not say.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cache, partial
from itertools import islice
from typing import Any

import torch
from torch.nn import functional

from stackproof.operators.compute import placed
from stackproof.operators.database import load, samples
from stackproof.operators.judges import layers
from stackproof.operators.judges.references import around
from stackproof.operators.points import OperatorPoint, member
from stackproof.operators.relation import Relation, with_gradients

WHAT = "a module is its function"
DTYPES = (torch.float32, torch.float64)
_ALIASES = {
    "bceloss": "binary_cross_entropy",
    "bcewithlogitsloss": "binary_cross_entropy_with_logits",
    "upsample": "interpolate",
}
_PADDED = {
    "Reflection": "reflect",
    "Replication": "replicate",
    "Circular": "circular",
    "Zero": "constant",
    "Constant": "constant",
}
_SHAPED: Mapping[str, tuple[dict[str, Any], tuple[int, ...]]] = {
    "Fold": ({"output_size": (4, 5), "kernel_size": (2, 3)}, (2, 12, 9)),
    "FeatureAlphaDropout": ({}, (3, 8, 5)),
    "FractionalMaxPool2d": ({"kernel_size": 2, "output_size": (3, 4)}, (2, 3, 8, 9)),
    "FractionalMaxPool3d": ({"kernel_size": 2, "output_size": 3}, (2, 3, 8, 9, 7)),
    **{f"Dropout{sides}d": ({}, (3, 8, *[3] * sides)) for sides in (1, 2, 3)},
}
"""Where torch has neither samples of the module nor of the function."""
_PLACES = ("device", "dtype", "size_average", "reduce")
"""No options, or no longer."""
Case = tuple[dict[str, Any], tuple[Any, ...], dict[str, Any]]
"""Options of the constructor, and what the module is called with."""


@cache
def _functions() -> Mapping[str, str]:
    """Return the functions by their names without underscores."""
    named = {
        name.replace("_", ""): name
        for name in dir(functional)
        if "_" not in (name[0], name[-1]) and callable(getattr(functional, name))
    }
    return {**named, **_ALIASES}


def _function(kind: Any) -> str:
    """Return the function's name: that of the class or of one that it stands under, perhaps without its dimensions or `Loss`."""
    for base in kind.__mro__:
        if re.fullmatch(r"\w+Pad(\d|N)d", base.__name__):
            return "pad"
        full = base.__name__.lower()
        for name in (full, full.removesuffix("loss"), re.sub(r"\dd$", "", full)):
            if name in _functions():
                return _functions()[name]
    return ""


def _parameters(function: str) -> list[str]:
    """Return a function's arguments; of two that a flag chooses between, those of one; builtin ones have them in their documentation."""
    called = getattr(functional, function)
    with suppress(TypeError):
        called = inspect.getclosurevars(called).nonlocals.get("if_false", called)
    with suppress(ValueError):
        return list(inspect.signature(called).parameters)
    head = re.match(r"\s*\w+\((.*?)\)\s*->", called.__doc__ or "", re.DOTALL)
    return re.findall(r"(\w+)\s*(?:=[^,]*)?(?:,|$)", head[1]) if head else []


@cache
def subjects() -> Mapping[str, Any]:
    """Return the classes that have a function."""
    kinds = [kind for kind in vars(torch.nn).values() if inspect.isclass(kind) and issubclass(kind, torch.nn.Module)]
    return {kind.__name__: kind for kind in kinds if _function(kind) and not kind.__name__.startswith("Lazy")}


def _cases(point: OperatorPoint) -> Iterator[Case]:
    """Yield calls: torch's own of the module, or those of its function, whose arguments are the constructor's by name."""
    listed, kind, function = layers.subjects().get(point.name), point.op, _function(point.op)
    signature = inspect.signature(kind)
    if listed:
        for case in layers.calls(listed, point.dtype, training=True):
            bound = signature.bind(*case.constructor_input.args, **case.constructor_input.kwargs).arguments
            yield dict(bound), tuple(case.forward_input.args), dict(case.forward_input.kwargs)
        return
    if point.name in _SHAPED:
        options, shape = _SHAPED[point.name]
        yield dict(options), (point.numbers(shape).cpu(),), {}
    names, taken = _parameters(function), list(inspect.signature(kind.forward).parameters)
    for op in (op for op in load().values() if op.name == f"nn.functional.{function}"):
        for sample in islice(samples(op, point.dtype, False), 12):
            given = dict(zip(names, (sample.input, *sample.args), strict=False)) | sample.kwargs
            if "embedding_dim" in signature.parameters:  # the database has the matrix first
                given |= {"input": sample.args[0], "_weight": sample.input}
                given |= dict(zip(("num_embeddings", "embedding_dim"), sample.input.shape, strict=True))
            options = {name: value for name, value in given.items() if name in signature.parameters}
            yield options, tuple(given[name] for name in taken if isinstance(given.get(name), torch.Tensor)), {}


def relations(point: OperatorPoint) -> Iterator[Relation]:
    """Yield some calls in training and in evaluation, and one of them with each option away from its default."""
    if not point.on_host and member("asserts on cards", point.name):
        return
    usable, cases = [], list(islice(_cases(point), 60))
    for options, inputs, named in point.draw.sample(cases, min(len(cases), 8)):
        with suppress(Exception):
            usable.append(_Call(point, options, *placed((inputs, named), point.device)))
    for call in usable[:3]:
        yield call.relation("as its function")
        yield call.relation("as its function, in evaluation", training=False)
    if usable:
        yield from _options(point, usable[-2:])


def _options(point: OperatorPoint, calls: list[Any]) -> Iterator[Relation]:
    """Yield each option away from its default on top of those before it, which may be what lets it matter, or alone."""
    text = f"{point.op.__doc__} {getattr(functional, _function(point.op)).__doc__}"
    for call in calls:
        together = call
        for name, parameter in inspect.signature(point.op).parameters.items():
            if parameter.default is inspect.Parameter.empty or name.startswith("_") or name in _PLACES:
                continue
            values = _others(parameter, text, call)
            found = next(filter(None, (_differing(base, name, values) for base in dict.fromkeys((together, call)))), [])
            if name == "inplace":  # changes no result
                bases = dict.fromkeys((together, call))
                found = [_Call(point, {**base.options, name: True}, base.inputs, base.named) for base in bases]
            training = name != "inplace"  # in place a card's kernel may draw other numbers from one seed
            yield from (other.relation(f"with {name}={other.shown(name)}", training) for other in found)
            together = found[-1] if found else together


def _differing(call: Any, name: str, values: list[Any]) -> list[Any]:
    """Return the calls with each word for an option that both take, or with the first other value that changes the result."""
    found: list[Any] = []
    for value in values:
        if not found or isinstance(value, str):
            with suppress(Exception):
                other = _Call(call.point, {**call.options, name: value}, call.inputs, call.named)
                same = len(other.results) == len(call.results) and all(map(torch.equal, other.results, call.results))
                found += [other] * (isinstance(value, str) or not same)
    return found


def _others(parameter: inspect.Parameter, text: str, call: Any) -> list[Any]:
    """Return what an option may be instead: words of the documentation, other numbers, weights of a class where it is none."""
    match default := parameter.default:
        case bool():
            return [not default]
        case str():
            return [word for word in dict.fromkeys(re.findall(r"['\"`](\w+)['\"`]", text)) if word != default]
        case int() | float():
            sides = re.search(r"(\d)d", call.point.name)
            each = [tuple(default + 1 + side for side in range(int(sides[1])))] if sides else []
            return [*each, default + 1, default + 0.25, default / 4, default * 2 + 2, 2, 3, 0]
        case None:
            shape = next((leaf.shape for leaf in call.inputs if isinstance(leaf, torch.Tensor)), ())
            weights = [torch.linspace(0.25, 2, size).to(call.inputs[0]) for size in {*shape[1:2], *shape[-1:]}]
            return [True, False] if "bool" in str(parameter.annotation) else [*weights, 2, 3, 1, 0.75]
    return []


def _seed(device: torch.device) -> None:
    """Seed the device's generator alone: `torch.manual_seed` asks every kind of card in turn."""
    torch.default_generator.manual_seed(7)
    getattr(getattr(torch, device.type), "manual_seed", lambda _: None)(7)


class _Call:
    """One call of a module and of its function.

    Raises:
        Exception: whatever the constructor or the function raises: there is nothing to compare.
    """

    def __init__(
        self, point: OperatorPoint, options: dict[str, Any], inputs: tuple[Any, ...], named: dict[str, Any]
    ) -> None:
        self.point, self.options, self.inputs, self.named = point, options, inputs, named
        _seed(point.device)
        self.layer = point.op(**options).to(point.device, point.dtype)
        named_parts = {**dict(self.layer.named_parameters()), **dict(self.layer.named_buffers())}
        self.state = {name: part.detach() for name, part in named_parts.items()}
        for name, part in self.state.items():
            if part.is_floating_point():
                drawn = point.numbers(tuple(part.shape))
                self.state[name] = drawn if name in dict(self.layer.named_parameters()) else drawn.abs() + 0.5
        self.function = _function(point.op)
        self.backward = True
        try:
            self.results = self.way(self.as_function)(self.state, *inputs, **named)
        except (RuntimeError, NotImplementedError):
            self.backward = False
            self.results = self.way(self.as_function)(self.state, *inputs, **named)

    def shown(self, name: str) -> str:
        """Return what an option is."""
        value = self.options[name]
        return f"{tuple(value.shape)} numbers" if isinstance(value, torch.Tensor) else repr(value)

    def relation(self, says: str, training: bool = True) -> Relation:
        """Compare both, with what they write into buffers."""
        arguments = (self.state, *self.inputs)
        code = f"# {self.layer!r} against torch.nn.functional.{self.function} with its options\nfirst = second = None"
        first, second = (self.way(partial(way, training=training)) for way in (self.as_module, self.as_function))
        floor = 64 * torch.finfo(self.point.dtype).eps
        return Relation(says, arguments, self.named, first, second, code, ulps=64.0, floor=floor)

    def way(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """Return a call from a state and inputs to results, buffers and gradients."""
        kept = dict(self.layer.named_buffers())

        def run(state: Mapping[str, torch.Tensor], *inputs: Any, **named: Any) -> Any:
            own = {name: part.detach().clone() if name in kept else part.clone() for name, part in state.items()}
            _seed(self.point.device)
            inputs = tuple(x.clone() if isinstance(x, torch.Tensor) else x for x in inputs)
            return [call(own, *inputs, **named), *(own[name] for name in kept if name != "num_batches_tracked")]

        return with_gradients(run, self.backward)

    def as_module(self, state: Mapping[str, torch.Tensor], *inputs: Any, training: bool, **named: Any) -> Any:
        """Call the module with this state."""
        return torch.func.functional_call(self.layer.train(training), dict(state), inputs, named)

    def as_function(self, state: Mapping[str, torch.Tensor], *inputs: Any, training: bool = True, **named: Any) -> Any:
        """Call the function with what the constructor was given, by name, and this state."""
        layer: Any = self.layer.train(training)
        names, taken = _parameters(self.function), list(inspect.signature(layer.forward).parameters)
        places = [
            names[0],
            *(name if name in names else names[at] for at, name in enumerate(taken[1:], 1) if at < len(inputs)),
        ]
        named = {**dict(zip(places, inputs, strict=True)), **named}
        bound = inspect.signature(self.point.op).bind(**self.options)
        bound.apply_defaults()
        given: dict[str, Any] = {}
        for name in (name for name in names if name not in named and name != "inplace"):
            if name.replace("_", ".") in state:
                given[name] = state[name.replace("_", ".")]
            elif name in layer._parameters or name in layer._buffers:
                given[name] = state.get(name)
            elif name in bound.arguments:
                given[name] = bound.arguments[name]
            elif name == "use_input_stats" or (name == "training" and "running_mean" in names):
                given[name] = training or layer.running_mean is None
            elif name == "mode" and self.function == "pad":
                given[name] = _PADDED[re.match(r"[A-Z][a-z]+", self.point.name)[0]]  # type: ignore[index]
            elif name == "pad":
                given[name] = layer.padding
            elif hasattr(layer, name):
                given[name] = getattr(layer, name)
        key, first = names[0], inputs[0]
        single = "use_input_stats" in names and first.dim() == layer._get_no_batch_dim()
        named[key] = first[None] if single else first
        if bound.arguments.get("padding_mode", "zeros") != "zeros":
            reach = [step * (size - 1) for step, size in zip(layer.dilation, layer.kernel_size, strict=True)]
            edges = around(bound.arguments["padding"], reach)
            named[key], given["padding"] = functional.pad(first, edges, bound.arguments["padding_mode"]), 0
        result = getattr(functional, self.function)(**{**given, **named})
        return result[0] if single else result

"""Layers of torch.nn in their modes: without gradients as with them, which fast paths tell apart, and masks of either kind."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from typing import Any

import torch
from torch.nn.utils.stateless import _reparametrize_module

from stackproof.operators.compute import placed
from stackproof.operators.database import REFERENCE, isolated, seed
from stackproof.operators.networks import LAYERS, DefinedLayer
from stackproof.operators.points import LAYOUTS, OperatorPoint
from stackproof.operators.relation import Relation, numeric, tracked, with_gradients

WHAT = "a layer in its modes"
DTYPES = (torch.float32, torch.float64)


@cache
def subjects() -> Mapping[str, Any]:
    """Return torch's own database of layers by the names of their classes, and layers that have a definition here."""
    with isolated():
        from torch.testing._internal.common_modules import module_db
    listed = {info.module_cls.__name__: info for info in module_db}
    return {**{name: info for name, info in listed.items() if not name.startswith(("Fractional", "Lazy"))}, **LAYERS}


def calls(info: Any, dtype: torch.dtype, training: bool = False) -> list[Any]:
    """Return what the database makes a layer from, and calls it with."""
    seed()
    made = info.module_inputs_func(info, str(REFERENCE), dtype, requires_grad=False, training=training)
    return [case for case in made if case.forward_input]


def relations(point: OperatorPoint) -> Iterator[Relation]:
    """Yield a few of a layer's inputs; they are the same in every run, and on every device."""
    if isinstance(point.op, DefinedLayer):
        yield from _against_definition(point, point.op)
        return
    inputs = calls(point.op, point.dtype)
    masked = point.name.startswith(("Transformer", "Multihead"))
    for each in point.draw.sample(inputs, min(len(inputs), 14 if masked else 3)):
        torch.manual_seed(3)
        made, options = each.constructor_input, {**each.constructor_input.kwargs}
        options |= {"dropout": 0.0} if "dropout" in options else {}
        try:
            layer = point.op.module_cls(*made.args, **options).to(point.device, point.dtype).eval()
        except TypeError:
            continue
        for part in layer.modules():
            if isinstance(part, torch.nn.Dropout):
                part.p = 0.0
            if isinstance(part, torch.nn.MultiheadAttention):
                part.dropout = 0.0
        arguments, named = placed((tuple(each.forward_input.args), dict(each.forward_input.kwargs)), point.device)
        if each.reference_fn:
            yield _defined(point.dtype, layer, each, arguments, named)
        running = getattr(layer, "running_mean", None) is not None and "Batch" in point.name
        if running and arguments[0].numel():
            yield from (_statistics(layer, momentum, arguments) for momentum in (layer.momentum, None))
        yield from _modes(point, layer, arguments, named)


def _defined(dtype: torch.dtype, layer: torch.nn.Module, each: Any, inputs: Any, named: dict[str, Any]) -> Relation:
    """Compare with the database's own reference on the host, which is given the layer for its options and its parameters."""
    twin = copy.deepcopy(layer).to(REFERENCE, torch.float64)

    def reference(*arguments: Any, **options: Any) -> Any:
        arguments, options = placed((arguments, options), REFERENCE)
        return each.reference_fn(twin, *arguments, **options)

    floor = 16 * torch.finfo(dtype).eps  # terms of size one cancel
    how: dict[str, Any] = {"ulps": 512.0, "floor": floor, "widened": True}
    return Relation("as it is defined", tuple(inputs), named, layer, reference, **how)


def _statistics(layer: torch.nn.Module, momentum: float | None, inputs: Any) -> Relation:
    """Compare running statistics with their definition: by the momentum, or the mean over all batches where there is none."""

    def kept(*batches: torch.Tensor) -> list[Any]:
        twin: Any = copy.deepcopy(layer).train()
        twin.reset_running_stats()
        twin.momentum = momentum
        for batch in batches:
            twin(batch)
        result = twin.eval()(batches[0])
        return [result, twin.running_mean, twin.running_var, twin.num_batches_tracked]

    def defined(*batches: torch.Tensor) -> list[Any]:
        own: Any = copy.deepcopy(layer).double()
        mean: Any = 0.0
        variance: Any = 1.0
        axes = [0, *range(2, batches[0].dim())]
        for turn, batch in enumerate(batches, 1):
            share = 1 / turn if momentum is None else momentum
            mean, variance = mean + share * (batch.mean(axes) - mean), variance + share * (batch.var(axes) - variance)
        form = (1, -1, *[1] * (len(axes) - 1))
        result = (batches[0] - mean.view(form)) / (variance.view(form) + own.eps).sqrt()
        result = result if own.weight is None else result * own.weight.view(form) + own.bias.view(form)
        return [result, mean, variance, torch.tensor(len(batches))]

    batches = tuple(inputs[0] * turn + turn for turn in range(1, 13))
    code = f"# twelve batches through {layer!r} in training, and the first in evaluation\nfirst = second = None"
    says = f"statistics of twelve batches, momentum {momentum}"
    return Relation(says, batches, {}, kept, defined, code, ulps=512.0, widened=True)


def _against_definition(point: OperatorPoint, made: DefinedLayer) -> Iterator[Relation]:
    """Yield results and gradients of what is given and of every parameter, and results without gradients."""
    layer = made.make().to(point.device, point.dtype)
    state = {name: point.numbers(tuple(value.shape)) / 2 for name, value in layer.state_dict().items()}
    inputs = tuple(point.numbers(shape) for shape in made.shapes)

    def called(layer: torch.nn.Module, state: Mapping[str, torch.Tensor], *inputs: Any) -> Any:
        with _reparametrize_module(layer, dict(state)):
            return made.call(layer, *inputs)

    floor = 16 * torch.finfo(point.dtype).eps  # terms of size one cancel
    for says, backward in (("as it is defined", True), ("without gradients", False)):
        mode = copy.deepcopy(layer).train(
            layer.training and backward
        )  # cuDNN differentiates recurrent layers in training only
        first, second = (with_gradients(way, backward) for way in (partial(called, mode), made.define))
        yield Relation(says, (state, *inputs), {}, first, second, ulps=512.0, floor=floor, widened=True)


def _modes(point: OperatorPoint, layer: torch.nn.Module, inputs: Any, named: dict[str, Any]) -> Iterator[Relation]:
    """Yield results, and what a layer keeps, without gradients and of other layouts."""
    norms = any(isinstance(part, torch.nn.modules.batchnorm._NormBase) for part in layer.modules())

    def called(
        *arguments: Any, within: Any = torch.no_grad, lay: Any = None, training: bool = False, **options: Any
    ) -> Any:
        own = (copy.deepcopy(layer) if norms else layer).train(training)
        with within():
            result = own(*(lay(leaf) if lay and numeric(leaf) else leaf for leaf in arguments), **options)
        return [result, *own.buffers()]

    def slow(*arguments: Any, **options: Any) -> Any:
        return called(*tracked(arguments), within=torch.enable_grad, **options)

    shown = f"layer = {point.path}: {layer!r}".replace("\n", " ")[:200]
    code = f"# {shown}\nwith torch.no_grad():\n    first = layer(*arguments, **options)\nsecond = layer(*arguments, **options)"
    ways: dict[str, Callable[..., Any]] = {
        "without gradients": called,
        "in inference mode": partial(called, within=torch.inference_mode),
    }
    if not norms:
        ways["in training"] = partial(called, training=True)
    for training in (False, True) if norms else (False,):
        moved: dict[str, Callable[..., Any]] = {says: partial(called, lay=lay) for says, (lay, _) in LAYOUTS.items()}
        for says, way in [*(ways.items() if training else ()), *moved.items()]:
            first, second = (partial(call, training=training) for call in (way, slow))
            words = f"{says}{', in training' * training}"
            yield Relation(words, tuple(inputs), named, first, second, code, ulps=1024.0)
    square = inputs and numeric(inputs[0]) and inputs[0].dim() == 3
    encoder = isinstance(layer, torch.nn.TransformerEncoderLayer | torch.nn.TransformerEncoder)
    for marked, options in (("", named), *(_masks(layer, inputs[0]) if square and encoder else ())):
        for says, way in ways.items():
            yield Relation(says + marked, tuple(inputs), options, way, slow, code, ulps=1024.0)
        if options is not named and options.get("is_causal"):
            plain = {key: value for key, value in options.items() if key != "is_causal"}

            def hinted(*arguments: Any, **rest: Any) -> Any:
                return slow(*arguments, **rest, is_causal=True)

            both = code.replace("**options)", "**options, is_causal=True)", 1)
            yield Relation("a causal hint beside a mask", tuple(inputs), plain, hinted, slow, both, ulps=1024.0)


def _masks(layer: torch.nn.Module, sequences: torch.Tensor) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield masks of both kinds for an encoder: some numbers hidden, a row of numbers that are added, a causal hint beside another mask."""
    first = next(part for part in layer.modules() if isinstance(part, torch.nn.MultiheadAttention))
    batch, length = sequences.shape[:2] if first.batch_first else (sequences.shape[1], sequences.shape[0])
    name = "src_mask" if isinstance(layer, torch.nn.TransformerEncoderLayer) else "mask"
    upper = torch.ones(length, length, device=sequences.device).triu(1).bool()
    added = torch.zeros(length, length, dtype=sequences.dtype, device=sequences.device).masked_fill(upper, -torch.inf)
    padded = torch.zeros(batch, length, dtype=torch.bool, device=sequences.device)
    padded[0, length // 2 + 1 :] = True
    floats = torch.zeros(batch, length, dtype=sequences.dtype, device=sequences.device).masked_fill(padded, -torch.inf)
    everything = torch.zeros_like(floats).fill_(0.5)
    yield ", a mask of truth values", {name: upper}
    yield ", a mask of floats", {name: added}
    yield ", padding of truth values", {"src_key_padding_mask": padded}
    yield ", padding of floats", {"src_key_padding_mask": floats}
    yield ", padding of finite floats", {"src_key_padding_mask": everything}
    yield ", both of floats", {name: added, "src_key_padding_mask": floats}
    yield ", a hint that is not so", {name: added.T.contiguous(), "is_causal": True}

"""As it is defined: every operator against what torch decomposes it into, and a function against torch's reference for it."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import combinations, count, islice
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten

from stackproof.operators.compute import placed
from stackproof.operators.database import REFERENCE
from stackproof.operators.oracles import Decomposed
from stackproof.operators.points import OperatorPoint, member
from stackproof.operators.relation import Relation, UnusableError, detached, elements_of, numeric, with_gradients

WHAT = "as it is defined"
DTYPES = (torch.float32, torch.float64, torch.complex128, torch.int64, torch.bool)
_PAIRS = 10
_LADDER, _MOST = (1, 3, 5, 6, 8, 9, 17, 33, 65, 129, 257, 513, 1027), 40_000
"""Sizes, and numbers that a tensor has at most."""
_CODE = """from stackproof.operators.oracles import Decomposed
first = operator(*arguments, **options)
with Decomposed():
    second = operator(*arguments, **options)"""


def attention(
    q: Any, k: Any, v: Any, attn_mask: Any = None, dropout_p: float = 0.0, is_causal: bool = False, scale: Any = None,
    enable_gqa: bool = False,
) -> Any:  # fmt: skip
    """As in https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html, without dropout.

    Raises:
        UnusableError: it would drop numbers at random, or is masked twice, which is documented as an error.
    """
    if dropout_p or (is_causal and attn_mask is not None):
        raise UnusableError("is random, or masked twice")
    if enable_gqa:
        k, v = (tensor.repeat_interleave(q.shape[-3] // tensor.shape[-3], -3) for tensor in (k, v))
    scores = q @ k.mT * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    mask = torch.ones(scores.shape[-2:], device=q.device).tril() > 0 if is_causal else attn_mask
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype is torch.bool else scores + mask
    return scores.softmax(-1) @ v


def _bag(
    weight: Any,
    indices: Any,
    offsets: Any = None,
    *,
    mode: str = "mean",
    padding_idx: Any = None,
    per_sample_weights: Any = None,
    **more: Any,
) -> Any:
    if more.get("max_norm") is not None:
        raise UnusableError("has another definition")
    if offsets is not None and more.get("include_last_offset"):
        indices, offsets = indices[: offsets[-1]], offsets[:-1]
        per_sample_weights = None if per_sample_weights is None else per_sample_weights[: len(indices)]
    if offsets is not None:
        places = torch.bucketize(torch.arange(len(indices), device=indices.device), offsets, right=True) - 1
        count = len(offsets)
    else:
        count, length = indices.shape
        places = torch.arange(count, device=indices.device).repeat_interleave(length)
    index = indices.reshape(-1)
    shares = weight.new_ones(len(index)) if per_sample_weights is None else per_sample_weights.reshape(-1)
    if padding_idx is not None:
        shares = shares * (index != padding_idx % len(weight))
    total = (places == torch.arange(count, device=indices.device)[:, None]).to(weight.dtype) * shares
    if mode == "max":
        chosen = total[..., None] != 0
        return weight[index].where(chosen, -torch.inf).amax(1).where(chosen.any(1), 0)
    return total @ weight[index] / (total.sum(1, keepdim=True).clamp(min=1) if mode == "mean" else 1)


def around(padding: Any, reach: list[int]) -> list[int]:
    """Return what is put before and behind each side, the last first, where a kernel reaches so far."""
    edges = [0] * len(reach) if padding == "valid" else [padding] * len(reach) if isinstance(padding, int) else padding
    pairs = zip(edges, edges, strict=True) if padding != "same" else [(span // 2, span - span // 2) for span in reach]
    return [edge for pair in reversed([*pairs]) for edge in pair]


def _convolved(
    x: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Any:
    """Correlate (N, C, ...) with (K, C / groups, ...), which is what deep learning calls a convolution."""
    sides = weight.dim() - 2
    steps, gaps = (
        [size] * sides if isinstance(size, int) else list(size) * (sides // len(size)) for size in (stride, dilation)
    )
    reach = [gap * (size - 1) for gap, size in zip(gaps, weight.shape[2:], strict=True)]
    whole = torch.nn.functional.pad(x if x.dim() == weight.dim() else x[None], around(padding, reach))
    for dim, (step, gap, span) in enumerate(zip(steps, gaps, reach, strict=True), 2):
        whole = whole.unfold(dim, span + 1, step)[..., ::gap]
    parts = zip(whole.chunk(groups, 1), weight.chunk(groups, 0), strict=True)
    axes = [1, *range(sides + 2, 2 * sides + 2)]
    result = torch.cat([torch.tensordot(part, kernel, (axes, [*range(1, sides + 2)])) for part, kernel in parts], -1)
    result = (result if bias is None else result + bias).movedim(-1, 1)
    return result if x.dim() == weight.dim() else result[0]


def _searched(
    line: Any, values: Any, *, right: bool = False, side: Any = None, sorter: Any = None, out_int32: bool = False
) -> Any:
    line = (line if sorter is None else line.gather(-1, sorter))[..., None, :]
    if bool((line.diff() < 0).any()):
        raise UnusableError("is not in order")
    before = line <= values[..., None] if right or side == "right" else line < values[..., None]
    return before.sum(-1, dtype=torch.int32 if out_int32 else torch.int64).reshape(values.shape)


def _interleaved(x: Any, repeats: Any, dim: int | None = None, **_: Any) -> Any:
    x, place = (x, dim) if dim is not None and x.dim() else (x.flatten(), 0)
    counts = torch.as_tensor(repeats).expand(x.shape[place]).tolist()
    index = [n for n, count in enumerate(counts) for _ in range(count)]
    return x.index_select(place, torch.tensor(index, dtype=torch.int64, device=x.device))


def _embedded(
    weight: Any, index: Any, *, padding_idx: Any = None, scale_grad_by_freq: bool = False, **more: Any
) -> Any:
    if more.get("max_norm") is not None:
        raise UnusableError("has another definition")
    shares = weight.new_ones(index.shape)
    if padding_idx is not None:
        shares = shares * (index != padding_idx % len(weight))
    if scale_grad_by_freq:
        shares = shares / index.flatten().bincount()[index]
    rows = weight[index]
    return rows.detach() + (rows - rows.detach()) * shares[..., None]  # which are of the gradient alone


_WRITTEN: Mapping[str, Callable[..., Any]] = {
    "nn.functional.linear": lambda x, weight, bias=None: x @ weight.mT + (0 if bias is None else bias),
    **{f"nn.functional.conv{sides}d": _convolved for sides in (1, 2, 3)},
    "nn.functional.scaled_dot_product_attention": attention,
    "nn.functional.embedding_bag": _bag,
    "nn.functional.embedding": _embedded,
    "searchsorted": _searched,
    "repeat_interleave": _interleaved,
}
"""Where torch has none."""
_OTHER_GRADIENTS = {"nn.functional.embedding_bag"}
"""Whose gradient an option divides by how often a row is used."""


def definition(op: Any, name: str) -> Callable[..., Any] | None:
    """Return an operator's reference, which runs in the dtype that it is given."""
    if name in _WRITTEN or not name.startswith("nn.functional.") or op.variant_test_name:
        return _WRITTEN.get(name)
    import torch._refs.nn.functional  # takes a second, and only these need it

    return getattr(torch._refs.nn.functional, name.rpartition(".")[2], None)


def suits(name: str, _op: Any) -> bool:
    """Any operator but what is held by residuals: what nothing decomposes is found by asking."""
    return not any(member(group, name) for group in ("held by residuals", "about representation"))


def relations(point: OperatorPoint) -> Iterator[Relation]:
    """Yield drawn samples, the same with unusual numbers and shapes, and with options by pairs.

    On a card only functions are asked: the sweep's reference there is what this proves of the CPU.
    """
    narrow = point.dtype is torch.float32
    if not narrow and not point.on_host:
        return
    backward = point.dtype in point.op.supported_backward_dtypes(point.device.type)
    drawn = [(inputs, options) for inputs, options, _ in point.samples(24, backward)]
    alike = [call for call in drawn if len({leaf.dtype for leaf in tree_leaves(call) if numeric(leaf)}) < 2]
    calls = [call for call in alike if not call[1].get("dropout_p")]  # of several dtypes each rounds by its own
    if function := definition(point.op, point.name) if point.dtype is torch.float64 or not point.on_host else None:
        yield from _functions(point, function, calls, backward)
    if not point.on_host:
        return
    uneven = [call for call in calls[3:] if any(map(_uneven, (*call[0], *call[1].values())))]
    for call in (*calls[:3], *uneven[:6]) if not narrow else ():
        yield _decomposed(point, "as defined", *call, backward)
    if point.dtype is torch.float64:
        # where exponentials leave the range, which is that of both ways
        for says, args, options in (*(("", *call) for call in calls[:2]), *islice(_mixed(point, calls), 5)):
            inputs, named = tree_map(lambda leaf: leaf * 1000 if numeric(leaf) else leaf, detached((args, options)))
            yield _decomposed(point, f"as defined, a thousandfold, {says}", inputs, named, False, refusable=True)
    if not calls or not (narrow or point.dtype is torch.int64):
        return
    for place, (says, change) in enumerate(_CHANGES.items()):
        both = narrow and change not in _ABOUT_SHAPE
        for call in (calls[place % len(calls)], calls[-1 - place % len(calls)])[: 1 + both]:
            which = count()
            inputs, named = tree_map(lambda leaf: _changed(leaf, point.dtype, change, next(which)), call)  # noqa: B023
            smooth = backward and change is not _specials  # nobody says what a derivative is at NaN
            yield _decomposed(point, f"as defined, {says}", inputs, named, smooth, refusable=True)
    full = [call for call in calls if all(leaf.numel() for leaf in tree_leaves(call) if torch.is_tensor(leaf))]
    more = [*_resized(point, full), *(_mixed(point, full) if narrow else ())]
    bases = [*(("", *call) for call in full), *((f"{says}, ", *call) for says, *call in more)]
    for says, inputs, named in (*more, *(grown(point, bases) if narrow else ())):
        yield _decomposed(point, f"as defined, with {says}", inputs, named, backward, refusable=True)


def _resized(point: OperatorPoint, calls: list[Any]) -> Iterator[tuple[str, Any, dict[str, Any]]]:
    """Yield samples with another of Python's numbers: a shift beyond the size, a dimension, a count, a power."""
    for call in calls[:4]:
        leaves, spec = tree_flatten(call)
        if numbers := [place for place, leaf in enumerate(leaves) if type(leaf) in (int, float)]:
            place = point.draw.choice(numbers)
            number = leaves[place]
            other = 2 * number + 3 if type(number) is int else point.draw.choice((0.0, torch.inf, 2 * number + 0.25))
            leaves[place] = other
            yield f"{other} as a {'size' if type(number) is int else 'number'}", *tree_unflatten(leaves, spec)


def _mixed(point: OperatorPoint, calls: list[Any], most: int = _PAIRS) -> Iterator[tuple[str, Any, dict[str, Any]]]:
    """Yield samples with pairs of options as other samples have them or away from the signature's defaults."""
    pool = _pool(point, calls) if calls else {}
    pairs: list[tuple[str, ...]] = [*combinations(sorted(pool), 2)] or [(name,) for name in pool]
    for turn in range(most if pairs else 0):
        names = point.draw.choice(pairs)
        own = [call for call in calls if turn % 3 and call[1].keys() & set(names)]  # what fits only its own call stays
        inputs, named = point.draw.choice(own or calls)
        more = {name: point.draw.choice(pool[name]) for name in names if not (own and name in named)}
        more |= {name: point.draw.choice(pool[name]) for name in names[:1] if not more}
        says = ", ".join(name if torch.is_tensor(value) else f"{name}={value!r}" for name, value in more.items())
        yield says, tree_map(_rounded, inputs) if turn % 2 else inputs, {**named, **more}


def grown(
    point: OperatorPoint, calls: list[Any], count: int = 5, longest: int = 1027
) -> Iterator[tuple[str, Any, dict[str, Any]]]:
    """Yield samples with a size larger, or one, wherever it stands, in numbers too, or once; every other one transposed in memory."""
    for turn in range(count if calls else 0):
        says, *call = point.draw.choice(calls)
        tensors = [leaf for leaf in tree_leaves(call) if torch.is_tensor(leaf) and leaf.layout is torch.strided]
        sizes = sorted({size for leaf in tensors for size in leaf.shape if size > 1})
        few = _results(point, call)
        for size in point.draw.sample(sizes, len(sizes)):
            ways = [tensors, None, [tensors[point.draw.randrange(len(tensors))]]]
            order = point.draw.sample(ways, len(ways))
            made = (_taken(point, call, few, size, way, turn, longest) for way in order)
            if larger := next(filter(None, made), None):
                yield f"{says}{larger[0]}", *larger[1:]
                break


def _results(point: OperatorPoint, call: Any) -> int | None:
    """Return how many numbers a call gives; nothing if it is not taken."""
    inputs, named = call
    try:
        return elements_of(point.op(*inputs, **named))
    except Exception:
        return None


def _taken(
    point: OperatorPoint,
    call: Any,
    few: int | None,
    size: int,
    which: list[torch.Tensor] | None,
    turn: int,
    longest: int,
) -> tuple[str, Any, dict[str, Any]] | None:
    """Return the call with a size of these tensors larger, or of all and of numbers; nothing if it is not taken in twice the size."""
    tensors = [leaf for leaf in tree_leaves(call) if torch.is_tensor(leaf)]

    def sized(n: int) -> Any:
        def larger(leaf: Any) -> Any:
            if isinstance(leaf, torch.Tensor):
                chosen = which is None or any(leaf is one for one in which)
                return _larger(leaf, size, n, turn, alone=which is not None and len(which) == 1) if chosen else leaf
            return n if which is None and type(leaf) is int and leaf == size else leaf

        return tree_map(larger, call)

    if few is None or (more := _results(point, sized(2 * size))) is None:
        return None
    counts = [(leaf.numel(), float(leaf.shape.count(size))) for leaf in tensors]
    counts.append((few, math.log2(max(more, 1) / max(few, 1))))
    steps = [n for n in _LADDER if size < n <= longest or n == 1]
    larger = [n for n in steps if max(m * (n / size) ** power for m, power in counts) < _MOST]
    if not larger:
        return None
    n = larger[-1] if turn % 3 == 2 else point.draw.choice(larger)
    return f"{size} as {n}", *sized(n)


def _larger(leaf: torch.Tensor, size: int, larger: int, turn: int, alone: bool) -> torch.Tensor:
    """Return a tensor with its rows again and again, each time smaller."""
    if leaf.layout is not torch.strided:
        return leaf
    made, line = leaf.detach(), torch.arange(larger, device=leaf.device)
    dims = [dim for dim, length in enumerate(leaf.shape) if length == size]
    for dim in dims[-1:] if alone else dims:
        made = made.index_select(dim, line % size)
        if numeric(leaf):
            shares = (1 - (line // size) % 16 / 32).to(made.dtype)
            made = made * shares.reshape(-1, *[1] * (made.dim() - dim - 1))
    return made.mT.contiguous().mT if turn % 2 and made.dim() > 1 else made


def _rounded(leaf: Any) -> Any:
    return leaf.detach().round() if torch.is_tensor(leaf) and leaf.is_floating_point() else leaf


def _uneven(leaf: Any) -> bool:
    """Whether numbers of sides differ, so that one taken for another shows."""
    return isinstance(leaf, tuple) and all(type(side) is int for side in leaf) and len({*leaf}) > 1


def _lowered(leaf: Any) -> Any:
    """Return whole numbers of which the smallest is zero: counts and places."""
    return leaf - leaf.min() if torch.is_tensor(leaf) and leaf.dtype is torch.int64 and leaf.numel() else leaf


def _functions(
    point: OperatorPoint, function: Callable[..., Any], calls: list[Any], backward: bool
) -> Iterator[Relation]:
    code = f"# second: torch._refs.{point.name} or its definition, in float64\nfirst = second = operator(*arguments, **options)"
    backward = backward and point.on_host and point.name in _WRITTEN.keys() - _OTHER_GRADIENTS
    first, second = (with_gradients(way, backward) for way in (point.op, function))
    floor = 512 * torch.finfo(torch.float64).eps if backward else 0.0  # gradients cancel
    mixed = (
        _mixed(point, calls, 4 * _PAIRS if point.name in _WRITTEN.keys() - _OTHER_GRADIENTS else _PAIRS)
        if point.on_host
        else ()
    )  # on a card an index out of bounds ends the process
    lowered = tree_map(_lowered, calls) if point.on_host else ()
    for place, call in enumerate([*calls, *(call[1:] for call in mixed), *lowered]):
        inputs, named = detached(call)
        how: dict[str, Any] = {"ulps": 512.0, "floor": floor, "widened": True, "refusable": place >= len(calls)}
        yield Relation("as defined, in float64", inputs, named, first, second, code, **how)


def _decomposed(point: OperatorPoint, says: str, inputs: Any, named: Any, backward: bool, **more: Any) -> Relation:
    run = with_gradients(point.op, backward)

    def second(*arguments: Any, **options: Any) -> Any:
        arguments, options = placed((arguments, options), REFERENCE)
        if more.get("refusable"):
            # what the kernel refuses its decomposition may take, and a derivative then reads out of bounds
            point.op(*arguments, **options)
        with (mode := Decomposed()):
            results = run(*arguments, **options)
        if not mode.replaced:
            raise UnusableError("nothing decomposes it")
        return results

    floor = 512 * torch.finfo(point.dtype).eps if point.dtype.is_floating_point else 0.0  # terms of size one cancel
    how: dict[str, Any] = {"ulps": 512.0, "floor": floor, "widened": True}
    inputs, named = detached((tuple(inputs), named))
    return Relation(says, inputs, named, run, second, _CODE, **how, **more)


def _specials(leaf: torch.Tensor, which: int) -> torch.Tensor:
    line = leaf.detach().clone(memory_format=torch.contiguous_format).reshape(-1)
    specials = torch.tensor([torch.nan, torch.inf, -torch.inf, -0.0, 0.0, -1.0], device=leaf.device).to(leaf.dtype)
    places = torch.arange(0, len(line), 3, device=leaf.device)
    line[places] = specials[places // 3 * (which + 1) % 6]
    return line.reshape(leaf.shape)


def _one(leaf: torch.Tensor, _: int) -> torch.Tensor:
    return leaf[(slice(1),) * leaf.dim()].clone()


_CHANGES: Mapping[str, Callable[[torch.Tensor, int], torch.Tensor]] = {
    "of special numbers": _specials,
    "of whole numbers": lambda leaf, _: _rounded(leaf),
    "of other signs": lambda leaf, _: -leaf,
    "of zeros": lambda leaf, _: torch.zeros_like(leaf),
    "of one place": lambda leaf, _: torch.full_like(leaf, leaf.reshape(-1)[0].item()) if leaf.numel() else leaf,
    "of one number": _one,
    "of a number without dimensions": lambda leaf, which: (
        leaf if which or not leaf.numel() else _one(leaf, 0).reshape(())
    ),
    "of none": lambda leaf, _: leaf[:0].clone() if leaf.dim() else leaf,
}
_ABOUT_SHAPE = list(_CHANGES.values())[-3:]


def _changed(leaf: Any, dtype: torch.dtype, change: Callable[[torch.Tensor, int], torch.Tensor], which: int) -> Any:
    """Return a tensor of numbers changed, one of places cut alike."""
    if not isinstance(leaf, torch.Tensor) or leaf.layout is not torch.strided:
        return leaf
    places = leaf.dtype in (torch.int64, torch.bool) and (which or dtype is not leaf.dtype or change is _specials)
    wanted = places if change is _CHANGES["of one place"] else not places or change in _ABOUT_SHAPE
    return change(leaf.detach(), which) if wanted else leaf


_OTHERS: Mapping[type, Callable[[Any], Any]] = {
    bool: lambda x: not x, float: lambda x: 2 * x + 0.25, int: lambda x: x + 1 if x >= 0 else 1,
}  # fmt: skip
"""Than a default value."""
_ABOUT_FORM = ("inplace", "dtype", "out", "device", "layout", "requires_grad", "generator", "dropout_p")


def _pool(point: OperatorPoint, calls: list[Any]) -> dict[str, list[Any]]:
    """Return values of options by name: those that samples have, and others than the defaults that the signature has."""
    pool: dict[str, list[Any]] = {}
    for name, value in (item for _, named in calls for item in named.items()):
        pool.setdefault(name, []).append(value)
    for name, default, kind in _defaults(point.op):
        if type(default) in _OTHERS:
            pool.setdefault(name, []).append(_OTHERS[type(default)](default))
        elif default is None and any(word in kind.lower() for word in ("int", "float", "number", "scalar")):
            pool.setdefault(name, []).append(0.75 if "float" in kind else 3)
    distinct = {name: [*{repr(value): value for value in values}.values()] for name, values in pool.items()}
    return {name: values for name, values in distinct.items() if name not in _ABOUT_FORM}


def _defaults(op: Any) -> list[tuple[str, Any, str]]:
    """Return the parameters that have defaults: name, default and kind."""
    function: Any = torch
    for part in op.name.split("."):
        function = getattr(function, part, None)
    made: list[tuple[str, Any, str]] = []
    with suppress(ValueError, TypeError):
        parameters = inspect.signature(function or op.op).parameters.values()
        made = [(p.name, p.default, str(p.annotation)) for p in parameters if p.default is not p.empty]
    packet = getattr(torch.ops.aten, (op.aten_name or op.name).rpartition(".")[2], None)
    if made or not packet:
        return made
    schemas = [getattr(packet, overload)._schema for overload in packet.overloads()]
    arguments = [argument for schema in schemas for argument in schema.arguments if argument.has_default_value()]
    return [(argument.name, argument.default_value, str(argument.type)) for argument in arguments]

"""A relation: two ways to the same results from the same arguments, and whether they agree.

How far two correct ways may be apart is not tabled: it is what the second way itself does when each number of its arguments moves by a
unit in the last place, so that a jump, an overflow or an ill-conditioned sample excuses itself and a wrong result does not.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

from stackproof.base.text import error_line
from stackproof.operators.compute import placed, relocate
from stackproof.operators.database import REFERENCE
from stackproof.operators.repro import NotWritableError, literal

Route = Callable[..., Any]
_Results = dict[Any, torch.Tensor]
_MOVES = 6
"""In pairs of opposite ones, so that of two equal numbers each is once the larger."""
_MOST_TIES = 1000
WIDE_CODE = """widen = lambda x: x.to(torch.complex128 if x.is_complex() else torch.float64)
numbers = lambda x: torch.is_tensor(x) and (x.is_floating_point() or x.is_complex())
second = operator(*(widen(x) if numbers(x) else x for x in arguments), **options)"""
_WIDE = dict.fromkeys((torch.float32, torch.bfloat16, torch.float16), torch.float64) | {
    torch.complex64: torch.complex128
}


class UnusableError(Exception):
    """The trusted way does not take these arguments, so that there is nothing to compare with."""


class DrawnError(Exception):
    """The second way draws random numbers, so that there is nothing to compare with but the form."""


@dataclass(frozen=True)
class Relation:
    """One claim about one call.

    `first` may be wrong, `second` is what it has to agree with. Either takes the arguments and options. `code` leaves `first` and `second`
    where `operator`, `arguments` and `options` are names; `drawn` makes arguments that cannot be written out, or that are not `writable`.

    `ulps`, or `tolerance` if that is more, is relative and `floor` absolute; `elementwise`: to each number's own size, not to the largest.
    `whole`: the norm of all is what counts, that of the order of one where it is less than this.
    Beyond that goes `room` times what moved arguments do to the second way, or what `others` give: ways by number that widen themselves.
    `exact`: to the last bit. `form`: shapes and dtypes alone. `nonfinite`: places where one of both is not finite are as good.
    `widened`: the second way takes the same numbers in float64, and the first returns those or one of `dtypes` if there are any.
    `reducible`: fewer or plainer numbers may show a fault too. `private` results may have any form.
    `refusable`: the first way may raise; `required`: neither may, whatever it says.
    """

    says: str
    arguments: tuple[Any, ...]
    options: dict[str, Any]
    first: Route
    second: Route
    code: str = ""
    ulps: float = 64.0
    tolerance: float = 0.0
    floor: float = 0.0
    elementwise: bool = False
    exact: bool = False
    widened: bool = False
    refusable: bool = False
    required: bool = False
    whole: float = 0.0
    room: float = 16.0
    others: Callable[[int], Route] | None = None
    form: bool = False
    nonfinite: bool = False
    private: tuple[str, ...] = ()
    dtypes: tuple[torch.dtype, ...] = ()
    drawn: str = ""
    writable: bool = True
    reducible: bool = True

    def wrong(self) -> str:
        """Return what the first way gives that the second does not; empty if they agree.

        Raises:
            UnusableError: the second way raises.
        """
        arguments, options = _copied((self.arguments, self.options))
        dtypes = {getattr(leaf, "dtype", None) for leaf in tree_leaves((self.arguments, self.options))}
        if self.refusable or dtypes & {torch.int64, torch.int32}:  # which may be indices out of bounds
            refuse_on_host((self.second, self.first), self.arguments, self.options)
        if self.widened and not self.others:
            arguments, options = widened((arguments, options))
        try:
            expected = _outputs(self.second(*arguments, **options))
        except UnusableError:
            raise
        except Exception as error:
            if self.required:
                return f"raises {error_line(error, 150)}"
            raise UnusableError(error_line(error, 120)) from error
        arguments, options = _copied((self.arguments, self.options))
        try:
            actual = _outputs(self.first(*arguments, **options))
        except UnusableError:
            raise
        except Exception as error:
            absent = isinstance(error, NotImplementedError | TypeError) or any(
                text in str(error) for text in _UNSUPPORTED
            )
            excused = self.refusable or (absent and not self.required)
            return "" if excused else f"raises {error_line(error, 150)}"
        if odd := sorted(actual.keys() ^ expected.keys()):
            lacking = f" without {odd[0]}" if odd[0] in expected else f" with {odd[0]}"
            return f"gives {len(actual)} results instead of {len(expected)}{lacking}"
        bad = [name for name in expected if self._apart(name, actual, expected, ())]
        if not bad or self.exact:
            return "".join(self._apart(name, actual, expected, ()) for name in bad[:1])
        try:
            chosen = any(not (expected[name].is_floating_point() or expected[name].is_complex()) for name in bad)
            others = list(self._others(_MOVES * (4 if chosen else 1)))  # among equals there are many orders
        except DrawnError:
            drawn = [name for name in bad if actual[name].isfinite().all() or not expected[name].isfinite().all()]
            shaped = replace(self, form=True)
            messages = ((shaped if name in drawn else self)._apart(name, actual, expected, ()) for name in bad)
            return next(filter(None, messages), "")
        return next(filter(None, (self._apart(name, actual, expected, others) for name in bad)), "")

    def _apart(self, name: Any, actual: _Results, expected: _Results, others: Sequence[_Results]) -> str:
        if name in self.private and actual[name].shape != expected[name].shape:
            return ""
        wrong = apart(actual[name], expected[name], self, [other[name] for other in others if name in other])
        return f"{wrong} in {name}" if wrong and isinstance(name, str) else wrong

    def _others(self, moves: int) -> Iterator[_Results]:
        """Yield the second way's results from arguments each of whose numbers moved by a unit in the last place."""
        numbers = filter(numeric, tree_leaves((self.arguments, self.options)))
        eps = max((torch.finfo(leaf.dtype).eps for leaf in numbers), default=0.0)
        for draw in range(moves + bool(self.others)):
            arguments, options = _copied((self.arguments, self.options))
            if not self.others:
                tree = (arguments, options)
                arguments, options = moved(widened(tree) if self.widened else tree, eps, draw)
            way = self.others(draw) if self.others else self.second
            with suppress(Exception):  # no answer (of a probability above one, a matrix not positive) is no excuse
                refuse_on_host((way,), arguments, options)
                yield _outputs(way(*arguments, **options))

    def reduced(self, wrong: str, seconds: float = 4.0) -> tuple[Relation, str]:
        """Return the same with fewer elements, a simpler layout and plainer numbers, as long as it is wrong in the same way, and how."""
        kept, end, tried = (self, wrong), time.monotonic() + seconds, set[int]()
        while self.reducible and time.monotonic() < end:
            change = next((step for step in _simpler(kept[0].arguments) if hash(step) not in tried), None)
            if change is None:
                break
            tried.add(hash(change))
            arguments, options = tree_map(lambda leaf: _changed(leaf, *change), (kept[0].arguments, kept[0].options))  # noqa: B023
            trial = replace(kept[0], arguments=arguments, options=options)
            with suppress(UnusableError):
                if (message := trial.wrong()) and symptom(message) == symptom(wrong):
                    kept = trial, message
        return kept

    def program(self, operator: str, device: torch.device) -> str:
        """Return code that can be pasted: it prints both results. Arguments that can be neither written nor drawn are described."""
        try:
            if not self.writable:
                raise NotWritableError("an operator whose results are compared as torch's database prepares them")
            written = f"arguments = {literal(self.arguments)}\noptions = {literal(self.options)}\n"
        except NotWritableError as error:
            written = self.drawn or f"# arguments of {error}: {describe_tree((self.arguments, self.options))}\n"
        place = "" if device.type == REFERENCE.type else f'torch.set_default_device("{device}")\n'
        head = f"import torch\nfrom torch import inf, nan\nfrom torch.nn import functional\n\n{place}"
        code = self.code or f"# {self.says}\nfirst = second = None"
        return f"{head}operator = {operator}\n{written}{code}\nprint(first)\nprint(second)\n"


def symptom(wrong: str) -> str:
    """Return what stands in the words of a failure wherever its numbers differ: `is nan`, or what an error says before any number."""
    if match := re.match(r"number .* (is (?:nan|-?inf))", wrong):
        return match[1]
    return "" if wrong.startswith("number") else re.split(r"[\d\"\\]", wrong)[0].strip()


def on_host(tree: Any) -> Any:
    """Return the tree with tensors on the CPU, after one wait for all copies of them."""
    waiting = {leaf.device for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)}
    copied = tree_map(lambda leaf: leaf.to("cpu", non_blocking=True) if isinstance(leaf, torch.Tensor) else leaf, tree)
    for device in waiting:
        torch.get_device_module(device).synchronize()
    return copied


def refuse_on_host(routes: Sequence[Route], arguments: Any, options: Any) -> None:
    """Try calls for a card on the CPU first: what the CPU refuses, a card's kernel may assert, and then nothing works there.

    Raises:
        UnusableError: the CPU refuses one, for another reason than that captured tensors are on the card.
    """
    leaves = [leaf for leaf in tree_leaves((arguments, options)) if isinstance(leaf, torch.Tensor)]
    if all(leaf.device.type == REFERENCE.type for leaf in leaves):
        return
    tried = on_host(detached((arguments, options)))
    for route in routes:
        inputs, named = _copied(tried)
        try:
            route(*inputs, **named)
        except Exception as error:
            if "device" not in str(error):
                raise UnusableError(f"the CPU refuses it: {error_line(error, 100)}") from error


def word(dtype: torch.dtype) -> str:
    """Return `float32` for `torch.float32`."""
    return str(dtype).removeprefix("torch.")


def least(dtype: torch.dtype) -> float:
    """Return the smallest number that nothing flushes to zero."""
    info = torch.finfo(dtype)
    return float(info.smallest_normal * (info.eps if dtype is torch.float16 else 1.0))


def describe_tree(tree: Any) -> str:
    """Return the arguments on one line, tensors by dtype and shape."""

    def brief(leaf: Any) -> str:
        return f"{word(leaf.dtype)}{list(leaf.shape)}" if isinstance(leaf, torch.Tensor) else repr(leaf)[:40]

    return ", ".join(brief(leaf) for leaf in tree_leaves(tree))


def elements_of(tree: Any) -> int:
    """Return how many numbers a tree's tensors have."""
    return sum(leaf.numel() for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor))


def numeric(leaf: Any) -> bool:
    """Whether a value is a dense tensor of floating or complex numbers."""
    plain = isinstance(leaf, torch.Tensor) and leaf.layout is torch.strided
    return plain and (leaf.is_floating_point() or leaf.is_complex())


def widened(tree: Any) -> Any:
    """Return the tree with the same numbers in float64 or complex128."""

    def widen(leaf: Any) -> Any:
        if isinstance(leaf, torch.dtype):
            return _WIDE.get(leaf, leaf)
        if numeric(leaf) and leaf.dtype in _WIDE:
            return leaf.detach().to(_WIDE[leaf.dtype]).requires_grad_(leaf.requires_grad)
        return leaf

    return tree_map(widen, tree)


def moved(tree: Any, eps: float, draw: int, normwise: bool = False) -> Any:
    """Return the tree with each number up or down by this share of itself, or of the largest if `normwise`; draws are opposite in pairs.

    A zero keeps its sign, which decides on which side of a cut it is.
    """
    generator = torch.Generator().manual_seed(draw // 2)

    def move(leaf: Any) -> Any:
        if not numeric(leaf) or leaf.numel() == 0:
            return leaf
        real = torch.float64 if leaf.dtype in _WIDE.values() else torch.float32
        shares = 0.75 + torch.rand(leaf.shape, generator=generator, dtype=real) / 4
        signs = (torch.randint(0, 2, leaf.shape, generator=generator) * 2 - 1) * (-1) ** draw
        still = leaf.detach()
        steps = (signs * shares).to(leaf.device) * eps
        sizes = still.abs().nan_to_num(0.0, 0.0, 0.0).max() if normwise else still
        shifted = still + steps * sizes
        free = still.isfinite() & (normwise | (still != 0))
        return torch.where(free, shifted, still).to(leaf.dtype).requires_grad_(leaf.requires_grad)

    return tree_map(move, tree)


_PLAINER: Mapping[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "contiguous": torch.clone,
    "eighths": lambda x: torch.round(x * 8) / 8,
    "whole": torch.round,
    "signs": torch.sign,
}


def _simpler(arguments: Any) -> Iterator[tuple[str, int]]:
    """Yield what may be done to arguments: sizes cut to one or by half, the largest first, then plainer numbers."""
    sizes = {size for leaf in tree_leaves(arguments) if isinstance(leaf, torch.Tensor) for size in leaf.shape}
    for size in sorted(sizes - {0, 1}, reverse=True):
        yield from dict.fromkeys((f"narrow to {part}", size) for part in (1, size // 2, size - 1))
    yield from ((name, 0) for name in _PLAINER)


def _changed(leaf: Any, change: str, size: int) -> Any:
    if not isinstance(leaf, torch.Tensor) or leaf.layout is not torch.strided or leaf.is_conj() or leaf.is_neg():
        return leaf
    made = leaf.detach()
    if size:
        cuts = [slice(int(change.split()[-1])) if length == size else slice(None) for length in leaf.shape]
        made = made[tuple(cuts)].clone() if cuts else made
    elif change == "contiguous":
        made = made.clone(memory_format=torch.contiguous_format)
    elif numeric(leaf) and not leaf.is_complex():
        made = _PLAINER[change](made)
    return made.requires_grad_(leaf.requires_grad)


def _copied(tree: Any) -> Any:
    """Copy tensors with their strides, so that what is written in place stays here."""

    def copied(leaf: Any) -> Any:
        dense = isinstance(leaf, torch.Tensor) and leaf.layout is torch.strided
        return relocate(leaf, leaf.device, leaf.dtype) if dense else leaf

    return tree_map(copied, tree)


def detached(tree: Any) -> Any:
    """Return the tree with tensors that ask for no gradients."""
    return tree_map(lambda leaf: leaf.detach() if isinstance(leaf, torch.Tensor) else leaf, tree)


def tracked(tree: Any) -> Any:
    """Return the tree with numbers that ask for gradients."""
    return tree_map(lambda leaf: leaf.detach().requires_grad_() if numeric(leaf) else leaf, tree)


def _outputs(tree: Any) -> _Results:
    """Return tensors and numbers by the names that they come with, or by their places."""
    kinds = torch.Tensor | bool | int | float | complex
    leaves = (
        tree.items()
        if isinstance(tree, dict)
        else enumerate(leaf for leaf in tree_leaves(tree) if isinstance(leaf, kinds))
    )
    tensors = {name: leaf if isinstance(leaf, torch.Tensor) else torch.tensor(leaf) for name, leaf in leaves}
    dense = {name: tensor if tensor.layout is torch.strided else tensor.to_dense() for name, tensor in tensors.items()}
    results: _Results = on_host({name: tensor.detach().resolve_conj() for name, tensor in dense.items()})
    return results


_UNSUPPORTED = (
    "not implemented", "not supported", "unsupported", "does not support", "only supports", "trying to use forward AD",
    "derivative for", "not differentiable", "failed to match any schema", "view size is not compatible", "no derivative",
    "have storage", "is_contiguous(",
)  # fmt: skip

"""What an error says that is no wrong result: there is no such thing here."""


def _parts(value: torch.Tensor) -> torch.Tensor:
    """Return real and imaginary parts as numbers of their own, in float64."""
    if value.is_complex():
        return torch.view_as_real(value.to(torch.complex128))
    return value.to(torch.float64)


def _kind(value: torch.Tensor) -> torch.Tensor:
    return value.isnan() * 3 + value.isposinf() * 1 + value.isneginf() * 2


def apart(actual: torch.Tensor, expected: torch.Tensor, relation: Relation, others: Any) -> str:
    """Say where two results differ by more than rounding and what `others` show; empty where they do not."""
    if actual.shape != expected.shape:
        return f"has shape {tuple(actual.shape)} instead of {tuple(expected.shape)}"
    dtype = expected.dtype
    if relation.widened and expected.dtype in _WIDE.values() and actual.is_complex() == expected.is_complex():
        allowed = not relation.dtypes or actual.dtype in relation.dtypes
        dtype = actual.dtype if allowed else relation.dtypes[expected.dtype is torch.float64]
    if actual.dtype is not dtype:
        return f"is {actual.dtype} instead of {dtype}"
    if relation.form:
        return ""
    if not (actual.is_floating_point() or actual.is_complex()):
        bad = actual != expected
        if relation.whole and others:  # one of those that may be chosen, or among more than can be counted
            ways = torch.stack([expected, *(other for other in others if other.shape == expected.shape)]).sort(0)[0]
            few = (ways[1:] != ways[:-1]).sum(0) < 2
            bad &= (ways != actual).all(0) & (few | (actual < ways[0]) | (actual > ways[-1]))
            ways = ways.reshape(len(ways), -1).long()
            for place in bad.flatten().nonzero().flatten().tolist()[:_MOST_TIES]:
                equals = ways[:, torch.isin(ways, ways[:, place]).any(0)]  # what comes here, and where that comes too
                bad.view(-1)[place] = int(actual.flatten()[place]) not in equals
            return _worst(actual, expected, bad, bad.double())
        for other in others:
            bad &= (other == expected) if other.shape == expected.shape else torch.zeros_like(bad)
        return _worst(actual, expected, bad, bad.double())
    info = torch.finfo(actual.dtype)
    left, right = _parts(actual), _parts(expected)
    scale = _scale(expected, right, relation.elementwise)
    eps = max(info.eps, torch.finfo(relation.dtypes[0]).eps if relation.dtypes else 0.0)
    room = max(relation.ulps * eps, relation.tolerance) * scale + max(64 * least(actual.dtype), relation.floor)
    if relation.exact:
        room = torch.zeros_like(right)
    gap = (left - right).abs()
    if relation.whole and not relation.exact:
        return _apart_as_a_whole(
            left, right, max(relation.ulps * eps, relation.tolerance), info.max, relation, list(map(_parts, others))
        )
    if bool((gap <= room).all()):
        return ""
    excused = _kind(left) != _kind(right) if relation.nonfinite else torch.zeros_like(right, dtype=torch.bool)
    if relation.widened:  # rounds to infinity, or comes near it on the way
        excused |= (right.abs() > info.max / 16) & (
            left.isinf() & (left.sign() == right.sign()) | ~left.isnan() & right.isinf()
        )
    noise = torch.zeros_like(right)
    for other in map(_parts, others):
        if other.shape != right.shape:
            return ""
        excused |= _kind(other) != _kind(right)
        move = (other - right).abs().nan_to_num(0.0, 0.0, 0.0)
        if expected.is_complex() and move.numel():
            move = move.amax(-1, keepdim=True).expand_as(move)
        noise = torch.maximum(noise, move if relation.elementwise or not move.numel() else move.max().expand_as(move))
    same = (_kind(left) == _kind(right)) & ~(gap > room + relation.room * noise)
    bad = ~(same | excused)
    return _worst(left, right, bad, gap.nan_to_num(torch.inf, torch.inf))


def _apart_as_a_whole(
    left: torch.Tensor,
    right: torch.Tensor,
    share: float,
    largest: float,
    relation: Relation,
    others: Sequence[torch.Tensor],
) -> str:
    """Compare the norms of all numbers that are finite on both sides."""
    others = [other for other in others if other.shape == right.shape]
    odd = _kind(left) != _kind(right)
    if bool(odd.any()):
        excused = right.abs() > largest / 16
        for other in others:
            excused |= _kind(other) != _kind(right)
        bad = odd & ~excused & (not relation.nonfinite)
        if bool(bad.any()):
            return _worst(left, right, bad, bad.double())
    size, gap, *noise = (
        float(torch.linalg.vector_norm(torch.where(odd | ~right.isfinite(), 0.0, numbers).nan_to_num(0.0, 0.0, 0.0)))
        for numbers in (right, left - right, *(other - right for other in others))
    )
    room = share * (size if size > relation.whole else 2.0) + relation.room * max(noise, default=0.0)
    far = (left - right).abs().nan_to_num(0.0, 0.0, 0.0)
    return _worst(left, right, far > 0, far) if gap > room else ""


def _scale(expected: torch.Tensor, parts: torch.Tensor, elementwise: bool) -> torch.Tensor:
    """Return the size that each part is measured by: that of its number, or the largest of all."""
    own = parts.abs()
    size = expected.abs().to(torch.float64)
    if expected.is_complex():
        size = size[..., None].expand_as(own)
        size = torch.where(size.isfinite(), size, own)
    size = torch.where(size.isfinite(), size, 0.0)
    return size if elementwise or not size.numel() else size.max().expand_as(size)


def _worst(actual: torch.Tensor, expected: torch.Tensor, bad: torch.Tensor, gap: torch.Tensor) -> str:
    if not bool(bad.any()):
        return ""
    place = int(torch.where(bad, gap, -1.0).reshape(-1).argmax())
    index = [int(i) for i in torch.unravel_index(torch.tensor(place), bad.shape)] if bad.dim() else []
    pair = (x.reshape(-1)[place].item() for x in (actual, expected))
    texts = [f"{x:.8g}" if isinstance(x, float) else str(x) for x in pair]
    return f"number {index} is {texts[0]} instead of {texts[1]} ({int(bad.sum())} of {bad.numel()} differ)"


def with_gradients(op: Callable[..., Any], backward: bool = True, members: int = 1) -> Callable[..., Any]:
    """Return a function with its gradients: those of arguments that ask for one, or of all where none does.

    Each of so many `members` of a batch, which come first, is fed the same.
    """

    def run(*arguments: Any, **options: Any) -> Any:
        if not backward:
            return op(*arguments, **options)
        asked = any(isinstance(leaf, torch.Tensor) and leaf.requires_grad for leaf in tree_leaves((arguments, options)))
        inputs = placed((arguments, options)) if asked else tracked((arguments, options))
        with torch.enable_grad():
            out = [leaf for leaf in tree_leaves(op(*inputs[0], **inputs[1])) if isinstance(leaf, torch.Tensor)]
        roots = [leaf for leaf in out if leaf.requires_grad]
        leaves = [leaf for leaf in tree_leaves(inputs) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
        if not roots or not leaves:
            return out
        lines = (_line(root.numel() // members, root.dtype, root.device) for root in roots)
        fed = [line.repeat(members).reshape(root.shape) for line, root in zip(lines, roots, strict=True)]
        gradients = torch.autograd.grad(roots, leaves, fed, allow_unused=True)
        return [*out, *filter(torch.is_tensor, gradients)]

    return run


@lru_cache(32)
def _line(count: int, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Return uneven numbers that every dtype holds exactly."""
    line = (torch.arange(count, device=device) * 37 % 97 - 40) / 32
    return (torch.complex(line, line.flip(0)) if dtype.is_complex else line).to(dtype)

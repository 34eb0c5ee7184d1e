"""A relation: two ways to the same results from the same arguments, and whether they agree.

How far two correct ways may be apart is not tabled: it is what the second way itself does when each number of its arguments moves by a
unit in the last place, so that a jump, an overflow or an ill-conditioned sample excuses itself and a wrong result does not.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

from stackproof.base.text import error_line
from stackproof.operators.compute import relocate
from stackproof.operators.database import REFERENCE
from stackproof.operators.repro import NotWritableError, literal

Route = Callable[..., Any]
_MOVES = 4
WIDE_CODE = """widen = lambda x: x.to(torch.complex128 if x.is_complex() else torch.float64)
numbers = lambda x: torch.is_tensor(x) and (x.is_floating_point() or x.is_complex())
second = operator(*(widen(x) if numbers(x) else x for x in arguments), **options)"""
_ROOM = 16.0
"""Times what moved arguments do to a result."""
_WIDE = dict.fromkeys((torch.float32, torch.bfloat16, torch.float16), torch.float64) | {
    torch.complex64: torch.complex128
}


class UnusableError(Exception):
    """The trusted way does not take these arguments, so that there is nothing to compare with."""


@dataclass(frozen=True)
class Relation:
    """One claim about one call.

    `first` may be wrong, `second` is what it has to agree with. Either takes the arguments and options. `code` leaves `first` and `second`
    where `operator`, `arguments` and `options` are names. `elementwise`: each number by its own size, not by the largest.
    `exact`: to the last bit. `widened`: the
    second way takes the same numbers in float64. `refusable`: the first way may raise. `tolerance`: relative, instead of
    `ulps`; `floor`: absolute.
    """

    says: str
    arguments: tuple[Any, ...]
    options: dict[str, Any]
    first: Route
    second: Route
    code: str
    ulps: float = 64.0
    tolerance: float = 0.0
    floor: float = 0.0
    elementwise: bool = False
    exact: bool = False
    widened: bool = False
    refusable: bool = False

    def wrong(self) -> str:
        """Return what the first way gives that the second does not; empty if they agree.

        Raises:
            UnusableError: the second way raises.
        """
        arguments, options = _copied((self.arguments, self.options))
        if self.refusable or _has_places((self.arguments, self.options)):
            refuse_on_host(self.second, self.arguments, self.options)
            refuse_on_host(self.first, self.arguments, self.options)
        if self.widened:
            arguments, options = widened((arguments, options))
        try:
            wanted = _outputs(self.second(*arguments, **options))
        except Exception as error:
            raise UnusableError(error_line(error, 120)) from error
        arguments, options = _copied((self.arguments, self.options))
        try:
            found = _outputs(self.first(*arguments, **options))
        except UnusableError:
            raise
        except Exception as error:
            return "" if self.refusable or _unsupported(error) else f"raises {error_line(error, 150)}"
        if len(found) != len(wanted):
            return f"gives {len(found)} results instead of {len(wanted)}"
        bad = {place: apart(*pair, self, ()) for place, pair in enumerate(zip(found, wanted, strict=True))}
        if not any(bad.values()):
            return ""
        others = [] if self.exact else list(self._moved())
        said = (apart(found[at], wanted[at], self, [one[at] for one in others]) for at, what in bad.items() if what)
        return next(filter(None, said), "")

    def _moved(self) -> Iterator[list[torch.Tensor]]:
        """Yield the second way's results from arguments each of whose numbers moved by a unit in the last place."""
        for draw in range(_MOVES):
            dtype = _narrowest((self.arguments, self.options))
            tree = _copied((self.arguments, self.options))
            eps = torch.finfo(dtype).eps if dtype else 0.0
            arguments, options = moved(widened(tree) if self.widened else tree, eps, draw)
            with suppress(Exception):  # no answer (of a probability above one, a matrix not positive) is no excuse
                refuse_on_host(self.second, arguments, options)
                yield _outputs(self.second(*arguments, **options))

    def reduced(self, wrong: str, seconds: float = 4.0) -> tuple[Relation, str]:
        """Return the same with fewer elements, a simpler layout and plainer numbers, as long as it is wrong in the same way, and how."""
        kept, end, tried = (self, wrong), time.monotonic() + seconds, set[int]()
        while time.monotonic() < end:
            change = next((one for one in _simpler(kept[0].arguments) if hash(one) not in tried), None)
            if change is None:
                break
            tried.add(hash(change))
            arguments, options = tree_map(lambda leaf: _changed(leaf, *change), (kept[0].arguments, kept[0].options))  # noqa: B023
            trial = replace(kept[0], arguments=arguments, options=options)
            with suppress(UnusableError):
                if (said := trial.wrong()) and symptom(said) == symptom(wrong):
                    kept = trial, said
        return kept

    def program(self, operator: str) -> str:
        """Return code that can be pasted: it prints both results. Arguments that cannot be written out are described."""
        try:
            written = f"arguments = {literal(self.arguments)}\noptions = {literal(self.options)}\n"
        except NotWritableError as error:
            written = f"# arguments of {error}: {describe_tree((self.arguments, self.options))}\n"
        head = "import torch\nfrom torch import inf, nan\nfrom torch.nn import functional\n\n"
        return f"{head}operator = {operator}\n{written}{self.code}\nprint(first)\nprint(second)\n"


def symptom(wrong: str) -> str:
    """Return what stands in the words of a failure wherever its numbers differ: `is nan`, or what an error says before any number."""
    if found := re.match(r"number .* (is (?:nan|-?inf))", wrong):
        return found[1]
    return "" if wrong.startswith("number") else re.split(r"[\d\"\\]", wrong)[0].strip()


def refuse_on_host(route: Route, arguments: Any, options: Any) -> None:
    """Try the call on the CPU first where it is for a card: what the CPU refuses, a card's kernel may assert, and then nothing works there.

    Raises:
        UnusableError: the CPU refuses it, for another reason than that captured tensors are on the card.
    """
    leaves = [leaf for leaf in tree_leaves((arguments, options)) if isinstance(leaf, torch.Tensor)]
    if all(leaf.device.type == REFERENCE.type for leaf in leaves):
        return
    given, named = tree_map(
        lambda leaf: leaf.cpu() if isinstance(leaf, torch.Tensor) else leaf, detached(_copied((arguments, options)))
    )
    try:
        route(*given, **named)
    except Exception as error:
        if "device" not in str(error):
            raise UnusableError(f"the CPU refuses it: {error_line(error, 100)}") from error


def _has_places(tree: Any) -> bool:
    """Whether there are tensors of whole numbers beside others: places, which may be out of bounds."""
    dtypes = {leaf.dtype for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)}
    return torch.int64 in dtypes or torch.int32 in dtypes


def describe_tree(tree: Any) -> str:
    """Return the arguments on one line, tensors by dtype and shape."""

    def brief(leaf: Any) -> str:
        return f"{str(leaf.dtype)[6:]}{list(leaf.shape)}" if isinstance(leaf, torch.Tensor) else repr(leaf)[:40]

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


def moved(tree: Any, eps: float, draw: int) -> Any:
    """Return the tree with each number up or down by this share of itself."""
    generator = torch.Generator().manual_seed(draw)

    def move(leaf: Any) -> Any:
        if not numeric(leaf) or leaf.numel() == 0:
            return leaf
        signs = torch.randint(0, 2, leaf.shape, generator=generator) * 2 - 1
        still = leaf.detach()
        shifted = torch.where(still.isfinite(), still * (1 + signs.to(leaf.device) * eps), still)
        return shifted.to(leaf.dtype).requires_grad_(leaf.requires_grad)

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


def _narrowest(tree: Any) -> torch.dtype | None:
    found = [leaf.dtype for leaf in tree_leaves(tree) if numeric(leaf)]
    return max(found, key=lambda dtype: torch.finfo(dtype).eps, default=None)


def _outputs(tree: Any) -> list[torch.Tensor]:
    leaves = [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor | bool | int | float | complex)]
    tensors = [leaf if isinstance(leaf, torch.Tensor) else torch.tensor(leaf) for leaf in leaves]
    return [(one if one.layout is torch.strided else one.to_dense()).detach().resolve_conj().cpu() for one in tensors]


_UNSUPPORTED = (
    "not implemented", "not supported", "unsupported", "does not support", "only supports", "trying to use forward AD",
    "derivative for", "not differentiable", "failed to match any schema", "view size is not compatible", "no derivative",
    "have storage", "is_contiguous(",
)  # fmt: skip


def _unsupported(error: Exception) -> bool:
    """Whether the way does not exist here, which is no wrong result."""
    return isinstance(error, NotImplementedError | TypeError) or any(word in str(error) for word in _UNSUPPORTED)


def _parts(value: torch.Tensor) -> torch.Tensor:
    """Return real and imaginary parts as numbers of their own, in float64."""
    if value.is_complex():
        return torch.view_as_real(value.to(torch.complex128))
    return value.to(torch.float64)


def _kind(value: torch.Tensor) -> torch.Tensor:
    return value.isnan() * 3 + value.isposinf() * 1 + value.isneginf() * 2


def apart(found: torch.Tensor, wanted: torch.Tensor, relation: Relation, others: Any) -> str:
    """Say where two results differ by more than rounding and what `others` show; empty where they do not."""
    if found.shape != wanted.shape:
        return f"has shape {tuple(found.shape)} instead of {tuple(wanted.shape)}"
    expected = wanted.dtype
    if relation.widened and wanted.dtype in (torch.float64, torch.complex128):
        expected = found.dtype
    if found.dtype is not expected:
        return f"is {found.dtype} instead of {expected}"
    if not (found.is_floating_point() or found.is_complex()):
        bad = found != wanted
        for other in others:
            bad &= (other == wanted) if other.shape == wanted.shape else torch.zeros_like(bad)
        return _worst(found, wanted, bad, bad.double())
    info = torch.finfo(found.dtype)
    left, right = _parts(found), _parts(wanted)
    scale = _scale(wanted, right, relation.elementwise)
    room = max(relation.ulps * info.eps, relation.tolerance) * scale + max(64 * info.tiny, relation.floor)
    if relation.exact:
        room = torch.zeros_like(right)
    excused = torch.zeros_like(right, dtype=torch.bool)
    if relation.widened:  # rounds to infinity, or comes near it on the way
        excused |= (right.abs() > info.max / 16) & (
            left.isinf() & (left.sign() == right.sign()) | ~left.isnan() & right.isinf()
        )
    noise = torch.zeros_like(right)
    for other in map(_parts, others):
        if other.shape != right.shape:
            return ""
        excused |= _kind(other) != _kind(right)
        gap = (other - right).abs().nan_to_num(0.0, 0.0, 0.0)
        if wanted.is_complex() and gap.numel():
            gap = gap.amax(-1, keepdim=True).expand_as(gap)
        noise = torch.maximum(noise, gap if relation.elementwise or not gap.numel() else gap.max().expand_as(gap))
    gap = (left - right).abs()
    same = (_kind(left) == _kind(right)) & ~(gap > room + _ROOM * noise)
    bad = ~(same | excused)
    return _worst(left, right, bad, gap.nan_to_num(torch.inf, torch.inf))


def _scale(wanted: torch.Tensor, parts: torch.Tensor, elementwise: bool) -> torch.Tensor:
    """Return the size that each part is measured by: that of its number, or the largest of all."""
    own = parts.abs()
    size = wanted.abs().to(torch.float64)
    if wanted.is_complex():
        size = size[..., None].expand_as(own)
        size = torch.where(size.isfinite(), size, own)
    size = torch.where(size.isfinite(), size, 0.0)
    return size if elementwise or not size.numel() else size.max().expand_as(size)


def _worst(found: torch.Tensor, wanted: torch.Tensor, bad: torch.Tensor, gap: torch.Tensor) -> str:
    if not bool(bad.any()):
        return ""
    place = int(torch.where(bad, gap, -1.0).reshape(-1).argmax())
    index = [int(i) for i in torch.unravel_index(torch.tensor(place), bad.shape)] if bad.dim() else []
    pair = (x.reshape(-1)[place].item() for x in (found, wanted))
    said = [f"{x:.8g}" if isinstance(x, float) else str(x) for x in pair]
    return f"number {index} is {said[0]} instead of {said[1]} ({int(bad.sum())} of {bad.numel()} differ)"

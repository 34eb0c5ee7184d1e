"""Where the engine looks: operators of torch's database, samples drawn from it by a seed, and what is done to their numbers and layout."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import islice
from typing import Any, NamedTuple

import torch
from torch.utils._pytree import tree_map

from stackproof import DATA
from stackproof.base.text import matches
from stackproof.base.toml import Table
from stackproof.operators.compute import placed
from stackproof.operators.database import REFERENCE, OpInfo, SampleInput, full_name, load, samples
from stackproof.operators.relation import describe_tree, elements_of
from stackproof.operators.repro import NotWritableError, path_of

SEED = 38
"""Of the fixed set: the same points in every run, so that verdicts compare."""
_POOL, _LARGEST = 40, 4_000
FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
COMPLEX = (torch.complex64, torch.complex128)


class OperatorCall(NamedTuple):
    """What an operator is called with, and the sample of the database that it is."""

    inputs: tuple[Any, ...]
    options: dict[str, Any]
    sample: SampleInput


@dataclass(frozen=True)
class OperatorPoint:
    """One operator in one dtype, and the numbers that everything about it is drawn from."""

    name: str
    op: OpInfo
    dtype: torch.dtype
    device: torch.device
    draw: random.Random
    start: int = 0
    """What the database's own numbers are drawn from; 0 for those that every run has."""
    notes: Counter[str] = field(default_factory=Counter)
    """What the judge counts beside relations."""

    def samples(self, count: int, gradient: bool = False, smallest: int = 0, pool: int = _POOL) -> list[OperatorCall]:
        """Draw samples of the database, moved to the device; none without numbers, and of few only where they are few."""
        every = samples(self.op, self.dtype, gradient, self.start)
        calls = (OperatorCall((sample.input, *sample.args), dict(sample.kwargs), sample) for sample in every)
        fits = lambda call: smallest < elements_of(call[:2]) <= _LARGEST  # noqa: E731
        made = [*filter(fits, islice(calls, pool))] or [*islice(filter(fits, calls), pool)]
        chosen = self.draw.sample(made, min(count, len(made)))
        return [placed(call, self.device) for call in chosen]

    def kinds(self, count: int, smallest: int = 0, alike: bool = False, gradient: bool = False) -> list[OperatorCall]:
        """Draw samples of which each has other options than those before, or other dimensions unless these count `alike`."""
        kinds: dict[str, OperatorCall] = {}
        for call in self.samples(12, gradient) if alike else self.samples(120, smallest=smallest, pool=160):
            form = tree_map(lambda x: x if not torch.is_tensor(x) else "" if alike else x.dim(), call[:2])
            kinds.setdefault(describe_tree(form), call)
        return [*kinds.values()][:count]

    @property
    def on_host(self) -> bool:
        """Whether it is computed where references are, not on a card."""
        return self.device.type == REFERENCE.type

    @property
    def path(self) -> str:
        """The name under which anybody reaches the function."""
        if not hasattr(self.op, "variant_test_name"):
            own = getattr(self.op, "__name__", "")
            named = f"torch.{own}" if getattr(torch, own, None) is self.op else f"... # {self.name}"
            return str(getattr(self.op, "path", named))
        try:
            return path_of(self.op)
        except NotWritableError:
            name = (self.op.name, self.op.variant_test_name)
            module = "torch.testing._internal.common_methods_invocations"
            return f"next(op for op in __import__({module!r}, fromlist=['op_db']).op_db if (op.name, op.variant_test_name) == {name!r})"

    def numbers(self, shape: tuple[int, ...], scale: float = 1.0) -> torch.Tensor:
        """Draw numbers of both signs."""
        generator = torch.Generator().manual_seed(self.draw.randrange(1 << 30))
        wide = torch.complex128 if self.dtype.is_complex else torch.float64
        made = (torch.randn(shape, generator=generator, dtype=wide) * scale).to(self.dtype)
        return made.to(self.device, non_blocking=True)


def in_place(op: OpInfo) -> Callable[..., Any] | None:
    """Return what writes an operator's result over its first argument: a method, or the function by an option of its own."""
    function: Any = getattr(torch.nn.functional, op.name.rpartition(".")[2], None)
    optional = "inplace" in getattr(getattr(function, "__code__", None), "co_varnames", ())
    return partial(op, inplace=True) if optional and not op.inplace_variant else op.inplace_variant


@dataclass(frozen=True)
class _Group:
    name: str
    operators: tuple[str, ...]


@cache
def groups() -> Mapping[str, tuple[str, ...]]:
    """Return the patterns of each group of operators in `data/relations.toml`."""
    return {row.name: row.operators for row in Table.load(DATA / "relations.toml").rows("group", _Group)}


def member(group: str, name: str) -> bool:
    """Whether an operator is in a group of the table."""
    return matches(name, groups()[group])


@cache
def database() -> Mapping[str, OpInfo]:
    """Return the operators that may be asked about relations at all: no random ones, none that only fill or only view."""
    return {full_name(op): op for op in load().values() if not member("outside", full_name(op))}


def _with_gaps(leaf: torch.Tensor) -> torch.Tensor:
    if leaf.layout is not torch.strided or leaf.dim() == 0:
        return leaf
    wide = leaf.new_full((*leaf.shape[:-1], 2 * leaf.shape[-1] + 1), 3)
    return wide[..., 1::2].copy_(leaf)


def _turned(leaf: torch.Tensor) -> torch.Tensor:
    return leaf.mT.contiguous().mT if leaf.dim() > 1 else leaf


def _last(leaf: torch.Tensor) -> torch.Tensor:
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    return leaf.contiguous(memory_format=formats[leaf.dim()]) if leaf.dim() in formats else leaf


def _shifted(leaf: torch.Tensor) -> torch.Tensor:
    return torch.cat([leaf.new_ones(1), leaf.reshape(-1)])[1:].view(leaf.shape)


LAYOUTS: Mapping[str, tuple[Callable[[torch.Tensor], torch.Tensor], str]] = {
    "strided": (_with_gaps, "x.repeat_interleave(2, -1)[..., ::2]"),
    "transposed": (_turned, "x.mT.contiguous().mT"),
    "channels-last": (_last, "x.contiguous(memory_format=torch.channels_last)"),
    "behind an odd offset": (_shifted, "torch.cat([x.new_ones(1), x.reshape(-1)])[1:].view(x.shape)"),
}
"""Other layouts of the same numbers, and x in them as code."""

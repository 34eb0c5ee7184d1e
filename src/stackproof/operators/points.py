"""Where the engine looks: operators of torch's database, samples drawn from it by a seed, and what is done to their numbers and layout."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import islice
from typing import Any

import torch
from torch.utils._pytree import tree_map

from stackproof import DATA
from stackproof.base.text import matches
from stackproof.base.toml import Table
from stackproof.operators.database import REFERENCE, OpInfo, SampleInput, full_name, load, samples
from stackproof.operators.relation import describe_tree, elements_of
from stackproof.operators.repro import NotWritableError, path_of

SEED = 38
"""Of the fixed set: the same points in every run, so that verdicts compare."""
_POOL, _LARGEST = 40, 4_000
FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
COMPLEX = (torch.complex64, torch.complex128)


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

    def samples(self, count: int, gradient: bool = False, smallest: int = 0, pool: int = _POOL) -> list[SampleInput]:
        """Draw samples of the database, moved to the device; none without numbers, and of few only where they are few."""
        made = []
        for sample in islice(samples(self.op, self.dtype, gradient, self.start), pool):
            if smallest < elements_of((sample.input, sample.args, sample.kwargs)) <= _LARGEST:
                made.append(sample)
        chosen = self.draw.sample(made, min(count, len(made)))
        for sample in chosen:
            call = (sample.input, tuple(sample.args), dict(sample.kwargs))
            sample.input, sample.args, sample.kwargs = placed(call, self.device)
        return chosen

    def kinds(self, count: int, smallest: int = 0) -> list[SampleInput]:
        """Draw samples of which each has other options, or other dimensions, than those before."""
        kinds: dict[str, SampleInput] = {}
        for sample in self.samples(120, smallest=smallest, pool=160):
            call = (sample.input, sample.args, sample.kwargs)
            kinds.setdefault(describe_tree(tree_map(lambda x: x.dim() if torch.is_tensor(x) else x, call)), sample)
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
        return (torch.randn(shape, generator=generator, dtype=wide) * scale).to(self.dtype).to(self.device)


def placed(tree: Any, device: torch.device) -> Any:
    """Return what a database made on the CPU, moved to a device."""

    def place(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        return leaf.detach().to(device).requires_grad_(leaf.requires_grad)

    return tree_map(place, tree)


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

"""Which operator is not bit-identical: every operator's inputs and outputs are hashed on two runs and compared."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


@dataclass(frozen=True)
class Entry:
    """One call of an operator: its name, and the hashes of what went in and of what came out."""

    operator: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


class Ledger(TorchDispatchMode):
    """Notes every operator that runs, forward and backward, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.entries: list[Entry] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the operator; inputs are hashed before it, because it may write to them."""
        inputs = _hashes((args, kwargs or {}))
        result = func(*args, **(kwargs or {}))
        self.entries.append(Entry(func._schema.name.removeprefix("aten::"), inputs, _hashes(result)))
        return result


def _hashes(nested: Any) -> tuple[int, ...]:
    """Return checksums of the bits: a hash of values would take -0 for 0 and no NaN for another."""
    tensors = (leaf for leaf in tree_leaves(nested) if isinstance(leaf, torch.Tensor))
    return tuple(zlib.crc32(bits(tensor).numpy().tobytes()) for tensor in tensors)


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """Return the bytes of a tensor on the CPU, in one row; the clone gives even a single element the stride that a view wants."""
    plain = tensor.detach().resolve_conj().resolve_neg().cpu()
    return plain.clone(memory_format=torch.contiguous_format).reshape(-1).view(torch.uint8)


def first_difference(run: Callable[[], Any]) -> str | None:
    """Run twice and return the first operator that gave other bits from the same bits, or None if all agreed."""
    books: list[list[Entry]] = []
    for _ in range(2):
        with Ledger() as book:
            run()
        books.append(book.entries)
    for entry, other in zip(*books, strict=False):
        if entry.operator != other.operator:
            return f"{entry.operator} (the second run went on with {other.operator})"
        # Memory that nobody has written yet differs as it likes, and so does what is made of it.
        if entry.inputs == other.inputs and entry.outputs != other.outputs and "empty" not in entry.operator:
            return str(entry.operator)
    return None

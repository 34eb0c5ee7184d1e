"""Scaled-dot-product attention: which kernel really ran, which a stack offers, and what it gave.

Torch chooses among kernels by device, dtype, shape and how it was built, and says nothing when it takes the slow one
(docs/users-reports.md C5). Here the choice is observed by the operators that reach the backend.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import torch
from torch.nn import attention as torch_attention
from torch.nn.functional import scaled_dot_product_attention

from stackproof import DATA
from stackproof.base.text import first_line
from stackproof.base.toml import Table
from stackproof.device.devices import Operators

_FILE = DATA / "attention.toml"
_SEED = 11


@dataclass(frozen=True)
class Kernel:
    """One implementation: torch's name of it, and the operators that betray it."""

    name: str
    backend: str
    operators: tuple[str, ...]
    fused: bool


@dataclass(frozen=True)
class AttentionShape:
    """One shape: heads and lengths are (queries, keys); `kind` is full, causal or mask."""

    name: str
    batch: int
    heads: tuple[int, int]
    lengths: tuple[int, int]
    width: int
    kind: Literal["full", "causal", "mask"]
    repeat: bool = False
    """Keys and values of grouped heads are repeated before the call, as transformers did before torch 2.5 could share them."""
    scale: float | None = None
    """What scores are multiplied by; the default is one over the root of the width."""

    @property
    def grouped(self) -> bool:
        """Whether torch itself has to share a key head among several query heads."""
        return self.heads[0] != self.heads[1] and not self.repeat

    def inputs(self, dtype: torch.dtype, device: torch.device) -> tuple[torch.Tensor, ...]:
        """Return query, key and value, the same numbers for every device."""
        generator = torch.Generator().manual_seed(_SEED)
        shapes = [(self.batch, self.heads[side], self.lengths[side], self.width) for side in (0, 1, 1)]
        made = [torch.randn(shape, dtype=torch.float64, generator=generator) for shape in shapes]
        return tuple(tensor.to(dtype).to(device) for tensor in made)

    def mask(self) -> torch.Tensor | None:
        """Return a padding mask: the second half of the batch has shorter sequences; every query sees some key."""
        if self.kind != "mask":
            return None
        allowed = torch.ones(self.batch, 1, 1, self.lengths[1], dtype=torch.bool)
        allowed[self.batch // 2 :, ..., self.lengths[1] * 2 // 3 :] = False
        return allowed.expand(-1, 1, self.lengths[0], -1)


class NotOffered(Exception):  # noqa: N818 - an answer, not an error
    """This torch has no such kernel for these inputs on this device; the message is torch's own."""


@cache
def _tables() -> tuple[tuple[Kernel, ...], tuple[AttentionShape, ...]]:
    with Table.load(_FILE) as table:
        return table.rows("kernel", Kernel), table.rows("case", AttentionShape)


def kernels() -> dict[str, Kernel]:
    """Return the kernels that are known, by name, in the order in which they are recognised."""
    return {kernel.name: kernel for kernel in _tables()[0]}


def cases() -> tuple[AttentionShape, ...]:
    """Return the shapes that this torch can be asked for; sharing key heads came with torch 2.5."""
    shared = "enable_gqa" in (scaled_dot_product_attention.__doc__ or "")
    return tuple(case for case in _tables()[1] if shared or not case.grouped)


class Witness(Operators):  # type: ignore[no-untyped-call]
    """Tells which kernel of attention served a call."""

    @property
    def kernel(self) -> str:
        """The kernel's name; one that no row knows is named by its operators."""
        for kernel in kernels().values():
            if any(operator in self.seen for operator in kernel.operators):
                return kernel.name
        return f"unknown ({', '.join(dict.fromkeys(self.seen)) or 'no operator'})"


def run(case: AttentionShape, inputs: Sequence[torch.Tensor], kernel: Kernel | None = None) -> tuple[str, torch.Tensor]:
    """Attend over one kernel or torch's own choice; return the kernel that ran and what it gave.

    Raises:
        NotOffered: torch refuses this kernel for these inputs.
    """
    query, *others = inputs
    share, mask, witness = case.heads[0] // case.heads[1], case.mask(), Witness()
    key, value = (x.repeat_interleave(share, dim=1) if case.repeat else x for x in others)
    options: dict[str, Any] = {"is_causal": case.kind == "causal", "scale": case.scale}
    options |= {"enable_gqa": True} if case.grouped else {}
    options["attn_mask"] = None if mask is None else mask.to(query.device)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            with only(kernel), witness:
                output = scaled_dot_product_attention(query, key, value, **options)
        except RuntimeError as error:
            if kernel is None:
                raise
            raise NotOffered(_reasons([str(message.message) for message in caught]) or first_line(error)) from error
    return witness.kernel, output


# Torch warns of every kernel, also of those that were not asked for, and where in its source it does.
_NO_REASON = re.compile(
    r"\s*\(Triggered internally at .*|.* has been runtime disabled\..*|.* kernel not used because:.*"
)


def _reasons(words: list[str]) -> str:
    """Return why torch refuses the kernel that was asked for, out of its warnings."""
    lines = [_NO_REASON.sub("", message.splitlines()[0]).strip() for message in words if message]
    return "; ".join(dict.fromkeys(filter(None, lines)))[:300]


def only(kernel: Kernel | None) -> AbstractContextManager[Any]:
    """Restrict torch to one kernel; a name that this torch does not know is not offered by it."""
    if kernel is None:
        return nullcontext()
    backend = getattr(torch_attention.SDPBackend, kernel.backend, None)
    if backend is None:
        raise NotOffered(f"torch {torch.__version__} has no SDPBackend.{kernel.backend}")
    return torch_attention.sdpa_kernel([backend])

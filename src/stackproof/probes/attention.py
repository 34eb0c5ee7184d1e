"""Scaled-dot-product attention: which kernel really ran, which a stack offers, and what it gave.

Torch chooses among kernels by device, dtype, shape and how it was built, and says nothing when it takes the slow one
(docs/users-reports.md C5). Here the choice is observed by the operators that reach the backend. The reference is the
textbook formula, written out, and not one of torch's kernels.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Sequence
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
Tensors = dict[str, torch.Tensor]


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

    @property
    def grouped(self) -> bool:
        """Whether torch itself has to share a key head among several query heads."""
        return self.heads[0] != self.heads[1] and not self.repeat

    def inputs(self, dtype: torch.dtype) -> Tensors:
        """Make query, key and value on the CPU, the same numbers for every device."""
        generator, made = torch.Generator().manual_seed(_SEED), {}
        for name, side in (("query", 0), ("key", 1), ("value", 1)):
            shape = (self.batch, self.heads[side], self.lengths[side], self.width)
            made[name] = torch.randn(shape, dtype=torch.float64, generator=generator).to(dtype)
        return made

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


def run(
    case: AttentionShape, dtype: torch.dtype, device: torch.device, kernel: Kernel | None = None
) -> tuple[str, Tensors]:
    """Run forward and backward on the device, over one kernel or torch's own choice; return the kernel that ran and what it gave.

    Raises:
        NotOffered: torch refuses this kernel for these inputs.
    """
    leaves = {name: tensor.to(device).requires_grad_() for name, tensor in case.inputs(dtype).items()}
    witness = Witness()
    output = _forward(case, kernel, witness, [_repeated(case, name, leaf) for name, leaf in leaves.items()])
    return witness.kernel, _with_gradients(output, leaves)


def _forward(
    case: AttentionShape, kernel: Kernel | None, witness: Witness, inputs: Sequence[torch.Tensor]
) -> torch.Tensor:
    (query, key, value), mask = inputs, case.mask()
    options: dict[str, Any] = {"is_causal": case.kind == "causal", **({"enable_gqa": True} if case.grouped else {})}
    options["attn_mask"] = None if mask is None else mask.to(query.device)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            with _only(kernel), witness:
                return scaled_dot_product_attention(query, key, value, **options)
        except RuntimeError as error:
            if kernel is None:
                raise
            raise NotOffered(_reasons([str(message.message) for message in caught]) or first_line(error)) from error


def _with_gradients(output: torch.Tensor, leaves: Tensors) -> Tensors:
    """Go backward and return output and gradients; not from all ones, under which the gradient of a softmax vanishes."""
    flat = torch.linspace(-1, 1, output.numel(), dtype=torch.float64)
    output.backward(flat.reshape(output.shape).to(output.device, output.dtype))  # type: ignore[no-untyped-call]
    gradients = {f"gradient of {name}": leaf.grad for name, leaf in leaves.items() if leaf.grad is not None}
    return {name: tensor.detach().cpu() for name, tensor in {"output": output, **gradients}.items()}


# Torch warns of every kernel, also of those that were not asked for, and where in its source it does.
_NO_REASON = re.compile(
    r"\s*\(Triggered internally at .*|.* has been runtime disabled\..*|.* kernel not used because:.*"
)


def _reasons(words: list[str]) -> str:
    """Return why torch refuses the kernel that was asked for, out of its warnings."""
    lines = [_NO_REASON.sub("", message.splitlines()[0]).strip() for message in words if message]
    return "; ".join(dict.fromkeys(filter(None, lines)))[:300]


def _only(kernel: Kernel | None) -> Any:
    """Restrict torch to one kernel; a name that this torch does not know is not offered by it."""
    if kernel is None:
        return warnings.catch_warnings()  # a context that changes nothing
    backend = getattr(torch_attention.SDPBackend, kernel.backend, None)
    if backend is None:
        raise NotOffered(f"torch {torch.__version__} has no SDPBackend.{kernel.backend}")
    return torch_attention.sdpa_kernel([backend])


def formula(
    case: AttentionShape, inputs_of: torch.dtype, compute_in: torch.dtype, *, logarithms: bool = False
) -> Tensors:
    """Return output and gradients by softmax(q k' / sqrt(width)) v on the CPU, from inputs rounded to `inputs_of`.

    With `logarithms` the softmax is exp(x - log sum exp x): the same value with other rounding, so that an anchor in
    float64 is not the reference itself, which would allow no error at all.
    """
    leaves = {name: tensor.to(compute_in).requires_grad_() for name, tensor in case.inputs(inputs_of).items()}
    query, key, value = (_repeated(case, name, leaf, always=True) for name, leaf in leaves.items())
    scores = query @ key.transpose(-2, -1) / math.sqrt(case.width)
    # A causal query sees its own place and those before it.
    allowed = torch.ones(case.lengths, dtype=torch.bool).tril() if case.kind == "causal" else case.mask()
    scores = scores if allowed is None else scores.masked_fill(~allowed, -math.inf)
    weights = (scores - scores.logsumexp(-1, keepdim=True)).exp() if logarithms else scores.softmax(-1)
    return _with_gradients(weights @ value, leaves)


def _repeated(case: AttentionShape, name: str, tensor: torch.Tensor, *, always: bool = False) -> torch.Tensor:
    share = case.heads[0] // case.heads[1]
    repeats = name != "query" and share > 1 and (case.repeat or always)
    return tensor.repeat_interleave(share, dim=1) if repeats else tensor

"""Scaled-dot-product attention, forward alone and with backward, by torch's own choice of kernel or by one that is named."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from stackproof.device.numerics import judge
from stackproof.probes import attention
from stackproof.record.checks import CapabilityMissing, require
from stackproof.record.records import Figure
from stackproof.workloads.base import Setting, Work, dtype_named, name_of

_SEED = 13
_BACKWARD = 2.5
"""FLOPs of backward against forward: five products of matrices for two (https://arxiv.org/abs/2205.14135, appendix B)."""

_INPUTS = ("query", "key", "value")

Tensors = dict[str, torch.Tensor]


class Attention(Work):
    """Causal attention of (batch, heads, length, width), by `kernel` or, where that is empty, by torch's own choice."""

    def __init__(self, setting: Setting) -> None:
        with setting.parameters as row:
            shape = [row.take(key, int) for key in ("batch", "heads", "length", "width")]
            self._dtype, self._backward = dtype_named(row), row.take("backward", bool)
            self._kernel = row.take("kernel", str, "", allowed=("", *attention.kernels()))
        self.device, self._shape, self.dtype = setting.device, shape, name_of(self._dtype)
        self.arithmetic = self.dtype
        generator = torch.Generator().manual_seed(_SEED)
        drawn = [torch.randn(shape, generator=generator).to(self._dtype) for _ in range(4)]
        self._heads = dict(zip((*_INPUTS, "cotangent"), (one[:1, :1].clone() for one in drawn), strict=True))
        moved = [one.to(setting.device.torch) for one in drawn]
        leaves = [one.requires_grad_(self._backward) for one in moved[:3]]
        self._inputs, self._cotangent = dict(zip(_INPUTS, leaves, strict=True)), moved[3]
        self._ran = ""
        self._switches = ExitStack()
        self._switches.enter_context(_restricted(self._kernel))

    @property
    def worth(self) -> Mapping[str, float]:
        """Two products of length x length x width a head, half of each because it is causal."""
        batch, heads, length, width = self._shape
        forward = 4 * batch * heads * length**2 * width / 2
        return {"TFLOP": forward * (1 + _BACKWARD * self._backward) / 1e12}

    def run(self) -> Tensors:
        """Queue forward, and backward into fresh gradients; return output and gradients by name."""
        query, key, value = self._inputs.values()
        output = scaled_dot_product_attention(query, key, value, is_causal=True)
        if not self._backward:
            return {"output": output}
        gradients = torch.autograd.grad(output, list(self._inputs.values()), self._cotangent)
        return {"output": output.detach(), **dict(zip(self._inputs, gradients, strict=True))}

    def prove(self) -> str:
        """Hold the first head's output and gradients against the formula in float64; the rest must be finite."""
        found = self._observed()
        exact, own = _formula(self._heads, torch.float64), _formula(self._heads, self._dtype)
        judgements = [judge(found[name][:1, :1], exact[name], own[name], self._dtype) for name in found]
        worst = max(judgements, key=lambda judgement: judgement.error / judgement.bound)
        require(worst.ok, worst.sentence("attention"))
        require(all(bool(torch.isfinite(one).all()) for one in found.values()), "parts of the result are not finite")
        return (
            f"kernel {self._ran}, {len(found)} tensors of a head, error {worst.error:.1e} of {worst.bound:.1e} allowed"
        )

    def _observed(self) -> Tensors:
        """Run once and note which kernel did it."""
        witness = attention.Witness()
        try:
            with witness:
                found = self.run()
        except RuntimeError as error:
            if not self._kernel:
                raise
            said = str(error).splitlines()[0]
            shape = " x ".join(map(str, self._shape))
            raise CapabilityMissing(
                f"torch has no {self._kernel} kernel for {self.dtype} of {shape} here: {said}"
            ) from error
        self._ran = witness.kernel
        return found

    def close(self) -> None:
        """Leave the choice of kernels to torch again."""
        self._switches.close()

    def conclude(self) -> Mapping[str, Figure]:
        """Say which kernel ran."""
        return {"kernel": self._ran}


def _restricted(name: str) -> AbstractContextManager[Any]:
    """Restrict torch to the kernel of that name, if one is named."""
    if not name:
        return nullcontext()
    backend = attention.kernels()[name].backend
    if not hasattr(SDPBackend, backend):
        raise CapabilityMissing(f"torch {torch.__version__} has no SDPBackend.{backend}")
    return sdpa_kernel([getattr(SDPBackend, backend)])


def _formula(head: Tensors, compute_in: torch.dtype) -> Tensors:
    """Return softmax(q k' / sqrt(width)) v and its gradients on the CPU, (1, 1, length, width)."""
    leaves = {name: head[name].to(compute_in).requires_grad_() for name in _INPUTS}
    length, width = head["query"].shape[-2:]
    scores = leaves["query"] @ leaves["key"].transpose(-2, -1) / math.sqrt(width)
    hidden = ~torch.ones(length, length, dtype=torch.bool).tril()
    output = scores.masked_fill(hidden, -math.inf).softmax(-1) @ leaves["value"]
    gradients = torch.autograd.grad(output, list(leaves.values()), head["cotangent"].to(compute_in))
    return {"output": output.detach(), **dict(zip(leaves, gradients, strict=True))}


KINDS = {"attention": Attention}

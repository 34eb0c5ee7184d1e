"""Scaled-dot-product attention, forward alone and with backward, by torch's own choice of kernel or by one that is named.

Every number of every head and row, of the output and of each gradient, is held against the closed form in float64: small work by NumPy
on the host, large work on the device by plain products, and a head of that by NumPy too.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from stackproof.base.text import first_line
from stackproof.base.toml import OneOf
from stackproof.device.devices import HOST
from stackproof.operators import forms
from stackproof.operators.projection import WHOLE, Deviation, ExpectedSums, Floats, fold, has_float64, signs, unit
from stackproof.probes import attention
from stackproof.record.checks import CapabilityMissing, require
from stackproof.record.records import Figure
from stackproof.workloads.work import FloatingDtype, Setting, Work, name_of

_SEED = 13
_BACKWARD = 2.5
"""FLOPs of backward against forward: five products of matrices for two (https://arxiv.org/abs/2205.14135, appendix B)."""

_INPUTS = ("query", "key", "value")
_ON_HOST = 1 << 24
"""So many scores NumPy computes in a second or two."""
_STEPS = 4
"""A kernel rounds its scores, their weights and what it multiplies them by, each once or more, before it writes a result."""
_WHOLE = 0.25
"""Half of a last place in half precision, of the units above."""
_AGREE = 1e-9
"""How closely two ways to float64 agree."""

Tensors = dict[str, torch.Tensor]


def _kernels() -> tuple[str, ...]:
    return ("", *attention.kernels())


@dataclass(frozen=True)
class _Parameters:
    batch: int
    heads: int
    length: int
    width: int
    dtype: FloatingDtype
    backward: bool
    kernel: Annotated[str, OneOf(_kernels)] = ""


class Attention(Work):
    """Causal attention of (batch, heads, length, width), by `kernel` or, where that is empty, by torch's own choice."""

    def __init__(self, setting: Setting) -> None:
        row = setting.parameters.row(_Parameters)
        shape = [row.batch, row.heads, row.length, row.width]
        self._dtype, self._backward, self._kernel = row.dtype, row.backward, row.kernel
        self.device, self._shape, self.dtype = setting.device, shape, name_of(self._dtype)
        self.arithmetic = self.dtype
        generator = torch.Generator().manual_seed(_SEED)
        drawn = [torch.randn(shape, generator=generator).to(self._dtype) for _ in range(4)]
        self._signs = signs(shape[-1], _SEED)
        self._expected: dict[str, ExpectedSums] = {}
        self._left: Tensors = {}
        self._factors = {"value": 1.0, "cotangent": 1.0}
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
        self._left = {}  # lets go of them, so that memory holds one set
        query, key, value = self._inputs.values()
        output = scaled_dot_product_attention(query, key, value, is_causal=True)
        if not self._backward:
            self._left = {"output": output}
            return self._left
        gradients = torch.autograd.grad(output, list(self._inputs.values()), self._cotangent)
        self._left = {"output": output.detach(), **dict(zip(self._inputs, gradients, strict=True))}
        return self._left

    def prove(self) -> str:
        """Hold output and gradients against the closed form: every head, every row, every number."""
        self._observed()
        self._expected = _reference({**self._inputs, "cotangent": self._cotangent}, self._backward, self._signs)
        seen = max(self._seen(), key=lambda one: one.worst)
        return f"kernel {self._ran}, all numbers of {len(self._left)} tensors: {seen.said}"

    def verify(self) -> None:
        """Compare all that the last run gave with the closed form."""
        self._seen()

    def _seen(self) -> list[Deviation]:
        value, cotangent = self._factors.values()
        factors = {"output": value, "query": value * cotangent, "key": value * cotangent, "value": cotangent}
        step = _STEPS * unit(self._dtype, self._shape[-1])
        return [
            self._expected[name].judge(
                fold(found, self._signs) / factors[name],
                step,
                "attention: " + ("the output" if name == "output" else f"the gradient of the {name}"),
                _WHOLE if self._dtype.itemsize == 2 else WHOLE,
            )
            for name, found in self._left.items()
        ]

    def poison_output(self) -> None:
        """Turn the sign of the values, and double the cotangent or halve it again: every result is another, by a known factor."""
        for tensor in self._left.values():
            tensor.fill_(torch.nan)
        with torch.no_grad():
            self._inputs["value"].neg_()
            again = 2.0 if self._factors["cotangent"] == 1.0 else 0.5
            self._cotangent.mul_(again)
        self._factors["value"] *= -1
        self._factors["cotangent"] *= again

    def outputs(self) -> Sequence[torch.Tensor]:
        """The results of the last run."""
        return tuple(self._left.values())

    def fresh_inputs(self) -> bool:
        """Multiply the values by a number that chance picks."""
        with torch.no_grad():
            self._inputs["value"].mul_(random.uniform(0.8, 1.2))
        return True

    def _observed(self) -> Tensors:
        """Run once and note which kernel did it."""
        witness = attention.Witness()
        try:
            with witness:
                found = self.run()
        except RuntimeError as error:
            if not self._kernel:
                raise
            shape = " x ".join(map(str, self._shape))
            raise CapabilityMissing(
                f"torch has no {self._kernel} kernel for {self.dtype} of {shape} here: {first_line(error)}"
            ) from error
        self._ran = witness.kernel
        return found

    def close(self) -> None:
        """Leave the choice of kernels to torch again."""
        self._switches.close()

    def conclude(self) -> Mapping[str, Figure]:
        """Verify the last run and one more; say which kernel ran."""
        return {**super().conclude(), "kernel": self._ran}


def _restricted(name: str) -> AbstractContextManager[Any]:
    """Restrict torch to the kernel of that name, if one is named."""
    if not name:
        return nullcontext()
    backend = attention.kernels()[name].backend
    if not hasattr(SDPBackend, backend):
        raise CapabilityMissing(f"torch {torch.__version__} has no SDPBackend.{backend}")
    return sdpa_kernel([getattr(SDPBackend, backend)])


def _reference(inputs: Tensors, backward: bool, signs_of_row: Floats) -> dict[str, ExpectedSums]:
    """Return what each result must fold to, in float64, from (batch, heads, length, width) on the device."""
    heads = {name: tensor.detach().flatten(0, 1) for name, tensor in inputs.items()}
    count, length, _ = heads["query"].shape
    if count * length**2 <= _ON_HOST:
        return _folded([_host_form(heads, slice(None), backward)], signs_of_row)
    place = heads["query"].device if has_float64(str(heads["query"].device)) else HOST.torch
    parts = [_device_form(heads, index, backward, place) for index in range(count)]
    checked = _host_form(heads, slice(count - 1, count), backward)
    for name, (one, _) in checked.items():
        off = np.abs(one - parts[-1][name][0].cpu().numpy()).max() / np.abs(one).max()
        require(
            off <= _AGREE,
            f"attention: the reference on {place} is {off:.1g} from NumPy's, so nothing can be held against it",
        )
    return _folded(parts, signs_of_row)


def _host_form(heads: Tensors, chosen: slice, backward: bool) -> dict[str, Any]:
    query, key, value, cotangent = (heads[name][chosen].cpu().double().numpy() for name in (*_INPUTS, "cotangent"))
    return forms.attention(query, key, value, cotangent if backward else None)


def _device_form(heads: Tensors, index: int, backward: bool, place: torch.device) -> dict[str, Any]:
    query, key, value, cotangent = (
        heads[name][index : index + 1].to(place).double() for name in (*_INPUTS, "cotangent")
    )
    return forms.attention(query, key, value, cotangent if backward else None, torch)


def _folded(parts: list[dict[str, Any]], signs_of_row: Floats) -> dict[str, ExpectedSums]:
    """Fold heads that were computed one by one."""

    def joined(name: str) -> ExpectedSums:
        sums = np.concatenate([fold(torch.as_tensor(part[name][0]), signs_of_row) for part in parts])
        scale = np.concatenate([torch.as_tensor(part[name][1]).cpu().numpy().reshape(-1) for part in parts])
        return ExpectedSums(sums, np.repeat(scale[:, None], sums.shape[1], axis=1))

    return {name: joined(name) for name in parts[0]}


KINDS = {"attention": Attention}

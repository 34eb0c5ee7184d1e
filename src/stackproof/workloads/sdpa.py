"""Scaled-dot-product attention, forward alone and with backward, by torch's own choice of kernel or by one that is named.

Every number of every head and row, of the output and of each gradient, is held against the closed form in float64: small work by NumPy
on the host, large work on the device by plain products, and a head of that by NumPy too.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import torch
from torch.nn.functional import scaled_dot_product_attention

from stackproof.base.text import first_line
from stackproof.base.toml import OneOf
from stackproof.device.devices import HOST
from stackproof.operators import forms
from stackproof.operators.projection import WHOLE, Deviation, ExpectedSums, Floats, fold, has_float64, signs, unit
from stackproof.operators.relation import word
from stackproof.probes import attention
from stackproof.record.checks import CapabilityMissing, require
from stackproof.workloads.work import FloatingDtype, Setting, Work

_SEED = 13
_BACKWARD = 2.5
"""FLOPs of backward against forward: five products of matrices for two (https://arxiv.org/abs/2205.14135, appendix B)."""

_NAMES = ("query", "key", "value", "cotangent")
_MOST_BYTES = 16 << 30
_ON_HOST = 1 << 24
"""So many scores NumPy computes in a second or two."""
_STEPS = 4
"""A kernel rounds its scores, their weights and what it multiplies them by, each once or more, before it writes a result."""
_WHOLE = 0.25
"""Half of a last place in half precision, of the units above."""
_ROWS = 16
"""So many rows of each head of each run are compared."""
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
    """Causal attention of (batch, heads, length, width), by `kernel` or, where that is empty, by torch's own choice.

    Each run of a block has results of its own, and inputs whose heads moved on by a number that chance picks, values and cotangent times
    two others: by these each result is known, and what an earlier run left is another, as are its scores. Some rows of every head of every
    run are compared, and all of a proof.
    """

    def __init__(self, setting: Setting) -> None:
        row = setting.parameters.row(_Parameters)
        shape = [row.batch, row.heads, row.length, row.width]
        self._dtype, self._backward, self._kernel = row.dtype, row.backward, row.kernel
        self.device, self._shape, self.dtype = setting.device, shape, word(self._dtype)
        self.arithmetic = self.dtype
        # Two products of length x length x width a head, half of each because it is causal.
        forward = 4 * row.batch * row.heads * row.length**2 * row.width / 2
        self.worth = {"TFLOP": forward * (1 + _BACKWARD * self._backward) / 1e12}
        generator = torch.Generator().manual_seed(_SEED)
        self._drawn = [torch.randn(shape, generator=generator).to(self._dtype).to(self.device.torch) for _ in range(4)]
        self._signs = signs(shape[-1], _SEED)
        self._expected: dict[str, ExpectedSums] = {}
        # Inputs of each run, and as much again for what it leaves.
        self.most_runs = max(4, min(16, _MOST_BYTES // (8 * self._drawn[0].nbytes)))
        self.inputs = [
            [tensor.clone().requires_grad_(self._backward and tensor is not self._drawn[3]) for tensor in self._drawn]
            for _ in range(self.most_runs)
        ]
        self._chosen = [(0, 1.0, 1.0)] * self.most_runs
        self._left: list[Tensors] = []
        self._turn, self._dice = 0, random.Random(_SEED)
        try:
            self.switches.enter_context(attention.only(attention.kernels().get(self._kernel)))
        except attention.NotOffered as missing:
            raise CapabilityMissing(str(missing)) from missing

    def begin(self, runs: int, compared: bool = True) -> None:
        self._left, self._turn = [{} for _ in range(self.most_runs)], 0
        if not compared:
            return
        with torch.no_grad():
            for number, inputs in enumerate(self.inputs[:runs]):
                value, cotangent = (
                    self._dice.choice((-1, 1)) * 2 ** self._dice.uniform(-1, 1),
                    2 ** self._dice.uniform(-1, 1),
                )
                self._chosen[number] = self._dice.randrange(self._shape[1]), value, cotangent
                for tensor, drawn, factor in zip(inputs, self._drawn, (1.0, 1.0, value, cotangent), strict=True):
                    torch.mul(drawn.roll(self._chosen[number][0], 1), factor, out=tensor)

    def run(self) -> Tensors:
        """Queue forward, and backward into fresh gradients; return output and gradients by name."""
        number, self._turn = self._turn % self.most_runs, self._turn + 1
        query, key, value, cotangent = self.inputs[number]
        output = scaled_dot_product_attention(query, key, value, is_causal=True)
        tensors = {"output": output.detach()}
        if self._backward:
            tensors |= zip(_NAMES, torch.autograd.grad(output, (query, key, value), cotangent), strict=False)
        self._left[number] = tensors
        return tensors

    def verify(self, runs: int) -> None:
        length = self._shape[2]
        chosen = torch.randint(length, (min(length, _ROWS),))
        for number in range(runs):
            self._judged(number, chosen)

    def prove(self) -> str:
        """Hold output and gradients against the closed form: every head, every row, every number."""
        self.begin(1)
        if not self._expected:
            self._expected = _reference(dict(zip(_NAMES, self._drawn, strict=True)), self._backward, self._signs)
        witness = attention.Witness()
        try:
            with witness:
                self.run()
        except RuntimeError as error:
            if not self._kernel:
                raise
            shape = " x ".join(map(str, self._shape))
            raise CapabilityMissing(
                f"torch has no {self._kernel} kernel for {self.dtype} of {shape} here: {first_line(error)}"
            ) from error
        self.facts = {"kernel": witness.kernel}
        seen = max(self._judged(0, torch.arange(self._shape[2])), key=lambda deviation: deviation.worst)
        return f"kernel {witness.kernel}, all numbers of {len(self._left[0])} tensors: {seen.said}"

    def _judged(self, number: int, rows: torch.Tensor) -> list[Deviation]:
        (moved, value, cotangent), left = self._chosen[number], self._left[number]
        factors = {"output": value, "query": value * cotangent, "key": value * cotangent, "value": cotangent}
        require(bool(left), f"attention: run {number} of a block left nothing")
        batch, heads, length, _ = self._shape
        places = (torch.arange(batch * heads)[:, None] * length + rows).flatten().numpy()
        seen = []
        for name, tensor in left.items():
            expected = self._expected[name]
            part = ExpectedSums(expected.sums[places], expected.scale[places])
            what = "the output" if name == "output" else f"the gradient of the {name}"
            # A value times a factor is rounded to the dtype, as the first one was not.
            step = (_STEPS + 2) * unit(self._dtype, self._shape[-1])
            array = fold(tensor[:, :, rows.to(tensor.device)].roll(-moved, 1), self._signs) / factors[name]
            seen.append(part.judge(array, step, f"attention: {what}", _WHOLE if self._dtype.itemsize == 2 else WHOLE))
        return seen


def _reference(inputs: Tensors, backward: bool, signs_of_row: Floats) -> dict[str, ExpectedSums]:
    """Return what each result must fold to, in float64, from (batch, heads, length, width) on the device."""
    heads = {name: tensor.detach().flatten(0, 1) for name, tensor in inputs.items()}
    count, length, _ = heads["query"].shape

    def form(chosen: slice, place: torch.device | None) -> dict[str, Any]:
        """Compute some heads by plain products in a place, or by NumPy."""
        values: list[Any] = [heads[name][chosen].to(place or HOST.torch).double() for name in _NAMES]
        query, key, value, cotangent = values if place else [item.numpy() for item in values]
        return forms.attention(query, key, value, cotangent if backward else None, *([torch] if place else []))

    if count * length**2 <= _ON_HOST:
        parts = [form(slice(None), None)]
    else:
        place = heads["query"].device if has_float64(str(heads["query"].device)) else HOST.torch
        parts = [form(slice(index, index + 1), place) for index in range(count)]
        for name, (item, _) in form(slice(count - 1, count), None).items():
            off = np.abs(item - parts[-1][name][0].cpu().numpy()).max() / np.abs(item).max()
            require(
                off <= _AGREE,
                f"attention: the reference on {place} is {off:.1g} from NumPy's, so nothing can be held against it",
            )
    expected = {}
    for name in parts[0]:
        sums = np.concatenate([fold(torch.as_tensor(part[name][0]), signs_of_row) for part in parts])
        scale = np.concatenate([torch.as_tensor(part[name][1]).cpu().numpy().reshape(-1) for part in parts])
        expected[name] = ExpectedSums(sums, np.repeat(scale[:, None], sums.shape[1], axis=1))
    return expected


KINDS = {"attention": Attention}

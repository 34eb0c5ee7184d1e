"""Layers of torch.nn by their definitions: attention with its projections, transformers' layers, recurrent networks, parametrised weights.

`values` are a layer's parameters by torch's names, from `prefix` on; sequences are (batch, length, width). Nothing here calls a layer:
recurrent ones are torch's own decompositions, which step in Python.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn.utils import parametrizations
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from stackproof.operators.judges.references import attention as attend

Values = Mapping[str, torch.Tensor]
Shape = tuple[int, ...]
_BATCH, _LENGTH, _MEMORY, _WIDTH, _HEADS, _INNER, _STATE = 3, 5, 7, 12, 3, 20, 6
"""Heads are odd: with an even number evaluation takes one kernel for a whole layer, whose gelu another device may approximate."""
_LENGTHS = (2, 5, 3)


class DefinedLayer(NamedTuple):
    """A layer, the shapes of what it is given, its definition from values and the same, and how it is called if not by position."""

    make: Callable[[], nn.Module]
    shapes: tuple[Shape, ...]
    define: Callable[..., Any]
    call: Callable[..., Any] = lambda layer, *inputs: layer(*inputs)


def _linear(values: Values, name: str, x: torch.Tensor) -> torch.Tensor:
    product = x @ values[f"{name}weight"].mT
    return product + values[f"{name}bias"] if f"{name}bias" in values else product


def _attention(
    values: Values, query: Any, key: Any, value: Any, prefix: str = "", mask: Any = None, zero: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return what several heads give, and the mean of their shares (Vaswani et al., 2017).

    A key and a value of their own (`bias_k`, `bias_v`), and one of `zero`, stand behind all others and are never hidden.
    """
    parts = [_projected(values, prefix, place, tensor) for place, tensor in enumerate((query, key, value))]
    for place, name in ((1, "bias_k"), (2, "bias_v")):
        if f"{prefix}{name}" in values:
            parts[place] = torch.cat([parts[place], values[f"{prefix}{name}"].expand(len(query), 1, -1)], 1)
        if zero:
            parts[place] = torch.cat([parts[place], torch.zeros_like(parts[place][:, :1])], 1)
    query, key, value = (part.reshape(*part.shape[:2], _HEADS, -1).swapaxes(1, 2) for part in parts)
    if mask is not None:
        mask = nn.functional.pad(mask, (0, key.shape[2] - mask.shape[-1])).to(query)
    identity = torch.eye(key.shape[2], dtype=key.dtype, device=key.device)
    mixed, shares = (attend(query, key, vectors, mask) for vectors in (value, identity))
    return _linear(values, f"{prefix}out_proj.", mixed.swapaxes(1, 2).flatten(2)), shares.mean(1)


def _projected(values: Values, prefix: str, place: int, x: torch.Tensor) -> torch.Tensor:
    """Return a query, key or value as its own part of the matrix makes it, or its own matrix where widths differ."""
    own = f"{prefix}{'qkv'[place]}_proj_weight"
    weight = values[own] if own in values else values[f"{prefix}in_proj_weight"].chunk(3)[place]
    bias = values.get(f"{prefix}in_proj_bias")
    return x @ weight.mT + (0 if bias is None else bias.chunk(3)[place])


def _sequences_first(values: Values, *inputs: torch.Tensor) -> torch.Tensor:
    query, key, value = (tensor.swapaxes(0, 1) for tensor in inputs)
    return _attention(values, query, key, value)[0].swapaxes(0, 1)


def _layered(values: Values, x: Any, *memory: Any, first: bool = False, mask: Any = None) -> Any:
    """Return what a transformer's layer gives: attention to itself, to a memory, two linear layers; each adds to what it was given.

    Norms come `first`, with gelu, or last, with relu.
    """
    activation: Any = nn.functional.gelu if first else torch.relu
    parts: list[Callable[[Any], Any]] = [
        lambda hidden: _attention(values, hidden, hidden, hidden, "self_attn.", mask)[0],
        *(lambda hidden, m=m: _attention(values, hidden, m, m, "multihead_attn.")[0] for m in memory),
        lambda hidden: _linear(values, "linear2.", activation(_linear(values, "linear1.", hidden))),
    ]
    for number, part in enumerate(parts, 1):
        norm = partial(_norm, values, f"norm{number}")
        x = x + part(norm(x)) if first else norm(x + part(x))
    return x


def _norm(values: Values, name: str, x: torch.Tensor) -> torch.Tensor:
    deviation = (x.var(-1, correction=0, keepdim=True) + 1e-5).sqrt()
    return (x - x.mean(-1, keepdim=True)) / deviation * values[f"{name}.weight"] + values[f"{name}.bias"]


def _hidden(lengths: Sequence[int], longest: int) -> torch.Tensor:
    """Return what is added to scores so that padding is not seen: (batch, 1, 1, longest)."""
    return torch.where(torch.arange(longest) < torch.tensor(lengths)[:, None], 0.0, -torch.inf)[:, None, None]


_PADDED, _PADDING = _hidden((5, 7, 3), _MEMORY), _hidden(_LENGTHS, _LENGTH)
_LATER = torch.where(torch.ones(_LENGTH, _LENGTH).tril() > 0, 0.0, -torch.inf)
_ADDED = torch.linspace(-1, 2, _LENGTH * _MEMORY).view(_LENGTH, _MEMORY).cos()


def _attends(layer: nn.Module, *inputs: torch.Tensor, added: bool = False) -> Any:
    padding = _PADDED[:, 0, 0].to(inputs[0])
    if added:
        return layer(*inputs, attn_mask=_ADDED.to(inputs[0]), key_padding_mask=padding)
    return layer(*inputs, key_padding_mask=padding.isinf())


def _recurrent(
    kind: str, make: Any, layers: int, ways: int, lengths: tuple[int, ...] | None = None, **options: Any
) -> DefinedLayer:
    states = [(layers * ways, _BATCH, options.get("proj_size", _STATE))] + [(layers * ways, _BATCH, _STATE)] * (
        kind == "lstm"
    )

    def call(layer: Any, x: torch.Tensor, *initial: torch.Tensor) -> Any:
        packed: Any = (
            pack_padded_sequence(x, list(lengths), batch_first=True, enforce_sorted=lengths != _LENGTHS)
            if lengths
            else x
        )
        output, last = layer(packed, initial if len(initial) > 1 else initial[0])
        return pad_packed_sequence(output, batch_first=True)[0] if lengths else output, last

    def define(values: Values, x: torch.Tensor, *initial: torch.Tensor) -> Any:
        """Go through each sequence alone, up to its length."""
        way: Any = torch._decomp.decomposition_table[getattr(torch.ops.aten, kind).input]
        more = (options.get("bias", True), layers, 0.0, False, ways == 2, True)
        results = []
        for row, length in enumerate(lengths or [_LENGTH] * _BATCH):
            start = [state[:, row : row + 1] for state in initial]
            output, *last = way(
                x[row : row + 1, :length], start if len(start) > 1 else start[0], list(values.values()), *more
            )
            results.append((nn.functional.pad(output, (0, 0, 0, _LENGTH - length)), *last))
        outputs, *last = zip(*results, strict=True)
        return torch.cat(outputs), *(torch.cat(state, 1) for state in last)

    made = partial(make, _MEMORY, _STATE, layers, batch_first=True, bidirectional=ways == 2, **options)
    return DefinedLayer(made, ((_BATCH, _LENGTH, _MEMORY), *states), define, call)


def _cell(kind: str, make: Any, count: int = 1, **options: Any) -> DefinedLayer:
    """A recurrent cell: one step, as a sequence of length one."""

    def define(values: Values, x: torch.Tensor, *initial: torch.Tensor) -> Any:
        way: Any = torch._decomp.decomposition_table[getattr(torch.ops.aten, kind).input]
        start = [state[None] for state in initial]
        args = (list(values.values()), True, 1, 0.0, False, False, True)
        ends = way(x[:, None], start if count > 1 else start[0], *args)[1:]
        return [end.reshape(state.shape) for end, state in zip(ends, initial, strict=True)]

    return DefinedLayer(
        partial(make, _MEMORY, _STATE, **options), ((_BATCH, _MEMORY), *[(_BATCH, _STATE)] * count), define,
        lambda layer, x, *initial: layer(x, initial if count > 1 else initial[0]),
    )  # fmt: skip


def _length_and_way(values: Values, x: Any) -> Any:
    """Rows of one matrix with the lengths of another (Salimans and Kingma, 2016)."""
    lengths, ways = (values[f"parametrizations.weight.original{place}"] for place in (0, 1))
    return x @ (lengths * ways / ways.norm(dim=1, keepdim=True)).mT + values["bias"]


def _by_largest(values: Values, x: Any) -> Any:
    """Divided by what its two vectors say of its largest singular value (Miyato et al., 2018); in evaluation these stay."""
    weight, u, v = (values[f"parametrizations.weight.{name}"] for name in ("original", "0._u", "0._v"))
    return x @ (weight / (u @ weight @ v)).mT + values["bias"]


_SEQUENCE, _OTHERS = (_BATCH, _LENGTH, _WIDTH), (_BATCH, _MEMORY, _WIDTH)
_MADE = partial(nn.MultiheadAttention, _WIDTH, _HEADS, batch_first=True)
_ENCODER, _DECODER = (
    partial(make, _WIDTH, _HEADS, _INNER, 0.0, batch_first=True)
    for make in (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer)
)
_RECURRENT: Mapping[str, tuple[str, Any, dict[str, Any]]] = {
    "recurrent": ("rnn_tanh", nn.RNN, {}),
    "recurrent, relu": ("rnn_relu", nn.RNN, {"nonlinearity": "relu"}),
    "lstm": ("lstm", nn.LSTM, {}),
    "lstm, projected": ("lstm", nn.LSTM, {"proj_size": 4, "bias": False}),
    "gru": ("gru", nn.GRU, {}),
    "gru, without bias": ("gru", nn.GRU, {"bias": False}),
}
LAYERS: Mapping[str, DefinedLayer] = {
    "attention": DefinedLayer(_MADE, (_SEQUENCE, _OTHERS, _OTHERS), partial(_attention, mask=_PADDED), _attends),
    "attention, masked": DefinedLayer(
        _MADE, (_SEQUENCE, _OTHERS, _OTHERS), partial(_attention, mask=_PADDED + _ADDED), partial(_attends, added=True)
    ),
    "attention, more keys": DefinedLayer(
        partial(_MADE, add_bias_kv=True, add_zero_attn=True), (_SEQUENCE, _OTHERS, _OTHERS),
        partial(_attention, mask=_PADDED, zero=True), _attends,
    ),
    "attention, other widths": DefinedLayer(
        partial(_MADE, kdim=8, vdim=9, bias=False), (_SEQUENCE, (*_OTHERS[:2], 8), (*_OTHERS[:2], 9)), _attention,
    ),
    "attention, sequences first": DefinedLayer(
        partial(nn.MultiheadAttention, _WIDTH, _HEADS), tuple((shape[1], shape[0], shape[2]) for shape in (_SEQUENCE, _OTHERS, _OTHERS)),
        _sequences_first, lambda layer, *inputs: layer(*inputs, need_weights=False)[0],
    ),
    "encoder layer": DefinedLayer(
        _ENCODER, (_SEQUENCE,), partial(_layered, mask=_PADDING),
        lambda layer, x: layer(x, src_key_padding_mask=_PADDING[:, 0, 0].isinf().to(x.device)),
    ),
    "encoder layer, norms first": DefinedLayer(
        partial(_ENCODER, activation="gelu", norm_first=True), (_SEQUENCE,), partial(_layered, first=True)
    ),
    "decoder layer": DefinedLayer(
        _DECODER, (_SEQUENCE, _OTHERS), partial(_layered, mask=_LATER),
        lambda layer, *inputs: layer(*inputs, tgt_mask=_LATER.to(inputs[0]), tgt_is_causal=True),
    ),
    "decoder layer, norms first": DefinedLayer(
        partial(_DECODER, activation="gelu", norm_first=True), (_SEQUENCE, _OTHERS), partial(_layered, first=True, mask=_LATER),
        lambda layer, *inputs: layer(*inputs, tgt_mask=_LATER.to(inputs[0]), tgt_is_causal=True),
    ),
    **{
        f"{name}{kind}": _recurrent(way, make, 2, sides, lengths, **options)
        for name, (way, make, options) in _RECURRENT.items()
        for kind, sides, lengths in (("", 2, None), (", packed", 2, _LENGTHS), (", packed by length", 1, (5, 5, 2)))
    },
    "recurrent cell": _cell("rnn_relu", nn.RNNCell, nonlinearity="relu"),
    "lstm cell": _cell("lstm", nn.LSTMCell, 2),
    "gru cell": _cell("gru", nn.GRUCell),
    "weight norm": DefinedLayer(lambda: parametrizations.weight_norm(nn.Linear(_MEMORY, 5)), ((4, _MEMORY),), _length_and_way),
    "spectral norm": DefinedLayer(lambda: parametrizations.spectral_norm(nn.Linear(_MEMORY, 5)).eval(), ((4, _MEMORY),), _by_largest),
}  # fmt: skip

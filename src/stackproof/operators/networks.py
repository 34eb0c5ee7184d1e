"""Modules of torch.nn by their definitions, in NumPy: attention with its projections, transformers' layers, and recurrent networks.

`values` are a module's parameters by torch's names, from `prefix` on; sequences are (batch, length, width).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from stackproof.operators import forms
from stackproof.operators.forms import Floats

Values = Mapping[str, Floats]
_EPS = 1e-5


def _relu(values: Floats) -> Floats:
    return np.maximum(values, 0.0)


def _linear(values: Values, name: str, given: Floats) -> Floats:
    found: Floats = given @ values[f"{name}weight"].T
    return found + values[f"{name}bias"] if f"{name}bias" in values else found


# ---- attention (Vaswani et al., 2017)


def attention(
    values: Values,
    query: Floats,
    key: Floats,
    value: Floats,
    heads: int,
    prefix: str = "",
    hidden: Any = None,
    zero: bool = False,
) -> tuple[Floats, Floats]:
    """Return what several heads give, and the mean of their shares; `hidden` (batch, 1, queries, keys) is added to scores.

    A key and a value of their own (`bias_k`, `bias_v`), and one of `zero`, stand behind all others and are never hidden.
    """
    parts = [_heads(_projected(values, prefix, place, one), heads) for place, one in enumerate((query, key, value))]
    for place, name in ((1, "bias_k"), (2, "bias_v")):
        if f"{prefix}{name}" in values:
            own = np.broadcast_to(values[f"{prefix}{name}"], (len(query), 1, query.shape[-1]))
            parts[place] = np.concatenate([parts[place], _heads(own, heads)], 2)
        if zero:
            parts[place] = np.concatenate([parts[place], np.zeros_like(parts[place][:, :, :1])], 2)
    scores = parts[0] @ parts[1].swapaxes(2, 3) / math.sqrt(parts[0].shape[-1])
    if hidden is not None:
        more = scores.shape[-1] - hidden.shape[-1]
        scores = scores + np.pad(hidden, [(0, 0)] * 3 + [(0, more)])
    shares = forms.softmax(scores, -1)
    mixed = (shares @ parts[2]).swapaxes(1, 2).reshape(*query.shape[:2], -1)
    return _linear(values, f"{prefix}out_proj.", mixed), shares.mean(1)


def _projected(values: Values, prefix: str, place: int, given: Floats) -> Floats:
    """Return a query, key or value as its own part of the matrix makes it, or its own matrix where widths differ."""
    own = f"{prefix}{'qkv'[place]}_proj_weight"
    weight = values[own] if own in values else np.split(values[f"{prefix}in_proj_weight"], 3)[place]
    bias = values.get(f"{prefix}in_proj_bias")
    return np.asarray(given @ weight.T + (0 if bias is None else np.split(bias, 3)[place]))


def _heads(given: Floats, heads: int) -> Floats:
    batch, length, width = given.shape
    return given.reshape(batch, length, heads, width // heads).swapaxes(1, 2)


def causal(length: int) -> Floats:
    """Return what hides all that comes later: (1, 1, length, length)."""
    return np.where(np.tri(length) > 0, 0.0, -np.inf)[None, None]


# ---- layers of a transformer


def _norm(values: Values, name: str, given: Floats) -> Floats:
    return forms.layer_norm(given, values[f"{name}.weight"], values[f"{name}.bias"], _EPS)


def _forward(values: Values, given: Floats, activation: str) -> Floats:
    return _linear(
        values, "linear2.", (forms.gelu if activation == "gelu" else _relu)(_linear(values, "linear1.", given))
    )


def _chained(values: Values, given: Floats, parts: Sequence[Callable[[Floats], Floats]], first: bool) -> Floats:
    """Add what each part gives to what it was given, and norm before or after."""
    for number, part in enumerate(parts, 1):
        norm = f"norm{number}"
        given = given + part(_norm(values, norm, given)) if first else _norm(values, norm, given + part(given))
    return given


def encoder_layer(
    values: Values, given: Floats, heads: int, activation: str = "relu", first: bool = False, hidden: Any = None
) -> Floats:
    """Attention to itself and two linear layers, each with what it was given added; norms come `first` or last."""
    own = lambda one: attention(values, one, one, one, heads, "self_attn.", hidden)[0]  # noqa: E731
    return _chained(values, given, (own, lambda one: _forward(values, one, activation)), first)


def decoder_layer(
    values: Values, given: Floats, memory: Floats, heads: int, activation: str = "relu", first: bool = False
) -> Floats:
    """Attention to what came before, attention to a memory, and two linear layers."""
    later = causal(given.shape[1])
    own = lambda one: attention(values, one, one, one, heads, "self_attn.", later)[0]  # noqa: E731
    other = lambda one: attention(values, one, memory, memory, heads, "multihead_attn.")[0]  # noqa: E731
    return _chained(values, given, (own, other, lambda one: _forward(values, one, activation)), first)


# ---- recurrent networks


def _sigmoid(x: Floats) -> Floats:
    return np.asarray(1 / (1 + np.exp(-x)))


def _gates(values: Values, at: str, given: Floats, state: Floats) -> tuple[Floats, Floats]:
    """Return what the input and what the state give to all gates."""
    inner, outer = given @ values[f"weight_ih{at}"].T, state @ values[f"weight_hh{at}"].T
    if f"bias_ih{at}" in values:
        inner, outer = inner + values[f"bias_ih{at}"], outer + values[f"bias_hh{at}"]
    return inner, outer


def _plain(activation: str) -> Callable[..., tuple[Floats, ...]]:
    def step(values: Values, at: str, given: Floats, state: Floats) -> tuple[Floats, ...]:
        inner, outer = _gates(values, at, given, state)
        return (np.tanh(inner + outer) if activation == "tanh" else np.maximum(inner + outer, 0),)

    return step


def _lstm(values: Values, at: str, given: Floats, state: Floats, cell: Floats) -> tuple[Floats, ...]:
    """Gates of input, forgetting, candidate and output (Hochreiter and Schmidhuber, 1997), then a projection if there is one."""
    i, f, g, o = np.split(np.add(*_gates(values, at, given, state)), 4, -1)
    cell = _sigmoid(f) * cell + _sigmoid(i) * np.tanh(g)
    state = _sigmoid(o) * np.tanh(cell)
    return state @ values[f"weight_hr{at}"].T if f"weight_hr{at}" in values else state, cell


def _gru(values: Values, at: str, given: Floats, state: Floats) -> tuple[Floats, ...]:
    """Gates of reset and update; reset is taken after the product with the state (Cho et al., 2014, as cuDNN has it)."""
    (r, z, n), (r2, z2, n2) = (np.split(one, 3, -1) for one in _gates(values, at, given, state))
    update = _sigmoid(z + z2)
    return ((1 - update) * np.tanh(n + _sigmoid(r + r2) * n2) + update * state,)


STEPS: Mapping[str, Callable[..., tuple[Floats, ...]]] = {
    "tanh": _plain("tanh"), "relu": _plain("relu"), "lstm": _lstm, "gru": _gru
}  # fmt: skip


def recurrent(
    values: Values, kind: str, given: Floats, states: Sequence[Floats], lengths: Sequence[int] | None = None
) -> tuple[Floats, ...]:
    """Return the output of the last layer and the last states (layers x directions, batch, width); beyond `lengths` there are zeros."""
    ways = 2 if any("reverse" in name for name in values) else 1
    last: list[tuple[Floats, ...]] = []
    for layer in range(len(states[0]) // ways):
        found = []
        for way in range(ways):
            at = f"_l{layer}{'_reverse' * way}"
            start = tuple(one[layer * ways + way] for one in states)
            output, end = _run(values, at, kind, given, start, lengths or [given.shape[1]] * len(given), way == 1)
            found.append(output)
            last.append(end)
        given = np.concatenate(found, -1)
    return given, *(np.stack(one) for one in zip(*last, strict=True))


def _run(
    values: Values, at: str, kind: str, given: Floats, start: tuple[Floats, ...], lengths: Sequence[int], back: bool
) -> tuple[Floats, tuple[Floats, ...]]:
    """Go through each sequence of a batch in one direction; return all outputs, and the last states."""
    output = np.zeros((*given.shape[:2], start[0].shape[-1]))
    ends = []
    for row, length in enumerate(lengths):
        state = tuple(one[row] for one in start)
        for place in reversed(range(length)) if back else range(length):
            state = STEPS[kind](values, at, given[row, place], *state)
            output[row, place] = state[0]
        ends.append(state)
    return output, tuple(np.stack(one) for one in zip(*ends, strict=True))

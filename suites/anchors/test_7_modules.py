"""Modules of torch.nn against their definitions in NumPy: attention with projections, transformers' layers, recurrent networks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from stackproof.device.kinds import Device
from stackproof.operators import networks
from stackproof.operators.arrays import Array
from stackproof.operators.definitions import ALLOWED, Argument, near, sloped, slopes
from stackproof.operators.networks import Values
from stackproof.record.records import Figure
from suites.anchors.held import Floats, drawn, settings

_BATCH, _LENGTH, _WIDTH, _HEADS, _INNER = 3, 5, 12, 3, 20
"""Heads are odd: with an even number evaluation takes one kernel for a whole layer, whose gelu another device may approximate."""
_OTHER = 7
"""How long what is attended to is, and in recurrent networks how wide an input."""
_LENGTHS = (2, 5, 3)
_SEQUENCE, _MEMORY = (_BATCH, _LENGTH, _WIDTH), (_BATCH, _OTHER, _WIDTH)
Arrays = Mapping[str, Floats]


class _Held(NamedTuple):
    """A module, the shapes of what it is given by name, its definition, and how it is called if not by position."""

    make: Callable[[], nn.Module]
    given: Mapping[str, tuple[int, ...]]
    define: Callable[[Values, Arrays], tuple[Floats, ...]]
    call: Callable[..., Any] = lambda module, **given: module(*given.values())


# ---- attention

_hide = np.zeros((_BATCH, 1, 1, _OTHER))
_hide[0, ..., -2:] = _hide[2, ..., 3] = -np.inf
_HIDDEN: Floats = _hide
"""Padding at the end of the first sequence, and a place in the middle of the last."""
_ADDED = drawn(_LENGTH, _OTHER, key=11)
_QUERIES = {"query": _SEQUENCE, "key": _MEMORY, "value": _MEMORY}


def _attends(module: nn.Module, mask: bool = False, **given: torch.Tensor) -> Any:
    """Call attention with padding that is hidden, and with a mask that is added."""
    query = given["query"]
    more: dict[str, Any] = {"key_padding_mask": torch.from_numpy(np.isinf(_HIDDEN[:, 0, 0])).to(query.device)}
    if mask:
        numbers = torch.from_numpy(_ADDED).to(query)
        more = {"attn_mask": numbers, "key_padding_mask": torch.from_numpy(_HIDDEN[:, 0, 0].copy()).to(query)}
    return module(given["query"], given["key"], given["value"], **more)


def _attention(hidden: Floats = _HIDDEN, zero: bool = False) -> Callable[[Values, Arrays], tuple[Floats, ...]]:
    return lambda values, x: networks.attention(
        values, x["query"], x["key"], x["value"], _HEADS, hidden=hidden, zero=zero
    )


def _turned(values: Values, x: Arrays) -> tuple[Floats, ...]:
    """Sequences come first, without the weights of attention."""
    query, key, value = (x[name].swapaxes(0, 1) for name in _QUERIES)
    output, _ = networks.attention(values, query, key, value, _HEADS)
    return (output.swapaxes(0, 1),)


_made = partial(nn.MultiheadAttention, _WIDTH, _HEADS, batch_first=True)
_ATTENTION: Mapping[str, _Held] = {
    "attention": _Held(_made, _QUERIES, _attention(), _attends),
    "attention, masked": _Held(_made, _QUERIES, _attention(_HIDDEN + _ADDED), partial(_attends, mask=True)),
    "attention, more keys": _Held(
        partial(_made, add_bias_kv=True, add_zero_attn=True), _QUERIES, _attention(zero=True), _attends
    ),
    "attention, other widths": _Held(
        partial(_made, kdim=8, vdim=9, bias=False),
        {**_QUERIES, "key": (*_MEMORY[:2], 8), "value": (*_MEMORY[:2], 9)}, _attention(), _attends,
    ),
    "attention, sequences first": _Held(
        partial(nn.MultiheadAttention, _WIDTH, _HEADS), {name: (shape[1], shape[0], shape[2]) for name, shape in _QUERIES.items()},
        _turned, lambda module, **given: module(*given.values(), need_weights=False)[:1],
    ),
}  # fmt: skip


# ---- layers of a transformer

_layer: dict[str, Any] = {"dim_feedforward": _INNER, "dropout": 0.0, "batch_first": True}
_PADDED: Floats = np.where(np.arange(_LENGTH) < np.asarray(_LENGTHS)[:, None], 0.0, -np.inf)[:, None, None]


def _encodes(module: nn.Module, **given: torch.Tensor) -> Any:
    return module(
        *given.values(), src_key_padding_mask=torch.from_numpy(np.isinf(_PADDED[:, 0, 0])).to(given["x"].device)
    )


def _decodes(module: nn.Module, **given: torch.Tensor) -> Any:
    later = nn.Transformer.generate_square_subsequent_mask(_LENGTH, given["x"].device, given["x"].dtype)
    return module(*given.values(), tgt_mask=later, tgt_is_causal=True)


_LAYERS: Mapping[str, _Held] = {
    "encoder layer": _Held(
        partial(nn.TransformerEncoderLayer, _WIDTH, _HEADS, **_layer), {"x": _SEQUENCE},
        lambda values, x: (networks.encoder_layer(values, x["x"], _HEADS, hidden=_PADDED),), _encodes,
    ),
    "encoder layer, norms first": _Held(
        partial(nn.TransformerEncoderLayer, _WIDTH, _HEADS, **_layer, activation="gelu", norm_first=True), {"x": _SEQUENCE},
        lambda values, x: (networks.encoder_layer(values, x["x"], _HEADS, "gelu", True),),
    ),
    "decoder layer": _Held(
        partial(nn.TransformerDecoderLayer, _WIDTH, _HEADS, **_layer), {"x": _SEQUENCE, "memory": _MEMORY},
        lambda values, x: (networks.decoder_layer(values, x["x"], x["memory"], _HEADS),), _decodes,
    ),
    "decoder layer, norms first": _Held(
        partial(nn.TransformerDecoderLayer, _WIDTH, _HEADS, **_layer, activation="gelu", norm_first=True),
        {"x": _SEQUENCE, "memory": _MEMORY},
        lambda values, x: (networks.decoder_layer(values, x["x"], x["memory"], _HEADS, "gelu", True),), _decodes,
    ),
}  # fmt: skip


# ---- recurrent networks


def _steps(
    module: nn.Module, lengths: tuple[int, ...] | None = None, **given: torch.Tensor
) -> tuple[torch.Tensor, ...]:
    """Call a recurrent network with its first states, packed where sequences have lengths; return the output and the last states."""
    x, *states = given.values()
    packed: Any = pack_padded_sequence(x, list(lengths), batch_first=True, enforce_sorted=False) if lengths else x
    output, last = module(packed, tuple(states) if len(states) > 1 else states[0])
    output = pad_packed_sequence(output, batch_first=True)[0] if lengths else output
    return (output, *(last if isinstance(last, tuple) else (last,)))


def _recurrent(
    kind: str, made: Any, layers: int, ways: int, lengths: tuple[int, ...] | None = None, **options: Any
) -> _Held:
    width = options.get("proj_size", 6)
    states = {"state": (layers * ways, _BATCH, width)} | (
        {"cell": (layers * ways, _BATCH, 6)} if kind == "lstm" else {}
    )
    return _Held(
        partial(made, _OTHER, 6, layers, batch_first=True, bidirectional=ways == 2, **options),
        {"x": (_BATCH, _LENGTH, _OTHER), **states},
        lambda values, x: networks.recurrent(values, kind, x["x"], [x[name] for name in states], lengths),
        partial(_steps, lengths=lengths),
    )


def _cell(kind: str, made: Any, *states: str, **options: Any) -> _Held:
    """One step of a row, whose parameters have no layer in their names."""
    return _Held(
        partial(made, _OTHER, 6, **options), {"x": (_BATCH, _OTHER), **dict.fromkeys(states, (_BATCH, 6))},
        lambda values, x: networks.STEPS[kind](values, "", *x.values()),
        lambda module, x, **old: module(x, tuple(old.values()) if len(old) > 1 else old["state"]),
    )  # fmt: skip


_RECURRENT: Mapping[str, _Held] = {
    "recurrent": _recurrent("tanh", nn.RNN, 2, 1),
    "recurrent, relu": _recurrent("relu", nn.RNN, 1, 2, nonlinearity="relu"),
    "lstm": _recurrent("lstm", nn.LSTM, 2, 2),
    "lstm, packed": _recurrent("lstm", nn.LSTM, 1, 2, _LENGTHS),
    "lstm, projected": _recurrent("lstm", nn.LSTM, 2, 1, proj_size=4, bias=False),
    "gru": _recurrent("gru", nn.GRU, 2, 2),
    "gru, packed": _recurrent("gru", nn.GRU, 2, 1, _LENGTHS, bias=False),
    "recurrent cell": _cell("relu", nn.RNNCell, "state", nonlinearity="relu"),
    "lstm cell": _cell("lstm", nn.LSTMCell, "state", "cell"),
    "gru cell": _cell("gru", nn.GRUCell, "state"),
}


# ---- weights that are made of others

_AT = "parametrizations.weight"


def _length_and_way(values: Values, x: Arrays) -> tuple[Floats, ...]:
    """Rows of one matrix with the lengths of another (Salimans and Kingma, 2016)."""
    lengths, ways = values[f"{_AT}.original0"], values[f"{_AT}.original1"]
    weight = lengths * ways / np.linalg.norm(ways, axis=1, keepdims=True)
    return (x["x"] @ weight.T + values["bias"],)


def _by_largest(values: Values, x: Arrays) -> tuple[Floats, ...]:
    """Divided by what its two vectors say of its largest singular value (Miyato et al., 2018); in evaluation these stay."""
    weight = values[f"{_AT}.original"]
    return (x["x"] @ (weight / (values[f"{_AT}.0._u"] @ weight @ values[f"{_AT}.0._v"])).T + values["bias"],)


_MADE: Mapping[str, _Held] = {
    "weight norm": _Held(
        lambda: parametrizations.weight_norm(nn.Linear(_OTHER, 5)), {"x": (4, _OTHER)}, _length_and_way
    ),
    "spectral norm": _Held(
        lambda: parametrizations.spectral_norm(nn.Linear(_OTHER, 5)).eval(), {"x": (4, _OTHER)}, _by_largest
    ),
}

_MODULES: Mapping[str, _Held] = {**_ATTENTION, **_LAYERS, **_RECURRENT, **_MADE}


@pytest.mark.deadline(60)
@pytest.mark.parametrize("name", _MODULES)
def test_module(name: str, device: Device, figures: dict[str, Figure]) -> None:
    """Every result, also in evaluation without gradients, and the gradient of every parameter and of what was given."""
    held, worst = _MODULES[name], 0.0
    module = held.make()
    state = {
        key: drawn(*value.shape, key=number) / 2 for number, (key, value) in enumerate(module.state_dict().items())
    }
    arrays = {key: drawn(*shape, key=100 + number) for number, (key, shape) in enumerate(held.given.items())}
    exact = held.define(state, arrays)
    weights = [Argument("fixed", one.shape).draw(number) for number, one in enumerate(exact)]
    learned = {key for key, _ in module.named_parameters()}
    wanted = {key: tuple(slopes(partial(_weighed, held, state, arrays, weights, key), one))
              for key, one in {**arrays, **{key: one for key, one in state.items() if key in learned}}.items()}  # fmt: skip
    for place, dtype in settings(device):
        said = f"{name} in {dtype}"
        module.to(place, dtype).load_state_dict({key: torch.from_numpy(one) for key, one in state.items()})
        given = {key: torch.tensor(one, dtype=dtype, device=place, requires_grad=True) for key, one in arrays.items()}
        found = _results(held.call(module, **given))
        for number, (one, value) in enumerate(zip(found, exact, strict=True)):
            worst = max(worst, near(one, value, ALLOWED[dtype], f"{said}: result {number}"))
        leaves = {**given, **dict(module.named_parameters())}
        total = sum((one * torch.from_numpy(weight).to(one)).sum() for one, weight in zip(found, weights, strict=True))
        gradients = torch.autograd.grad(total, list(leaves.values()))  # type: ignore[arg-type]
        for key, gradient in zip(leaves, gradients, strict=True):
            worst = max(worst, sloped(gradient, wanted[key], None, f"{said}: {key}"))
        worst = max(worst, _evaluated(held, module, given, exact, f"{said}, in evaluation"))
    figures["summary"] = (
        f"{len(exact)} results and {len(wanted)} gradients are the definition's, worst at {worst:.0%} of what is allowed"
    )


def _weighed(held: _Held, state: Values, arrays: Arrays, weights: list[Array], key: str, moved: Array) -> float:
    """Return the weighed sum of all results where one parameter, or one of what is given, is `moved`."""
    found = held.define(
        {**state, key: moved} if key in state else state, arrays if key in state else {**arrays, key: moved}
    )
    return float(sum((one * weight).sum() for one, weight in zip(found, weights, strict=True)))


def _results(found: Any) -> tuple[torch.Tensor, ...]:
    return found if isinstance(found, tuple) else (found,)


def _evaluated(
    held: _Held, module: nn.Module, given: Mapping[str, torch.Tensor], exact: tuple[Floats, ...], said: str
) -> float:
    """Evaluation without gradients may go other ways, such as a library's for inference."""
    training = module.training
    module.eval()
    with torch.no_grad():
        found = _results(held.call(module, **given))
    module.train(training)
    return max(near(one, value, ALLOWED[one.dtype], said) for one, value in zip(found, exact, strict=True))

"""Adapters of peft against their definitions in NumPy: by kinds of layers, and as they are switched, merged and kept."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import nn

from stackproof.base import places
from stackproof.device.kinds import Device
from stackproof.operators import forms
from stackproof.record.checks import CapabilityMissing, require
from stackproof.record.records import Figure
from suites.anchors.held import Floats, drawn, hold, settings
from suites.common import SEED

_INNER, _OUTER, _RANK, _SCALING = 129, 64, 8, 2.0
_LENGTHS = "lora_magnitude_vector.default.weight"
_RATE, _ROWS = 0.125, 4096
"""Five deviations of the share of so many rows' numbers are 1.8 % of the rate."""


def _peft() -> Any:
    """Return the package, or end the check with the rule that says why this environment has none."""
    try:
        import peft
    except ImportError as error:
        rule = f"{places.table('workloads.toml')}: peft is not installed, whose layers these are"
        raise CapabilityMissing(rule) from error
    return peft


def _config(rank: int = _RANK, **more: Any) -> Any:
    """Return the configuration of adapters for the one layer of a network."""
    options = {"lora_alpha": rank * _SCALING, "lora_dropout": 0.0, "target_modules": ["0"], **more}
    return _peft().LoraConfig(r=rank, **options)


def _possible(options: Mapping[str, Any]) -> Any:
    """Return a configuration, or end the check with the rule that says that this release of peft has no such adapters."""
    lacking = [name for name in options if name not in inspect.signature(_peft().LoraConfig).parameters]
    if lacking:
        raise CapabilityMissing(
            f"{places.table('workloads.toml')}: peft {_peft().__version__} has no {', '.join(lacking)}"
        )
    return _config(**options)


def _fill(layer: Any, values: Mapping[str, Floats]) -> None:
    """Give parameters of a layer other values, by their dotted names."""
    with torch.no_grad():
        for name, value in values.items():
            layer.get_parameter(name).copy_(torch.tensor(value))


@pytest.mark.deadline(60)
def test_linear(device: Device, figures: dict[str, Figure]) -> None:
    """Of a linear layer: y = x W' + s (x A') B'; dA = s (dy B)' x and dB = s dy' (x A'), at the sizes of the tiny and of a full model."""
    for inner, outer, rank, scaling in ((64, 40, 8, 2.0), (1024, 96, 8, 2.0), (3072, 64, 8, 2.0), (129, 64, 33, 0.5)):
        x, w, dy = drawn(3, inner), drawn(outer, inner, key=1), drawn(3, outer, key=2)
        a, b = drawn(rank, inner, key=3), drawn(outer, rank, key=4)
        exact = {
            "output": x @ w.T + scaling * (x @ a.T) @ b.T,
            "A": scaling * (dy @ b).T @ x,
            "B": scaling * dy.T @ (x @ a.T),
            "input": dy @ w + scaling * (dy @ b) @ a,
        }
        exact["merged"] = exact["output"]
        for place, dtype in settings(device):
            model = (
                _peft()
                .get_peft_model(
                    nn.Sequential(nn.Linear(inner, outer, bias=False)), _config(rank, lora_alpha=rank * scaling)
                )
                .to(place, dtype)
            )
            layer = model.base_model.model[0]
            _fill(layer, {"base_layer.weight": w, "lora_A.default.weight": a, "lora_B.default.weight": b})
            down, up = layer.lora_A["default"].weight, layer.lora_B["default"].weight
            given = torch.tensor(x, dtype=dtype, device=place, requires_grad=True)
            output = layer(given)
            output.backward(torch.tensor(dy, dtype=dtype, device=place))
            found = {"output": output, "A": down.grad, "B": up.grad, "input": given.grad}
            found["merged"] = model.merge_and_unload()(given)
            figures[f"{inner} inputs, {dtype}"] = hold(found, exact, dtype, f"LoRA of {inner} inputs")
    figures["summary"] = (
        "a LoRA layer, with the gradients of A and B, is its definition for 64 to 3072 inputs, and merged"
    )


class _Kind(NamedTuple):
    """A layer, what it is given, the values of its parameters, and what is expected of the output and of gradients, by their names."""

    layer: nn.Module
    given: npt.NDArray[Any]
    values: dict[str, Floats]
    exact: dict[str, Floats]


def _convolution() -> _Kind:
    """A goes through the picture as the layer's own kernel does, B is one pixel wide."""
    x, w = drawn(2, 3, 9, 8), drawn(5, 3, 3, 3, key=1)
    a, b = drawn(_RANK, 3, 3, 3, key=2), drawn(5, _RANK, 1, 1, key=3)
    middle = forms.convolve(x, a, 2, 1)
    output = forms.convolve(x, w, 2, 1) + _SCALING * forms.convolve(middle, b, 1, 0)
    slope = _SCALING * _slope(output)
    back = np.einsum("kr,nkhw->nrhw", b[..., 0, 0], slope)
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))[:, :, ::2, ::2]
    gradients = {"A": np.einsum("nrhw,nchwij->rcij", back, windows), "B": np.einsum("nkhw,nrhw->kr", slope, middle)}
    gradients["B"] = gradients["B"][..., None, None]
    return _Kind(nn.Conv2d(3, 5, 3, 2, 1, bias=False), x, _named(w, a, b), {"output": output, **_moved(gradients)})


def _embedding() -> _Kind:
    """A row of the table, and the column of A that is its own, turned by B."""
    x, w = np.random.default_rng(SEED).integers(0, 40, (3, 7)), drawn(40, 16, key=1)
    a, b = drawn(_RANK, 40, key=2), drawn(16, _RANK, key=3)
    output = w[x] + _SCALING * a.T[x] @ b.T
    slope = _SCALING * _slope(output).reshape(-1, 16)
    down, up = np.zeros(a.T.shape), slope.T @ a.T[x.ravel()]
    np.add.at(down, x.ravel(), slope @ b)
    names = ("lora_embedding_A.default", "lora_embedding_B.default")
    exact = {"output": output, names[0]: down.T, names[1]: up}
    return _Kind(nn.Embedding(40, 16), x, {"base_layer.weight": w, names[0]: a, names[1]: b}, exact)


def _decomposed() -> _Kind:
    """Rows of the sum of matrices are given lengths of their own; those that they have count as constants (DoRA: Liu et al., 2024, 4.3)."""
    x, w = drawn(3, _INNER), drawn(_OUTER, _INNER, key=1)
    a, b, lengths = drawn(_RANK, _INNER, key=2), drawn(_OUTER, _RANK, key=3), np.abs(drawn(_OUTER, key=4)) + 1
    whole = w + _SCALING * b @ a
    had = np.linalg.norm(whole, axis=1)
    output = x @ whole.T * lengths / had
    slope = _slope(output)
    back = _SCALING * slope * lengths / had
    gradients = _moved({"A": (back @ b).T @ x, "B": back.T @ (x @ a.T)})
    gradients[_LENGTHS] = (slope * (x @ whole.T) / had).sum(0)
    values = {**_named(w, a, b), _LENGTHS: lengths}
    return _Kind(nn.Linear(_INNER, _OUTER, bias=False), x, values, {"output": output, **gradients})


def _with_bias() -> _Kind:
    """B has a bias of its own, which is scaled with it, beside that of the layer."""
    x, w, c = drawn(3, _INNER), drawn(_OUTER, _INNER, key=1), drawn(_OUTER, key=5)
    a, b, d = drawn(_RANK, _INNER, key=2), drawn(_OUTER, _RANK, key=3), drawn(_OUTER, key=4)
    output = x @ w.T + c + _SCALING * ((x @ a.T) @ b.T + d)
    slope = _SCALING * _slope(output)
    gradients = _moved({"A": (slope @ b).T @ x, "B": slope.T @ (x @ a.T)}) | {"lora_B.default.bias": slope.sum(0)}
    values = {**_named(w, a, b), "base_layer.bias": c, "lora_B.default.bias": d}
    return _Kind(nn.Linear(_INNER, _OUTER), x, values, {"output": output, **gradients})


def _slope(output: Floats) -> Floats:
    """Return the gradient that an output is given."""
    return drawn(*output.shape, key=9)


def _named(w: Floats, a: Floats, b: Floats, adapter: str = "default") -> dict[str, Floats]:
    return {"base_layer.weight": w, f"lora_A.{adapter}.weight": a, f"lora_B.{adapter}.weight": b}


def _moved(gradients: Mapping[str, Floats]) -> dict[str, Floats]:
    return {f"lora_{matrix}.default.weight": value for matrix, value in gradients.items()}


_KINDS: Mapping[str, tuple[Callable[[], _Kind], dict[str, Any]]] = {
    "convolution": (_convolution, {}),
    "embedding": (_embedding, {}),
    "decomposed": (_decomposed, {"use_dora": True}),
    "with-bias": (_with_bias, {"lora_bias": True}),
}


@pytest.mark.deadline(60)
@pytest.mark.parametrize("kind", _KINDS)
def test_kind(kind: str, device: Device, figures: dict[str, Figure]) -> None:
    """Of other layers: what they give, merged too, and the gradients of adapters, which alone get any."""
    make, options = _KINDS[kind]
    for place, dtype in settings(device):
        layer, x, values, exact = make()
        model = _peft().get_peft_model(nn.Sequential(layer), _possible(options)).to(place, dtype)
        adapted = model.base_model.model[0]
        _fill(adapted, values)
        given = torch.tensor(x, device=place, dtype=None if x.dtype.kind == "i" else dtype)
        output = model(given)
        output.backward(torch.tensor(_slope(exact["output"]), device=place, dtype=dtype))
        found = {name: one.grad for name, one in adapted.named_parameters() if one.grad is not None}
        reached, asked = set(found), set(exact) - {"output"}
        require(reached == asked, f"{kind}: gradients went to {sorted(reached)}, {sorted(asked)} were to get them")
        found |= {"output": output, "merged": model.merge_and_unload()(given)}
        figures[str(dtype)] = hold(found, {**exact, "merged": exact["output"]}, dtype, f"adapters of kind {kind}")
    figures["summary"] = f"adapters of kind {kind} give what their definition gives, with gradients, also merged"


@pytest.mark.deadline(60)
def test_ways(device: Device, tmp_path: Path, figures: dict[str, Figure]) -> None:
    """Two adapters, one divided by the root of its rank: one by one, together, switched off, merged, parted again, and kept."""
    x, w = drawn(3, _INNER), drawn(_OUTER, _INNER, key=1)
    first = drawn(_RANK, _INNER, key=2), drawn(_OUTER, _RANK, key=3)
    other = drawn(5, _INNER, key=4), drawn(_OUTER, 5, key=5)
    parts = [_SCALING * x @ first[0].T @ first[1].T, 10.0 / math.sqrt(5) * x @ other[0].T @ other[1].T]
    plain, both = x @ w.T, x @ w.T + parts[0] + parts[1]
    exact = {
        "the first": plain + parts[0], "the other": plain + parts[1], "both": both, "none": plain, "both again": both,
        "merged": both, "merged safely": both, "none of the merged": plain, "parted": both, "the weight, parted": w,
        "the other, kept": plain + parts[1],
    }  # fmt: skip
    for place, dtype in settings(device):
        given = torch.tensor(x, dtype=dtype, device=place)
        model = _two(w, first, other).to(place, dtype)
        found = _ways(model, given) | {
            "the other, kept": _kept(model, w, tmp_path / str(dtype)).to(place, dtype)(given)
        }
        figures[str(dtype)] = hold(found, exact, dtype, "adapters")
    figures["summary"] = f"{len(exact)} ways with two adapters give what their definition gives"


def _two(w: Floats, first: tuple[Floats, Floats], other: tuple[Floats, Floats]) -> Any:
    model = _peft().get_peft_model(nn.Sequential(nn.Linear(_INNER, _OUTER, bias=False)), _config())
    model.add_adapter("other", _config(5, use_rslora=True))
    _fill(model.base_model.model[0], _named(w, *first) | _named(w, *other, "other"))
    return model


def _ways(model: Any, given: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return what a model with two adapters gives by each way, by the names of `test_ways`."""
    found = {"the first": model(given)}
    model.set_adapter("other")
    found["the other"] = model(given)
    model.base_model.set_adapter(["default", "other"])
    found["both"] = model(given)
    with model.disable_adapter():
        found["none"] = model(given)
    found["both again"] = model(given)
    layer = model.base_model.model[0]
    layer.merge(safe_merge=True)
    found["merged safely"] = layer.base_layer(given)
    layer.unmerge()
    model.merge_adapter()
    found["merged"] = layer.base_layer(given)
    with model.disable_adapter():
        found["none of the merged"] = model(given)
    model.unmerge_adapter()
    found["parted"], found["the weight, parted"] = model(given), layer.base_layer.weight
    return found


def _kept(model: Any, w: Floats, folder: Path) -> Any:
    """Return the other adapter as it comes back from a folder, over a layer of the same weights."""
    model.save_pretrained(str(folder), selected_adapters=["other"], save_embedding_layers=False)
    layer = nn.Linear(_INNER, _OUTER, bias=False)
    _fill(layer, {"weight": w})
    return _peft().PeftModel.from_pretrained(nn.Sequential(layer), str(folder / "other"))


@pytest.mark.deadline(60)
def test_dropout(device: Device, figures: dict[str, Figure]) -> None:
    """What goes into an adapter is dropped at its rate and the rest enlarged, anew each time and in training alone; the base sees all."""
    count = _ROWS * _INNER
    model = _peft().get_peft_model(
        nn.Sequential(nn.Linear(_INNER, _INNER, bias=False)), _config(_INNER, lora_alpha=_INNER, lora_dropout=_RATE)
    )
    one = np.eye(_INNER)
    _fill(model.base_model.model[0], _named(one * 2, one, one))
    model.to(device.torch).train()
    device.seed(SEED)
    given = torch.ones(_ROWS, _INNER, device=device.torch, requires_grad=True)
    seen = [model(given) for _ in range(2)]
    (back,) = torch.autograd.grad(seen[0].sum(), given)
    require(torch.equal(back, seen[0]), "the gradient goes other ways through a dropped input than the output came")
    dropped = [(output == 2).cpu().double().mean().item() for output in seen]
    rest = float((seen[0][seen[0] != 2] - 2 - 1 / (1 - _RATE)).abs().max())
    require(rest < 1e-5, f"what is kept of ones is {rest:.2g} off 1 / (1 - {_RATE})")
    allowed = 5 * math.sqrt(_RATE * (1 - _RATE) / count)
    for share in dropped:
        require(
            abs(share - _RATE) <= allowed, f"a share of {share:.5f} is dropped, {_RATE} +- {allowed:.5f} was asked for"
        )
    require(not torch.equal(seen[0], seen[1]), "two steps drop the same places")
    require(torch.equal(model.eval()(given), given * 3), "in evaluation something is dropped")
    figures |= {"share": dropped[0], "allowed": allowed}
    figures["summary"] = f"a share of {dropped[0]:.5f} of {count} numbers is dropped, {_RATE} was asked for"


@pytest.mark.deadline(60)
def test_start(device: Device, figures: dict[str, Figure]) -> None:
    """A new adapter changes nothing: B is zero, and A is even between -1 / sqrt(n) and 1 / sqrt(n) of n inputs (Kaiming's rule)."""
    inner, rank = 256, 512
    device.seed(SEED)
    layer = nn.Linear(inner, _OUTER, bias=False).to(device.torch)
    given = torch.tensor(drawn(3, inner), dtype=torch.float32, device=device.torch)
    before = layer(given)
    model = _peft().get_peft_model(nn.Sequential(layer), _config(rank))
    require(torch.equal(model(given), before), "a new adapter changes what the layer gives")
    adapted = model.base_model.model[0]
    down = adapted.lora_A["default"].weight.detach().cpu().double().numpy() * math.sqrt(inner)
    require(not bool(adapted.lora_B["default"].weight.any()), "B of a new adapter is not zero")
    away = 5 * math.sqrt(4 / 45 / down.size)  # the variance of a square of even numbers is 4 / 45
    share, largest = float((down**2).mean()), float(np.abs(down).max())
    require(
        abs(share - 1 / 3) <= away, f"A's mean square is {share:.4f} of its bound's, 1/3 +- {away:.4f} was expected"
    )
    require(0.999 < largest <= 1.000001, f"A's largest number is {largest:.4f} of its bound")
    figures |= {"mean square": share, "allowed": away}
    figures["summary"] = f"{down.size} numbers of A are even within their bound, B is zero"

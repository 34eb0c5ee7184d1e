"""Adapters of peft against their definition: adapted layers, and adapters that are switched, merged and saved."""

from __future__ import annotations

import copy
import inspect
import math
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import nn
from torch.nn import functional

from stackproof.base import places
from stackproof.device.kinds import Device
from stackproof.record.checks import CapabilityMissing, require
from stackproof.record.records import Figure
from suites.anchors.closeness import Floats, compare, drawn, settings
from suites.common import SEED

_INNER, _OUTER, _RANK, _SCALING = 129, 64, 8, 2.0
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


Values = Mapping[str, torch.Tensor]


def _product(values: Values) -> torch.Tensor:
    return values["lora_B.default.weight"] @ values["lora_A.default.weight"]


def _linear(x: torch.Tensor, values: Values, scaling: float = _SCALING) -> Any:
    return x @ (values["base_layer.weight"] + scaling * _product(values)).mT


def _convolution(x: torch.Tensor, values: Values) -> torch.Tensor:
    """A goes through the picture as the layer's own kernel does, B is one pixel wide."""
    down, up = (values[f"lora_{matrix}.default.weight"] for matrix in "AB")
    kernel = values["base_layer.weight"] + _SCALING * torch.einsum("kr,rchw->kchw", up[..., 0, 0], down)
    return functional.conv2d(x, kernel, stride=2, padding=1)


def _embedding(x: torch.Tensor, values: Values) -> Any:
    """A row of the table, and the column of A that is its own, turned by B."""
    down, up = (values[f"lora_embedding_{matrix}.default"] for matrix in "AB")
    return (values["base_layer.weight"] + _SCALING * (up @ down).mT)[x]


def _decomposed(x: torch.Tensor, values: Values) -> Any:
    """Rows of the sum of matrices are given lengths of their own; those that they have count as constants (DoRA: Liu et al., 2024, 4.3)."""
    whole = values["base_layer.weight"] + _SCALING * _product(values)
    lengths = values["lora_magnitude_vector.default.weight"] / whole.detach().norm(dim=1)
    return x @ (whole * lengths[:, None]).mT


def _with_bias(x: torch.Tensor, values: Values) -> Any:
    """B has a bias of its own, which is scaled with it, beside that of the layer."""
    return _linear(x, values) + values["base_layer.bias"] + _SCALING * values["lora_B.default.bias"]


def _require_adapted(
    layer: nn.Module, define: Callable[..., torch.Tensor], device: Device, x: npt.NDArray[Any], config: Any, what: str
) -> float:
    """Compare an adapted layer's output, merged too, and its gradients, which only adapters and real inputs get, with the definition."""
    worst = 0.0
    for place, dtype in settings(device):
        model = _peft().get_peft_model(nn.Sequential(copy.deepcopy(layer)), config).to(place, dtype)
        adapted = model.base_model.model[0]
        values = {name: drawn(*leaf.shape, key=key) for key, (name, leaf) in enumerate(adapted.named_parameters(), 1)}
        _fill(adapted, values)
        leaves = {name: torch.tensor(value, requires_grad="lora" in name) for name, value in values.items()}
        inputs = torch.tensor(x, requires_grad=x.dtype.kind == "f")
        exact = {"output": define(inputs, leaves)}
        slope = torch.tensor(drawn(*exact["output"].shape, key=99))
        needed = {name: tensor for name, tensor in {**leaves, "input": inputs}.items() if tensor.requires_grad}
        exact |= zip(needed, torch.autograd.grad(exact["output"], [*needed.values()], slope), strict=True)
        batch = torch.tensor(x, device=place, dtype=dtype if inputs.requires_grad else None)
        output = model(batch.requires_grad_(inputs.requires_grad))
        output.backward(slope.to(output))
        actual = {
            name: leaf.grad for name, leaf in [*adapted.named_parameters(), ("input", batch)] if leaf.grad is not None
        }
        require(
            set(actual) == set(needed), f"{what}: gradients went to {sorted(actual)}, {sorted(needed)} were to get them"
        )
        actual |= {"output": output, "merged": model.merge_and_unload()(batch)}
        arrays = {name: tensor.detach().numpy() for name, tensor in {**exact, "merged": exact["output"]}.items()}
        worst = max(worst, compare(actual, arrays, dtype, what))
    return worst


@pytest.mark.deadline(60)
def test_linear(device: Device, figures: dict[str, Figure]) -> None:
    """A linear layer with A and B is one whose matrix is W + s B A, at the sizes of the tiny and of a full model."""
    for inner, outer, rank, scaling in ((64, 40, 8, 2.0), (1024, 96, 8, 2.0), (3072, 64, 8, 2.0), (129, 64, 33, 0.5)):
        layer, config = nn.Linear(inner, outer, bias=False), _config(rank, lora_alpha=rank * scaling)
        define = partial(_linear, scaling=scaling)
        what = f"LoRA of {inner} inputs"
        figures[f"{inner} inputs"] = _require_adapted(layer, define, device, drawn(3, inner), config, what)
    figures["summary"] = (
        "a LoRA layer, with the gradients of A and B, is its definition for 64 to 3072 inputs, and merged"
    )


_KINDS: Mapping[str, tuple[Callable[[], nn.Module], tuple[int, ...], Callable[..., torch.Tensor], dict[str, Any]]] = {
    "convolution": (lambda: nn.Conv2d(3, 5, 3, 2, 1, bias=False), (2, 3, 9, 8), _convolution, {}),
    "embedding": (lambda: nn.Embedding(40, 16), (), _embedding, {}),
    "decomposed": (lambda: nn.Linear(_INNER, _OUTER, bias=False), (3, _INNER), _decomposed, {"use_dora": True}),
    "with-bias": (lambda: nn.Linear(_INNER, _OUTER), (3, _INNER), _with_bias, {"lora_bias": True}),
}


@pytest.mark.deadline(60)
@pytest.mark.parametrize("kind", _KINDS)
def test_kind(kind: str, device: Device, figures: dict[str, Figure]) -> None:
    """Other kinds of layers: their output, merged too, and the gradients, which only adapters get."""
    make, shape, define, options = _KINDS[kind]
    x = drawn(*shape) if shape else np.random.default_rng(SEED).integers(0, 40, (3, 7))
    figures["worst"] = _require_adapted(make(), define, device, x, _possible(options), f"adapters of kind {kind}")
    figures["summary"] = f"adapters of kind {kind} give what their definition gives, with gradients, also merged"


def _named(w: Floats, a: Floats, b: Floats, adapter: str = "default") -> dict[str, Floats]:
    return {"base_layer.weight": w, f"lora_A.{adapter}.weight": a, f"lora_B.{adapter}.weight": b}


@pytest.mark.deadline(60)
def test_ways(device: Device, tmp_path: Path, figures: dict[str, Figure]) -> None:
    """Two adapters, one divided by the root of its rank: alone, together, switched off, merged, unmerged, and saved."""
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
        batch = torch.tensor(x, dtype=dtype, device=place)
        model = _two(w, first, other).to(place, dtype)
        results = _ways(model, batch) | {
            "the other, kept": _kept(model, w, tmp_path / str(dtype)).to(place, dtype)(batch)
        }
        figures[str(dtype)] = compare(results, exact, dtype, "adapters")
    figures["summary"] = f"{len(exact)} ways with two adapters give what their definition gives"


def _two(w: Floats, first: tuple[Floats, Floats], other: tuple[Floats, Floats]) -> Any:
    model = _peft().get_peft_model(nn.Sequential(nn.Linear(_INNER, _OUTER, bias=False)), _config())
    model.add_adapter("other", _config(5, use_rslora=True))
    _fill(model.base_model.model[0], _named(w, *first) | _named(w, *other, "other"))
    return model


def _ways(model: Any, batch: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return what a model with two adapters gives by each way, by the names of `test_ways`."""
    results = {"the first": model(batch)}
    model.set_adapter("other")
    results["the other"] = model(batch)
    model.base_model.set_adapter(["default", "other"])
    results["both"] = model(batch)
    with model.disable_adapter():
        results["none"] = model(batch)
    results["both again"] = model(batch)
    layer = model.base_model.model[0]
    layer.merge(safe_merge=True)
    results["merged safely"] = layer.base_layer(batch)
    layer.unmerge()
    model.merge_adapter()
    results["merged"] = layer.base_layer(batch)
    with model.disable_adapter():
        results["none of the merged"] = model(batch)
    model.unmerge_adapter()
    results["parted"], results["the weight, parted"] = model(batch), layer.base_layer.weight
    return results


def _kept(model: Any, w: Floats, folder: Path) -> Any:
    """Return the other adapter as it comes back from a folder, over a layer of the same weights."""
    model.save_pretrained(str(folder), selected_adapters=["other"], save_embedding_layers=False)
    layer = nn.Linear(_INNER, _OUTER, bias=False)
    _fill(layer, {"weight": w})
    return _peft().PeftModel.from_pretrained(nn.Sequential(layer), str(folder / "other"))


@pytest.mark.deadline(60)
def test_dropout(device: Device, figures: dict[str, Figure]) -> None:
    """An adapter's input is dropped at its rate and the rest scaled up, anew each time and only in training; the base sees all of it."""
    count = _ROWS * _INNER
    model = _peft().get_peft_model(
        nn.Sequential(nn.Linear(_INNER, _INNER, bias=False)), _config(_INNER, lora_alpha=_INNER, lora_dropout=_RATE)
    )
    identity = np.eye(_INNER)
    _fill(model.base_model.model[0], _named(identity * 2, identity, identity))
    model.to(device.torch).train()
    device.seed(SEED)
    batch = torch.ones(_ROWS, _INNER, device=device.torch, requires_grad=True)
    seen = [model(batch) for _ in range(2)]
    (back,) = torch.autograd.grad(seen[0].sum(), batch)
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
    require(torch.equal(model.eval()(batch), batch * 3), "in evaluation something is dropped")
    figures |= {"share": dropped[0], "allowed": allowed}
    figures["summary"] = f"a share of {dropped[0]:.5f} of {count} numbers is dropped, {_RATE} was asked for"


@pytest.mark.deadline(60)
def test_start(device: Device, figures: dict[str, Figure]) -> None:
    """A new adapter changes nothing: B is zero, and A is even between -1 / sqrt(n) and 1 / sqrt(n) of n inputs (Kaiming's rule)."""
    inner, rank = 256, 512
    device.seed(SEED)
    layer = nn.Linear(inner, _OUTER, bias=False).to(device.torch)
    batch = torch.tensor(drawn(3, inner), dtype=torch.float32, device=device.torch)
    before = layer(batch)
    model = _peft().get_peft_model(nn.Sequential(layer), _config(rank))
    require(torch.equal(model(batch), before), "a new adapter changes what the layer gives")
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

"""State that is given to a model: copied into what it has or taken as it is, whole or in part, and refused where it does not fit."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from stackproof.device.kinds import Device
from stackproof.record.checks import require
from stackproof.record.records import Figure


class _Model(nn.Module):
    """Two layers, one of which is frozen, statistics, and a buffer that is no state."""

    def __init__(self, start: float) -> None:
        super().__init__()
        self.first, self.last, self.norm = nn.Linear(5, 7), nn.Linear(7, 3), nn.BatchNorm1d(7)
        self.register_buffer("passing", torch.full((2,), start), persistent=False)
        self.first.weight.requires_grad_(False)
        with torch.no_grad():
            for number, value in enumerate(self.state_dict().values()):
                value.copy_(torch.arange(value.numel()).reshape(value.shape) + start + 10 * number)  # exact in bfloat16


def _differing(model: nn.Module, state: dict[str, torch.Tensor]) -> list[str]:
    own = model.state_dict()
    return [name for name, value in state.items() if not torch.equal(own[name].cpu().double(), value.cpu().double())]


def _refusal(call: Callable[[], object]) -> str:
    """Return what a call is refused with, or nothing."""
    try:
        call()
    except RuntimeError as error:
        return str(error)
    return ""


@pytest.mark.deadline(30)
def test_copied(device: Device, figures: dict[str, Figure]) -> None:
    """Values are copied into the model's own tensors, which keep their memory and dtype and share nothing with what was given."""
    state = _Model(1).to(device.torch, torch.bfloat16).state_dict()
    model = _Model(2).to(device.torch)
    places = {name: value.data_ptr() for name, value in model.state_dict().items()}
    report = model.load_state_dict(state)
    require(not report.missing_keys and not report.unexpected_keys, f"nothing was missing, and it says {report}")
    require(not (wrong := _differing(model, state)), f"{', '.join(wrong)} are not what was loaded")
    current = model.state_dict()
    moved = [name for name, value in current.items() if value.data_ptr() != places[name]]
    require(not moved, f"{', '.join(moved)} stand elsewhere after loading")
    dtypes = {str(value.dtype) for value in model.parameters()}
    require(dtypes == {"torch.float32"}, f"a model in float32 that was given bfloat16 is in {dtypes}")
    require(float(model.get_buffer("passing")[0]) == 2, "a buffer that is no state was loaded")
    require(not model.first.weight.requires_grad and model.last.weight.requires_grad, "what is frozen has changed")
    state["last.weight"].zero_()
    require(bool(model.last.weight.any()), "the model shares what it was given")
    figures["summary"] = f"{len(current)} tensors were copied into the model's own"


@pytest.mark.deadline(30)
@pytest.mark.parametrize("empty", [False, True], ids=["over-values", "over-nothing"])
def test_assigned(empty: bool, device: Device, figures: dict[str, Figure]) -> None:
    """With `assign` the model takes the tensors themselves, in their dtype, also where it has no storage; frozen ones stay frozen."""
    state = _Model(1).to(device.torch, torch.bfloat16).state_dict()
    with torch.device("meta" if empty else device.torch):
        model = _Model(2)
    model.load_state_dict(state, assign=True)
    current = model.state_dict()
    other = [name for name, value in state.items() if current[name].data_ptr() != value.data_ptr()]
    require(not other, f"{', '.join(other)} are not the tensors that were given")
    require(not (wrong := _differing(model, state)), f"{', '.join(wrong)} are not what was loaded")
    dtypes = {str(value.dtype) for value in model.parameters()}
    require(dtypes == {"torch.bfloat16"}, f"tensors of bfloat16 were taken, and the model is in {dtypes}")
    require(all(isinstance(parameter, nn.Parameter) for parameter in model.parameters()), "a parameter is one no more")
    require(not model.first.weight.requires_grad and model.last.weight.requires_grad, "what is frozen has changed")
    figures["summary"] = f"{len(current)} tensors were taken as they are"


@pytest.mark.deadline(30)
def test_partial(device: Device, figures: dict[str, Figure]) -> None:
    """Without `strict` what fits is loaded, and missing or unexpected keys are returned; with it they are refused, as is another shape."""
    whole = _Model(1).to(device.torch).state_dict()
    part = {name: value for name, value in whole.items() if name != "last.bias"} | {"more": torch.zeros(1)}
    model = _Model(2).to(device.torch)
    before = model.last.bias.detach().clone()
    report = model.load_state_dict(part, strict=False)
    require(report.missing_keys == ["last.bias"], f"last.bias was missing, and {report.missing_keys} is told")
    require(report.unexpected_keys == ["more"], f"'more' has no place, and {report.unexpected_keys} is told")
    fitting = {name: value for name, value in part.items() if name != "more"}
    require(not (wrong := _differing(model, fitting)), f"{', '.join(wrong)} fit and are not what was loaded")
    require(torch.equal(model.last.bias, before), "what was missing has changed")
    refused = _refusal(lambda: model.load_state_dict(part))
    require(
        "last.bias" in refused and "more" in refused, f"what is missing or has no place is refused with '{refused}'"
    )
    turned = {**whole, "first.weight": whole["first.weight"].T}
    for strict in (True, False):
        refused = _refusal(lambda strict=strict: model.load_state_dict(turned, strict=strict))  # type: ignore[misc]
        require("first.weight" in refused, f"another shape is refused with '{refused}' (strict={strict})")
    figures["summary"] = "what fits is loaded, and what does not is told or refused by name"

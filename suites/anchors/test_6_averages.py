"""Averages of a model in training against their definitions: torch's, and ultralytics' moving average."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch.optim import swa_utils

from stackproof.base import places
from stackproof.device.kinds import Device
from stackproof.record.checks import CapabilityMissing, require
from stackproof.record.records import Figure
from stackproof.workloads.training import in_float64
from suites.anchors.test_3_training import give_gradients


@pytest.mark.deadline(30)
def test_torch(device: Device, figures: dict[str, Figure]) -> None:
    """An averaged model holds the plain or the exponential mean of the models it was given, and buffers where they are asked for."""
    for name, averaged, share in (
        ("plain", swa_utils.AveragedModel, lambda count: 1 / count),
        (
            "exponential",
            _averaged(multi_avg_fn=swa_utils.get_ema_multi_avg_fn(0.75)),
            lambda count: 1.0 if count == 1 else 0.25,
        ),
        ("plain, as a list", _averaged(multi_avg_fn=swa_utils.get_swa_multi_avg_fn()), lambda count: 1 / count),
        (
            "exponential, one by one",
            _averaged(avg_fn=swa_utils.get_ema_avg_fn(0.75)),
            lambda count: 1.0 if count == 1 else 0.25,
        ),
    ):
        model = torch.nn.Linear(5, 7)
        model.register_buffer("kept", torch.zeros(70))
        model.to(device.torch)
        kept = averaged(model, use_buffers=True)
        exact: dict[str, Any] = {}
        for turn in range(1, 5):
            give_gradients((tensors := [*model.parameters(), model.get_buffer("kept")]), turn)
            with torch.no_grad():
                for tensor in tensors:
                    tensor.copy_(tensor.grad if tensor.grad is not None else tensor)
            kept.update_parameters(model)
            for key, value in model.state_dict().items():
                exact[key] = exact.get(key, 0.0) + share(turn) * (in_float64(value) - exact.get(key, 0.0))
        state = kept.module.state_dict()
        off = max(float(np.abs(in_float64(state[key]) - exact[key]).max()) for key in exact)
        require(off <= 1e-6, f"the {name} average of four models is {off:.2g} off")
        require(int(kept.n_averaged) == 4, f"the {name} average counted {int(kept.n_averaged)} models, not 4")
        figures[name] = off
    model.get_buffer("kept").fill_(3.0)
    (copied := swa_utils.AveragedModel(model)).update_parameters(model)
    model.get_buffer("kept").fill_(5.0)
    copied.update_parameters(model)
    require(
        bool((copied.module.get_buffer("kept") == 5).all()), "buffers that are not averaged are not the model's last"
    )
    figures["summary"] = "plain and exponential averages of four models are the definitions'"


def _averaged(**options: Any) -> Any:
    return lambda model, use_buffers: swa_utils.AveragedModel(model, use_buffers=use_buffers, **options)


@pytest.mark.deadline(30)
@pytest.mark.parametrize(("decay", "tau"), [(0.9999, 2000), (0.9, 3)], ids=["as-trained", "short"])
def test_ultralytics(decay: float, tau: float, device: Device, figures: dict[str, Figure]) -> None:
    """Update n keeps a share of decay (1 - e^(-n / tau)), of parameters and floating-point buffers but not of counters."""
    try:
        from ultralytics.utils.torch_utils import ModelEMA
    except ImportError as error:
        rule = f"{places.table('workloads.toml')}: ultralytics is not installed, whose average this is"
        raise CapabilityMissing(rule) from error
    model = torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.BatchNorm1d(7)).to(device.torch)
    averaged = ModelEMA(model, decay=decay, tau=tau)
    exact = {key: in_float64(value) for key, value in model.state_dict().items()}
    for turn in range(1, 9):
        _move(model, turn)
        averaged.update(model)
        share = decay * (1 - math.exp(-turn / tau))
        for key, value in model.state_dict().items():
            if value.is_floating_point():
                exact[key] = share * exact[key] + (1 - share) * in_float64(value)
    state = averaged.ema.state_dict()
    off = {key: float(np.abs(in_float64(state[key]) - expected).max()) for key, expected in exact.items()}
    worst = max(off, key=lambda key: off[key])
    require(off[worst] <= 1e-6, f"after 8 updates {worst} of the average is {off[worst]:.2g} off")
    require(averaged.updates == 8, f"the average counted {averaged.updates} updates, not 8")
    require(not averaged.ema.training, "the average is in training mode")
    require(not any(leaf.requires_grad for leaf in averaged.ema.parameters()), "the average asks for gradients")
    figures["summary"] = f"8 updates of {len(exact)} tensors are {off[worst]:.1e} from their definition"


def _move(model: torch.nn.Module, turn: int) -> None:
    """Fill every floating-point parameter and buffer with new numbers."""
    draw = np.random.default_rng(turn)
    with torch.no_grad():
        for tensor in model.state_dict().values():
            if tensor.is_floating_point():
                tensor.copy_(torch.from_numpy(draw.uniform(0.5, 1.5, tensor.shape)))


@pytest.mark.deadline(30)
def test_statistics(device: Device, figures: dict[str, Figure]) -> None:
    """Statistics that `update_bn` takes of five batches are their mean; momentum and mode are as before."""
    batches = [np.random.default_rng(key).standard_normal((6, 5, 3)) * (key + 1) + key for key in range(5)]
    norm = torch.nn.BatchNorm1d(5, momentum=0.3).to(device.torch)
    norm(torch.ones((2, 5, 3), device=device.torch))
    swa_utils.update_bn([torch.tensor(batch, dtype=torch.float32, device=device.torch) for batch in batches], norm)
    state = norm.state_dict()
    exact = {
        "running_mean": np.mean([batch.mean((0, 2)) for batch in batches], 0),
        "running_var": np.mean([batch.var((0, 2), ddof=1) for batch in batches], 0),
    }
    for what, expected in exact.items():
        off = float(np.abs(in_float64(state[what]) - expected).max() / np.abs(expected).max())
        require(off <= 1e-6, f"{what} after five batches is {off:.2g} from the mean over them")
        figures[what] = off
    require(norm.momentum == 0.3 and norm.training, f"the layer has momentum {norm.momentum}, training {norm.training}")
    figures["summary"] = "statistics taken anew are the mean over five batches"

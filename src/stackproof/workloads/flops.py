"""What a step costs in model FLOPs: a multiplication and an addition are two."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn


def counted(model: nn.Module, inputs: torch.Tensor) -> int:
    """Return the FLOPs of forward and backward on `inputs`: matrix products and convolutions, no loss.

    Counted on the meta device: nothing is computed and the model is not touched. The first layer has no
    gradient of its input, so the total lies a little under three times the forward.
    """
    from torch.utils.flop_counter import FlopCounterMode  # slow to import, and a listing does not count

    state = {name: tensor.detach().to("meta") for name, tensor in model.state_dict(keep_vars=True).items()}
    for name, parameter in model.named_parameters():
        state[name].requires_grad_(parameter.requires_grad)
    with FlopCounterMode(display=False) as counter:
        outputs = torch.func.functional_call(model, state, (inputs.to("meta"),))
        total = torch.stack([tensor.sum() for tensor in _tensors(outputs)]).sum()
        total.backward()  # type: ignore[no-untyped-call]
    return int(counter.get_total_flops())


def trainer_flops(tokens: int, parameters: int) -> int:
    """Return 6 x tokens x non-embedding parameters: what trainers print as total FLOPs (measurement.md)."""
    return 6 * tokens * parameters


def _tensors(outputs: Any) -> list[torch.Tensor]:
    """Return the differentiable tensors in nested lists and dictionaries."""
    if isinstance(outputs, torch.Tensor):
        return [outputs] if outputs.requires_grad else []
    nested = outputs.values() if isinstance(outputs, dict) else outputs
    return [tensor for item in nested for tensor in _tensors(item)]

"""What a step costs in model FLOPs: a multiplication and an addition are two."""

from __future__ import annotations

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode


def counted(model: nn.Module, inputs: torch.Tensor) -> int:
    """Return the FLOPs of forward and backward of `model` on `inputs`: matrix products and convolutions, without the loss.

    Counted on the meta device: nothing is computed and the model is not touched. The first layer has no gradient of its input, so
    the total lies a little under three times the forward.
    """
    state = {name: tensor.detach().to("meta") for name, tensor in model.state_dict(keep_vars=True).items()}
    for name, parameter in model.named_parameters():
        state[name].requires_grad_(parameter.requires_grad)
    with FlopCounterMode(display=False) as counter:
        outputs = torch.func.functional_call(model, state, (inputs.to("meta"),))
        sum(tensor.sum() for tensor in _tensors(outputs)).backward()  # type: ignore[union-attr]
    return int(counter.get_total_flops())


def trainer_flops(tokens: int, parameters: int) -> int:
    """Return 6 x tokens x non-embedding parameters, which is what trainers print as total FLOPs (measurement.md)."""
    return 6 * tokens * parameters


def _tensors(outputs: object) -> list[torch.Tensor]:
    if isinstance(outputs, torch.Tensor):
        return [outputs] if outputs.requires_grad else []
    nested = outputs.values() if isinstance(outputs, dict) else outputs
    assert isinstance(nested, (list, tuple)) or hasattr(nested, "__iter__")
    return [tensor for item in nested for tensor in _tensors(item)]

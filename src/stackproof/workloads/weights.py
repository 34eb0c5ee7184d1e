"""Initial weights as a pure function of seed, name and index, and a model's own arithmetic in float64: what a reference is made of."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode


class _Widen(TorchFunctionMode):
    """Replace float32 by float64 in the arguments of every torch function."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        called = torch.Tensor.double if func is torch.Tensor.float else func
        return called(*map(_wide, args), **{key: _wide(value) for key, value in (kwargs or {}).items()})


def _wide(value: Any) -> Any:
    return torch.float64 if value is torch.float32 else value


@contextmanager
def widened() -> Iterator[None]:
    """Compute in float64 wherever code says float32, and restore the default dtype after.

    Models pin float32 inside: RMSNorm and rotary embeddings cast to it, losses make scratch tensors in the default dtype. Under
    `.double()` such a model still rounds to float32 half-way, and is no reference. The library's own code runs, unpatched.

    Backward switches function modes off; code that runs there (a recomputation) enters this again.
    """
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with _Widen():
            yield
    finally:
        torch.set_default_dtype(before)


_LOW32 = 0xFFFFFFFF
_CHUNK = 1 << 22  # elements hashed at once: 32 MiB of int64, small beside any model worth the trouble

Bound = Callable[[str, torch.Tensor], float]
"""Says how far a parameter of that name may lie from zero."""


def fan_in_bound(_name: str, parameter: torch.Tensor) -> float:
    """Return 1/sqrt(fan in), the bound that torch's own convolutions and linear layers start with."""
    return 1 / math.sqrt(parameter[0].numel())


def hashed(start: int, count: int, key: int, device: torch.device) -> torch.Tensor:
    """Return `count` numbers, float32 in [-1, 1) on a grid of 2**-23, for the element indices from `start`.

    Generators of two devices never agree, and eight billion parameters cannot be drawn on a CPU and moved. So a weight is a hash, in the
    manner of Murmur3's finaliser: whole-number arithmetic that every device does alike, with constants under 2**31 to stay in int64.
    """
    mixed = (
        torch.arange(start, start + count, dtype=torch.int64, device=device)
        .mul_(0x1E3779B1)
        .add_(key)
        .bitwise_and_(_LOW32)
    )
    for shift, factor in ((16, 0x21F0AAAD), (15, 0x735A2D97), (15, 1)):
        mixed = mixed.bitwise_xor_(mixed >> shift).mul_(factor).bitwise_and_(_LOW32)
    return (mixed >> 8).sub_(1 << 23).to(torch.float32).mul_(2.0**-23)


def fill(target: torch.Tensor, name: str, seed: int, bound: float) -> None:
    """Write the weights of parameter `name`, uniform in [-bound, bound), into a contiguous tensor."""
    key = zlib.crc32(f"{seed}:{name}".encode())
    flat = target.detach().view(-1)
    for start in range(0, flat.numel(), _CHUNK):
        count = min(_CHUNK, flat.numel() - start)
        flat[start : start + count] = hashed(start, count, key, flat.device).mul_(bound)


def reset(model: nn.Module, seed: int, bound: Bound = fan_in_bound) -> None:
    """Overwrite every trainable matrix and kernel; vectors keep what their module gave them."""
    for name, parameter in model.named_parameters():
        if parameter.requires_grad and parameter.dim() > 1:
            fill(parameter, name, seed, bound(name, parameter))


def materialise(model: nn.Module, device: torch.device, dtype: torch.dtype, seed: int, bound: Bound) -> None:
    """Give every parameter storage on `device` and its initial value, in place; tied ones stay tied.

    Trainable parameters are float32 at least. Vectors become 1 if they are weights (norms) and 0 if not
    (biases).
    """
    made: dict[int, nn.Parameter] = {}
    for prefix, module in model.named_modules():
        for name, parameter in module.named_parameters(recurse=False):
            if id(parameter) not in made:
                full = f"{prefix}.{name}"
                own = torch.promote_types(dtype, torch.float32) if parameter.requires_grad else dtype
                value = torch.empty(parameter.shape, device=device, dtype=own).fill_(float(full.endswith("weight")))
                if value.dim() > 1:
                    fill(value, full, seed, bound(full, value))
                made[id(parameter)] = nn.Parameter(value, requires_grad=parameter.requires_grad)
            setattr(module, name, made[id(parameter)])

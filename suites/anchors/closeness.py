"""How layers are compared with their definitions: where they are computed, with which numbers, and how closely they must agree."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import torch

from stackproof.device.devices import HOST
from stackproof.device.kinds import Device
from stackproof.record.checks import require

Floats = npt.NDArray[np.float64]
_ALLOWED = {torch.float32: 1e-5, torch.float64: 1e-12}


def settings(device: Device) -> list[tuple[torch.device, torch.dtype]]:
    """Return where a layer is computed and in which dtype: in float64 on the host, and in float32 on the device."""
    return [(HOST.torch, torch.float64), (device.torch, torch.float32)]


def drawn(*shape: int, key: int = 0) -> Floats:
    """Return normal numbers that float32 holds exactly."""
    return np.random.default_rng(key).standard_normal(shape).astype(np.float32).astype(np.float64)


def compare(results: Mapping[str, torch.Tensor], exact: Mapping[str, Floats], dtype: torch.dtype, what: str) -> float:
    """Require that tensors are near arrays by relative norm; return the worst error."""
    worst = 0.0
    for name, expected in exact.items():
        actual = results[name].detach().cpu().double().numpy()
        require(actual.shape == expected.shape, f"{what}: {name} has shape {actual.shape}, not {expected.shape}")
        off = float(np.linalg.norm(actual - expected)) / max(float(np.linalg.norm(expected)), 1e-300)
        require(
            off <= _ALLOWED[dtype],
            f"{what} in {dtype}: {name} is {off:.2g} from its definition, {_ALLOWED[dtype]} is allowed",
        )
        worst = max(worst, off)
    return worst

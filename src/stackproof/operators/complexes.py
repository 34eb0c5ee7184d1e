"""Complex numbers against NumPy's, in long double, real and imaginary parts each by the size of the number."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import torch

from stackproof.operators.arrays import Expected, tensor
from stackproof.operators.trials import Trial, pairs, wide


def complexes(regime: str, dtype: torch.dtype, device: torch.device) -> Iterator[Trial]:
    """Return products, quotients, powers, sizes and angles of numbers whose parts are two rows of a regime."""
    values = pairs(regime, dtype)
    if values is None or dtype not in (torch.float32, torch.float64) or regime not in ("ordinary", "signs", "halves"):
        return
    first, second = wide(values[0]) + 1j * wide(values[1]), wide(values[1]) - 2j * wide(values[0])
    a, b = (tensor(one, dtype, device) for one in values)
    left, right = torch.complex(a, b), torch.complex(b, -2 * a)
    eps = torch.finfo(dtype).eps
    with np.errstate(all="ignore"):
        rows = {"mul": first * second, "div": first / second, "sub": first - second, "exp": np.exp(first)}
    for name, found in rows.items():
        call = partial(getattr(torch, name), *((left,) if name == "exp" else (left, right)))
        parts = np.stack([found.real, found.imag], -1)
        room = 8 * eps * np.broadcast_to(np.abs(found)[:, None], parts.shape)
        yield Trial(f"{name} of complex numbers", partial(_parts, call), Expected(parts, 4.0, room), dtype)
    yield Trial("abs of complex numbers", partial(torch.abs, left), Expected(np.abs(first), 4.0), dtype)
    yield Trial("angle of complex numbers", partial(torch.angle, left), Expected(np.angle(first), 4.0), dtype)


def _parts(call: partial[torch.Tensor]) -> torch.Tensor:
    return torch.view_as_real(call().resolve_conj())

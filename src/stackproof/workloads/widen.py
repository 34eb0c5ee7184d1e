"""Make somebody else's model compute in float64 throughout.

Models pin float32 inside: RMSNorm and rotary embeddings cast to it, losses make scratch tensors in the
default dtype. Under `.double()` such a model still rounds to float32 half-way, and a reference that does is
no reference. While `widened()` is active, float32 *means* float64: as the default dtype, and wherever a call
asks for it. The library's own code runs, unpatched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode


class _Widen(TorchFunctionMode):
    """Replace float32 by float64 in the arguments of every torch function."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        called = torch.Tensor.double if func is torch.Tensor.float else func
        return called(*map(_wide, args), **{key: _wide(value) for key, value in (kwargs or {}).items()})


def _wide(value: Any) -> Any:
    return torch.float64 if value is torch.float32 else value


@contextmanager
def widened() -> Iterator[None]:
    """Compute in float64 wherever code says float32, and restore the default dtype after.

    Backward switches function modes off; code that runs there (a recomputation) enters this again.
    """
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with _Widen():
            yield
    finally:
        torch.set_default_dtype(before)

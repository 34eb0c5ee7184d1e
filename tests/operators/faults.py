"""Faults in kernels and operators, and operators of our own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from stackproof.operators import database, engine

CPU = torch.device("cpu")
Change = Callable[[torch.Tensor], Any]


class Fault(TorchDispatchMode):
    """Changes the results of one kernel in one dtype; the float64 reference stays right."""

    def __init__(self, kernel: str, change: Change, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.kernel, self.change, self.dtype, self.fired = kernel, change, dtype, 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        first, *rest = result if isinstance(result, tuple) else (result,)
        if str(func) != self.kernel or first.dtype is not self.dtype:
            return result
        self.fired += 1
        return (self.change(first), *rest) if rest else self.change(first)


class Wrapped:
    """An operator of the database whose float32 output goes through `change` as a whole."""

    def __init__(self, op: Any, change: Callable[[Any], Any]) -> None:
        self.op, self.change = op, change

    def __getattr__(self, name: str) -> Any:
        return getattr(self.op, name)

    def __call__(self, value: Any, *args: Any, **kwargs: Any) -> Any:
        """Run the operator and change what it returns."""
        output = self.op(value, *args, **kwargs)
        return self.change(output) if value.dtype is torch.float32 else output


def wrap(monkeypatch: pytest.MonkeyPatch, name: str, change: Callable[[Any], Any]) -> None:
    """Put the wrapped operator into the database."""
    loaded = database.load()
    monkeypatch.setitem(engine.OWN, "samples", lambda: {name: Wrapped(loaded[name], change)})


def scaled(tensor: torch.Tensor) -> torch.Tensor:
    """Err by one part in a thousand."""
    return tensor * 1.001


def with_nan(tensor: torch.Tensor) -> torch.Tensor:
    """Return numbers that are none."""
    return torch.full_like(tensor, float("nan"))


def wrong_if_odd(tensor: torch.Tensor) -> torch.Tensor:
    """Err at one odd size only, as vectorised kernels do at their tail."""
    return tensor + 1 if tensor.shape[-1:] == (5,) else tensor


def broken(tensor: torch.Tensor) -> torch.Tensor:
    """Raise as a device without that kernel does."""
    raise RuntimeError("no kernel image is available\nfor this device")


@dataclass
class Sample:
    """One call, in the form that the operator database gives its own."""

    input: Any
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    output_process_fn_grad: Callable[[Any], Any] = lambda output: output


@dataclass(frozen=True)
class ShapedOp:
    """An operator with its own samples, to be examined as the database's are."""

    name: str
    op: Callable[..., Any]
    make: Callable[[torch.dtype], Iterator[Sample]]
    differentiable: bool = True
    variant_test_name: str = ""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.op(*args, **kwargs)

    def supported_dtypes(self, _: str) -> tuple[torch.dtype, ...]:
        return (torch.float32, torch.float64, torch.bfloat16, torch.float16)

    def supported_backward_dtypes(self, _: str) -> tuple[torch.dtype, ...]:
        return (torch.float32, torch.float64, torch.bfloat16, torch.float16) if self.differentiable else ()

    def sample_inputs_func(self, _op: Any, _device: str, dtype: torch.dtype, _gradients: bool) -> Iterator[Any]:
        return self.make(dtype)

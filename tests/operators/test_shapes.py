"""Sizes and layouts: a clean run raises nothing; faults at odd sizes and of views are caught."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from stackproof.operators import shapes
from stackproof.operators.compare import Outcome, Result
from stackproof.operators.database import preserved, samples
from stackproof.operators.examine import examine

from .faults import CPU

OPERATORS = shapes.operators()


class Fault(TorchDispatchMode):
    """Errs by one part in a hundred in float32 kernels of one name whose first tensor is of the kind."""

    def __init__(self, kernel: str, when: Callable[[torch.Tensor], bool]) -> None:
        super().__init__()
        self.kernel, self.when, self.fired = kernel, when, 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        given = next((arg for arg in args if isinstance(arg, torch.Tensor)), None)
        if not str(func).startswith(f"aten.{self.kernel}.") or given is None or given.dtype is not torch.float32:
            return result
        if not self.when(given):
            return result
        self.fired += 1
        first, *rest = result if isinstance(result, tuple) else (result,)
        return (first * 1.01, *rest) if rest else first * 1.01


def run(name: str) -> Result:
    """Examine one operator in float32 on the CPU."""
    with preserved():
        return examine(name, OPERATORS[name], CPU, torch.float32, None)


@pytest.mark.parametrize("name", ["exp", "add", "sum", "argmax", "mm", "nn.functional.conv2d", "gather", "cat", "flip"])
def test_the_cpu_passes(name: str) -> None:
    result = run(name)
    assert result.outcome is Outcome.PASSED, result.reason
    assert result.forward > 100


@pytest.mark.parametrize("name", ["where", "masked_fill_", "triu", "triu.out", "nonzero", "index_copy_", "bmm.out"])
def test_other_forms_pass(name: str) -> None:
    result = run(name)
    assert result.outcome is Outcome.PASSED, result.reason
    assert result.forward > 30


def odd(tensor: torch.Tensor) -> bool:
    """Tell one size of those at which vectorised kernels break."""
    return 31 in tensor.shape


def stepping(tensor: torch.Tensor) -> bool:
    """Tell views that step over numbers."""
    return tensor.dim() > 1 and tensor.stride(-1) == 2 and tensor.shape[-1] > 1


def shifted(tensor: torch.Tensor) -> bool:
    """Tell views that start at an odd address."""
    return bool(tensor.storage_offset() % 2 == 1)


def expanded(tensor: torch.Tensor) -> bool:
    """Tell views that hold one number several times."""
    return tensor.dim() > 1 and tensor.stride(0) == 0 and tensor.shape[0] > 1


def last(tensor: torch.Tensor) -> bool:
    """Tell channels-last."""
    return tensor.dim() == 4 and tensor.is_contiguous(memory_format=torch.channels_last) and not tensor.is_contiguous()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "kernel", "when", "called"),
    [
        ("exp", "exp", odd, "31"),
        ("add", "add", odd, "31"),
        ("sum", "sum", odd, "31"),
        ("mm", "mm", odd, "31"),
        ("nn.functional.softmax", "_softmax", odd, "31"),
        ("nn.functional.conv2d", "convolution", odd, "31"),
        ("nn.functional.layer_norm", "native_layer_norm", odd, "31"),
        ("nn.functional.max_pool2d", "max_pool2d_with_indices", odd, "31"),
        ("index_select", "index_select", odd, "31"),
        ("tanh", "tanh_backward", odd, "31"),
        ("exp", "exp", stepping, "strides"),
        ("mul", "mul", shifted, "mul("),
        ("sum", "sum", expanded, "strides [0, "),
        ("mm", "mm", stepping, "strides"),
        ("nn.functional.avg_pool2d", "avg_pool2d", last, "strides"),
        ("exp", "exp", lambda tensor: tensor.dim() == 0, "exp(float32[])"),
    ],
)
def test_a_fault_of_a_shape_or_layout_is_caught(name: str, kernel: str, when: Any, called: str) -> None:
    with Fault(kernel, when) as fault:
        result = run(name)
    assert fault.fired > 0
    assert result.outcome is Outcome.FAILED
    assert "exceeds the bound" in result.reason
    assert len(result.findings) < result.forward
    assert called in min(result.findings, key=lambda finding: finding.elements).call


@pytest.mark.parametrize("name", OPERATORS)
def test_samples_are_the_same_each_time(name: str) -> None:
    first, again = (next(samples(OPERATORS[name], torch.float32, True)) for _ in range(2))
    left, right = (made.input if isinstance(made.input, torch.Tensor) else made.input[0] for made in (first, again))
    assert torch.equal(left, right)


def test_every_layout_holds_the_same_numbers() -> None:
    tensor = torch.arange(2.0 * 3 * 4 * 5).reshape(2, 3, 4, 5)
    made = list(shapes.layouts(tensor))
    assert len({(view.stride(), view.storage_offset()) for view in made}) == len(made) == 7
    assert sum(torch.equal(view, tensor) for view in made) == 6

"""What tests of workloads share: the errors of an outcome, and a watch on dtypes."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from stackproof.device.numerics import relative_error, rule
from stackproof.workloads.base import StepResult

CPU = torch.device("cpu")


def gradient_errors(actual: StepResult, reference: StepResult) -> dict[str, float]:
    """Return each gradient's relative error; both must have the same ones."""
    assert actual.gradients.keys() == reference.gradients.keys()
    return {name: relative_error(actual.gradients[name], reference.gradients[name]) for name in actual.gradients}


def whole_gradient(outcome: StepResult) -> torch.Tensor:
    return torch.cat([outcome.gradients[name].double().flatten() for name in sorted(outcome.gradients)])


def beyond_cap(actual: StepResult, reference: StepResult, dtype: torch.dtype) -> dict[str, float]:
    """Return the errors of output, loss and gradients above the rule's cap; show the worst."""
    errors = gradient_errors(actual, reference)
    errors["output"] = relative_error(actual.output, reference.output)
    errors["loss"] = relative_error(actual.loss, reference.loss)
    worst = max(errors, key=errors.__getitem__)
    show(f"worst of {len(errors)}: {worst} {errors[worst]:.1e}")
    return {name: error for name, error in errors.items() if error > rule().caps[dtype]}


def show(figure: str) -> None:
    """Print a measured figure; `pytest -rP` shows it."""
    print(figure)  # noqa: T201


class FloatsSeen(TorchDispatchMode):
    """Note the operators that gave a floating tensor of another dtype than float64."""

    def __init__(self) -> None:
        super().__init__()
        self.narrow: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, torch.Tensor) and leaf.is_floating_point() and leaf.dtype != torch.float64:
                self.narrow.add(str(func))
        return result

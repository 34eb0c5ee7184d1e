"""Tensors beyond 2^31 elements: probes pass on the CPU, and fail where an index wraps around."""

from __future__ import annotations

from typing import Any

import pytest
from torch.utils._python_dispatch import TorchDispatchMode

from stackproof.operators import large

from .faults import CPU


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Move the limit from 2^31 to 2^10: this machine must not allocate the real thing."""
    monkeypatch.setattr(large, "LIMIT", 2**10)


@pytest.mark.parametrize("name", large.PROBES)
def test_probes_of_large_indices_pass_on_the_cpu(small: None, name: str) -> None:
    assert large.PROBES[name](CPU) == ""


class Wrapping(TorchDispatchMode):
    """Loses what lies behind the limit in results of one kernel, as an index of too few bits does."""

    def __init__(self, kernel: str) -> None:
        super().__init__()
        self.kernel = kernel

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if str(func).startswith(f"aten.{self.kernel}."):
            result.view(-1)[min(2**10, result.numel() - 1) :] = 0
        return result


@pytest.mark.parametrize(
    ("name", "kernel", "said"),
    [
        ("fill and sum", "sum", "the sum is 0"),
        ("elementwise", "add", "instead of 3"),
        ("copy", "clone", "instead of 1"),
        ("cat", "cat", "instead of 1"),
        ("strided copy", "clone", "a transposed copy has"),
        ("index_select", "index_select", "instead of 1"),
    ],
)
def test_an_index_that_wraps_around_is_caught(small: None, name: str, kernel: str, said: str) -> None:
    with Wrapping(kernel):
        assert said in large.PROBES[name](CPU)

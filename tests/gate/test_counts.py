"""What is counted exactly: operators, allocations and graphs, the same each time, and one more when there is one more."""

from __future__ import annotations

import pytest
import torch

from stackproof.device.devices import HOST
from stackproof.gate import counts
from stackproof.workloads.catalogue import get


def _product() -> torch.Tensor:
    return torch.ones(8, 8) @ torch.ones(8, 8)


def test_counts_are_exact_and_repeat() -> None:
    found = counts.counts(_product, HOST)
    assert found == counts.counts(_product, HOST)
    assert found == {"operators": 3, "allocations": 3}


def test_one_operator_more_is_one_more() -> None:
    more = counts.counts(lambda: _product().relu(), HOST)
    assert more == {"operators": 4, "allocations": 4}


def test_backward_is_counted_too() -> None:
    weight = torch.ones(8, 8, requires_grad=True)
    forward = counts.operators(lambda: (weight * 2).sum())
    both = counts.operators(lambda: (weight * 2).sum().backward())
    assert both > forward


@pytest.mark.slow
def test_a_break_cuts_a_model_in_two() -> None:
    job = get("classifier").build(torch.device("cpu"), "tiny", 1)
    whole, seconds = counts.capture(job)
    assert whole["graphs"] >= 1
    assert seconds > 0
    plain = job.evaluate

    def broken(model: torch.nn.Module, batch: object) -> object:
        return plain(model, batch)  # type: ignore[arg-type]

    class Breaking(torch.nn.Module):
        def __init__(self, inner: torch.nn.Module) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
            torch._dynamo.graph_break()
            return self.inner(*inputs)  # type: ignore[no-any-return]

    job.evaluate = broken  # type: ignore[method-assign,assignment]
    wrap = job.wrap
    job.wrap = lambda wrapper: wrap(lambda model: wrapper(Breaking(model)))  # type: ignore[method-assign]
    cut, _ = counts.capture(job)
    assert cut["graph-breaks"] > whole["graph-breaks"]

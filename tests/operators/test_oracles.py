"""References without the kernel that they are for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from stackproof.device.devices import HOST
from stackproof.operators import engine
from stackproof.operators.oracles import Decomposed
from tests.operators.faults import CPU, Fault, scaled

ATTENTION, FLASH = "nn.functional.scaled_dot_product_attention", "_scaled_dot_product_flash_attention_for_cpu"
EVERYWHERE = [
    ("softmax", "aten._softmax.default", scaled, "as defined"),
    ("topk", "aten.topk.default", scaled, "as defined"),
    ("nn.functional.avg_pool2d", "aten.avg_pool2d.default", scaled, "as defined"),
    ("roll", "aten.roll.default", lambda x: x.flip(0), "as a size"),
    ("cumsum", "aten.cumsum.default", lambda x: scaled(x) if max(x.shape, default=0) > 5 else x, " as "),
    (ATTENTION, f"aten.{FLASH}_backward.default", scaled, "as defined, in float64"),
    ("nn.functional.gelu", "aten.gelu_backward.default", scaled, "as defined"),
]


@pytest.mark.parametrize(("name", "kernel", "change", "says"), EVERYWHERE)
def test_a_fault_of_all_dtypes_shows(name: str, kernel: str, change: Callable[[Any], Any], says: str) -> None:
    """The same kernel in float64 is as wrong; what it is made of is not."""
    faulty = [Fault(kernel, change, dtype) for dtype in (torch.float32, torch.float64)]
    with faulty[0], faulty[1]:
        wrong = [
            relation.says
            for _, relation, _ in engine.faults("references", name, CPU, dtypes=(torch.float32, torch.float64))
        ]
    assert any(says in said for said in wrong)


@pytest.mark.parametrize("name", sorted({name for name, *_ in EVERYWHERE}))
def test_right_kernels_agree_with_what_they_are_made_of(name: str) -> None:
    engine.check("references", name, HOST, {})


def test_options_meet_by_pairs() -> None:
    seen = {
        relation.says
        for point in engine.points("references", "isin", CPU)
        for relation in engine.JUDGES["references"].relations(point)
    }
    assert any("assume_unique" in says and "invert" in says for says in seen)


def test_numpy_takes_over_where_nothing_is_decomposed() -> None:
    numbers = torch.tensor([[3.0, 1.0], [2.0, torch.nan]], dtype=torch.float64)
    with Decomposed() as mode:
        values, places = numbers.sort(dim=1, descending=True)
    assert mode.replaced == {"aten.sort.default"}
    assert np.isnan(values[1, 0].item())
    assert places.tolist() == [[0, 1], [1, 0]]

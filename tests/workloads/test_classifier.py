"""The classifier, on which data parallelism is judged."""

from __future__ import annotations

import pytest
import torch

from stackproof.workloads import catalogue
from stackproof.workloads.base import Units

from .comparing import CPU, beyond_cap, whole_gradient

WORKLOAD = catalogue.get("classifier")


def test_float32_agrees_with_float64() -> None:
    actual = WORKLOAD.build(CPU, "tiny", 0).observe()

    assert beyond_cap(actual, WORKLOAD.reference("tiny", 0), torch.float32) == {}


@pytest.mark.parametrize("world", [2, 4])
def test_the_shards_mean_gradient_is_the_global_batchs(world: int) -> None:
    shards = [WORKLOAD.reference("tiny", 0, shard=(rank, world)) for rank in range(world)]
    mean = torch.stack([whole_gradient(shard) for shard in shards]).mean(dim=0)

    torch.testing.assert_close(mean, whole_gradient(WORKLOAD.reference("tiny", 0)), rtol=1e-12, atol=1e-15)


def test_the_shards_differ() -> None:
    first, second = (whole_gradient(WORKLOAD.reference("tiny", 0, shard=(rank, 2))) for rank in range(2))

    assert torch.linalg.vector_norm(first - second) > 0.1 * torch.linalg.vector_norm(first)


def test_units_count_this_ranks_pictures() -> None:
    whole = WORKLOAD.build(CPU, "tiny", 0).units
    half = WORKLOAD.build(CPU, "tiny", 0, shard=(1, 2)).units

    assert half == Units(whole.samples // 2, 0, whole.flops // 2)


def test_it_has_no_batch_normalisation() -> None:
    modules = WORKLOAD.build(CPU, "tiny", 0).model.modules()

    assert not any("Norm" in type(module).__name__ for module in modules)

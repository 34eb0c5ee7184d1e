"""The one process that ranks are held against: it has all ranks' parts, whatever the workload and the world size."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from stackproof.ddp.course import curve, outcome, plan, scale_of, shard, synchronised, whole
from stackproof.device.numerics import relative_error

CPU = torch.device("cpu")
SEED = 7


@pytest.mark.slow
@pytest.mark.parametrize("world", [2, 4])
def test_shares_are_those_of_the_whole(world: int) -> None:
    course = plan().course("yolov8n")
    parts = [shard("yolov8n", CPU, torch.float32, SEED, rank, world).batches[0]["img"] for rank in range(world)]
    job = whole(course, CPU, torch.float32, SEED, world)
    assert world == len(job.batches)
    assert torch.equal(torch.cat(parts), torch.cat([batch["img"] for batch in job.batches]))
    assert all(len(part) >= 2 for part in parts)


def test_the_batch_grows_with_the_ranks() -> None:
    assert [1, 2, 4] == [scale_of(world) for world in (2, 4, 8)]


@pytest.mark.slow
@pytest.mark.parametrize("world", [2, 4])
def test_the_mean_of_the_parts_is_the_gradient_of_the_whole(world: int) -> None:
    course = plan().course("classifier")
    exact = outcome(course, torch.float64, SEED, world).gradients
    parts = [shard("classifier", CPU, torch.float64, SEED, rank, world).observe().gradients for rank in range(world)]
    for name, gradient in exact.items():
        mean = torch.stack([part[name] for part in parts]).mean(0)
        assert relative_error(mean, gradient) < 1e-14


def test_the_curve_is_that_of_the_steps() -> None:
    course = plan().course("classifier")
    found = curve(course, torch.float32, SEED, 2)
    assert course.steps == len(found)
    assert found[-1] < course.falls_to * found[0]
    curve.cache_clear()
    assert torch.equal(found, curve(course, torch.float32, SEED, 2))


@pytest.mark.slow
def test_synchronised_statistics_are_those_of_the_global_batch() -> None:
    course = plan().course("yolov8n")
    found = synchronised(course, torch.float32, SEED, 2)
    job = whole(course, CPU, torch.float32, SEED, 2)
    given = job.model(torch.cat([batch["img"] for batch in job.batches]))
    losses = [job.evaluate(Given(given, rank), batch)[1] for rank, batch in enumerate(job.batches)]
    (sum(losses) / 2).backward()  # type: ignore[union-attr]
    together = {name: tensor.grad for name, tensor in job.model.named_parameters() if tensor.grad is not None}
    apart = outcome(course, torch.float32, SEED, 2).gradients
    assert found.keys() == together.keys() == apart.keys()
    assert max(relative_error(found[name], together[name]) for name in found) < 1e-3
    assert max(relative_error(found[name], apart[name]) for name in found) > 0.1


class Given(torch.nn.Module):
    """Answers with one rank's two pictures of predictions that were made before."""

    def __init__(self, given: dict[str, Any], rank: int) -> None:
        super().__init__()
        self.given, self.part = given, slice(2 * rank, 2 * rank + 2)

    def forward(self, _images: torch.Tensor) -> dict[str, Any]:
        """Cut what each head gave."""
        heads = {name: self.given[name][self.part] for name in ("boxes", "scores")}
        return {**heads, "feats": [level[self.part] for level in self.given["feats"]]}

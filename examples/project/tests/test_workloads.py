"""Each workload of this project offers what stackproof asks for, and its loss falls."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from stackproof.project import projects
from stackproof.workloads import catalogue, contract

projects.choose(str(Path(__file__).parents[1]))
NAMES = sorted(catalogue.theirs())


@pytest.mark.parametrize("name", NAMES)
def test_it_offers_what_is_asked_for(name: str) -> None:
    """Seeds, shapes, dtypes, a scalar loss, a gradient for every parameter."""
    assert "trainable numbers" in contract.check(catalogue.get(name))


@pytest.mark.parametrize("name", NAMES)
def test_it_learns(name: str) -> None:
    """Ten steps on one batch bring the loss down."""
    job = catalogue.get(name).build(torch.device("cpu"), "tiny", seed=1)
    losses = [float(job.step()) for _ in range(10)]
    assert losses[-1] < losses[0]

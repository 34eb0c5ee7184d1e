"""The ranks' program: its evidence can be wrong, and then it says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

from stackproof.ddp import smoke
from stackproof.device.kinds import Host
from stackproof.ranks.rank import Rank

ARGUMENTS = {
    "workload": "classifier",
    "preset": "tiny",
    "seed": 7,
    "steps": 3,
    "all_reduce_bytes": 4096,
}


@pytest.fixture
def alone(tmp_path: Path) -> Any:
    """A group of one rank over gloo, in this process."""
    dist.init_process_group("gloo", store=dist.FileStore(str(tmp_path / "store"), 1), rank=0, world_size=1)
    yield Rank(0, 1, Host("cpu", 0), "gloo", 0.1, ARGUMENTS, tmp_path)
    dist.destroy_process_group()


def test_a_rank_returns_its_evidence(alone: Rank) -> None:
    evidence = smoke.train(alone)
    assert (3, 64) == (len(evidence["losses"]), len(evidence["digest"]))
    assert evidence["all_reduce"]["wrong"] == 0
    assert all(spent > 0 for spent in evidence["all_reduce"]["seconds"])
    gradients = torch.load(alone.folder / "rank0.pt", weights_only=True)
    assert all(gradient.dtype is torch.float64 for gradient in gradients.values())


def test_the_same_seed_gives_the_same_bits(alone: Rank) -> None:
    assert smoke.train(alone)["digest"] == smoke.train(alone)["digest"]

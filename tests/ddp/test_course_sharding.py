"""Which modules are sharded, and what a rank keeps of a model: here with one rank, which keeps all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn

from stackproof.ddp import course
from stackproof.device.kinds import Host
from stackproof.ranks.rank import Rank


@pytest.fixture
def alone(tmp_path: Path) -> Any:
    """A group of one rank over gloo, in this process."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield Rank(0, 1, Host("cpu", 0), "gloo", 0.1, {"seed": 7}, tmp_path)
    dist.destroy_process_group()


def test_layers_of_a_list_are_blocks() -> None:
    layers = [nn.Linear(2, 2), nn.Linear(2, 2)]
    listed = nn.ModuleDict({"head": nn.Linear(2, 2), "layers": nn.ModuleList(layers)})
    assert layers == course._blocks(listed)
    plain = nn.Sequential(nn.Linear(2, 2), nn.GELU(), nn.Linear(2, 2))
    assert [plain[0], plain[2]] == course._blocks(plain)


def test_one_rank_keeps_all_and_steps_as_ddp_does(alone: Rank) -> None:
    assert {"share": 1.0} == course.cases(["classifier"])["sharded-classifier"](alone)
    replicated, sharded, gradients = (
        torch.load(alone.folder / f"{case}-classifier.rank0.pt", weights_only=True)
        for case in ("ddp-step", "sharded-step", "sharded")
    )
    assert replicated.keys() == sharded.keys() == gradients.keys()
    for name, after in sharded.items():
        assert torch.allclose(after, replicated[name], rtol=1e-6, atol=0)

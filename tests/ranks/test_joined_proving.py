"""What ranks of somebody else's launcher prove, and that wrong data are no proof."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch.distributed as dist

from stackproof.device.kinds import Host
from stackproof.ranks import joined
from stackproof.ranks.rank import Rank


@pytest.fixture
def alone(tmp_path: Path) -> Any:
    """A group of one rank over gloo, in this process."""
    dist.init_process_group("gloo", store=dist.FileStore(str(tmp_path / "store"), 1), rank=0, world_size=1)
    yield Rank(0, 1, Host("cpu", 0), "gloo", 0.5, {}, tmp_path)
    dist.destroy_process_group()


def test_a_rank_proves_collectives_and_training(alone: Rank) -> None:
    said = joined.prove(alone)
    assert ["all-gather", "broadcast", "barrier"] == said["collectives"]
    assert len(said["own_s"]) == len(said["training"]["losses"]) == 20
    assert said["training"]["losses"][-1] < 0.9 * said["training"]["losses"][0]


@pytest.mark.parametrize(("name", "collective"), [("all-gather", "all_gather"), ("broadcast", "broadcast")])
def test_a_collective_that_moves_wrong_data_is_not_exact(
    alone: Rank, monkeypatch: pytest.MonkeyPatch, name: str, collective: str
) -> None:
    def wrong(*arguments: Any, **keywords: Any) -> None:
        target = arguments[0][0] if isinstance(arguments[0], list) else arguments[0]
        target.zero_()

    monkeypatch.setattr(dist, collective, wrong)
    with pytest.raises(RuntimeError, match=f"{name} of known whole numbers is wrong"):
        joined._exact(alone, name)

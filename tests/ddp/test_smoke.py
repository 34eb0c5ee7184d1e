"""The ranks' program: its evidence can be wrong, and then it says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

from stackproof.ddp import smoke
from stackproof.device.kinds import Host
from stackproof.ranks.rank import Rank, digest

ARGUMENTS = {
    "workload": "classifier",
    "preset": "tiny",
    "seed": 7,
    "steps": 3,
    "all_reduce_bytes": 4096,
    "repetitions": 2,
}


@pytest.fixture
def alone(tmp_path: Path) -> Any:
    """A group of one rank over gloo, in this process."""
    dist.init_process_group("gloo", store=dist.FileStore(str(tmp_path / "store"), 1), rank=0, world_size=1)
    yield Rank(0, 1, Host("cpu", 0), "gloo", 0.1, ARGUMENTS, tmp_path)
    dist.destroy_process_group()


def test_a_rank_returns_its_evidence(alone: Rank) -> None:
    """Losses of every step, a digest of the parameters, seconds of every all-reduce, and gradients in a file."""
    evidence = smoke.train(alone)
    assert (3, 2, 64) == (len(evidence["losses"]), len(evidence["all_reduce_s"]), len(evidence["digest"]))
    gradients = torch.load(alone.folder / "rank0.pt", weights_only=True)
    assert all(gradient.dtype is torch.float64 for gradient in gradients.values())


def test_the_same_seed_gives_the_same_bits(alone: Rank) -> None:
    """Two trainings from one seed end in the same parameters."""
    assert smoke.train(alone)["digest"] == smoke.train(alone)["digest"]


def test_an_all_reduce_that_drops_a_contribution_is_not_exact(alone: Rank, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sum that is off in one element is seen."""
    monkeypatch.setattr(dist, "all_reduce", lambda tensor: tensor[5:6].zero_())
    with pytest.raises(RuntimeError, match="known whole numbers is wrong"):
        smoke._require_exact(alone)


def test_a_timed_all_reduce_is_verified(alone: Rank, monkeypatch: pytest.MonkeyPatch) -> None:
    """Time is not taken from an all-reduce that sums wrong."""
    monkeypatch.setattr(dist, "all_reduce", lambda tensor: tensor.mul_(3))
    with pytest.raises(RuntimeError, match="gave wrong sums"):
        smoke._timed(alone, 64, 1)


def test_one_ulp_changes_the_digest(alone: Rank) -> None:
    """The digest is over bits, so a drift of one unit in the last place shows."""
    job = smoke.get("classifier").build(torch.device("cpu"), "tiny", 7)
    before = digest(dict(job.model.named_parameters()))
    with torch.no_grad():
        parameter = next(job.model.parameters()).view(-1)
        parameter[0] = torch.nextafter(parameter[0], torch.tensor(torch.inf))
    assert before != digest(dict(job.model.named_parameters()))

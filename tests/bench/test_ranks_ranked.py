"""What happens inside the ranks, seen in one process: faults are caught on data, and the slowest rank's time counts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from stackproof.bench import ranks
from stackproof.bench.ranks import Together
from stackproof.device.devices import HOST
from stackproof.ranks.rank import Rank
from stackproof.record.checks import CheckFailed


@pytest.fixture
def group(tmp_path: Path) -> Iterator[None]:
    """A group of one rank, over a file."""
    dist.init_process_group("gloo", init_method=f"file://{tmp_path / 'store'}", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def rank(tmp_path: Path) -> Rank:
    """Return the only rank."""
    return Rank(0, 1, HOST, "gloo", 0.5, {}, tmp_path)


def test_the_slowest_rank_counts(group: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def slower(tensor: torch.Tensor, op: object = None) -> None:
        assert op == dist.ReduceOp.MAX
        tensor.copy_(torch.arange(1, len(tensor) + 1))

    sampler = Together(HOST, lambda: None)
    sampler.begin()
    assert sampler.spent() == 0.0
    monkeypatch.setattr(dist, "all_reduce", slower)
    assert sampler.block(3) == [1.0, 2.0, 3.0]
    assert sampler.spent() == 4.0


def test_ranks_look_at_single_runs_as_rank_0_does(group: None, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ranks.as_first(True, HOST)
    assert not ranks.as_first(False, HOST)
    monkeypatch.setattr(dist, "broadcast", lambda tensor, source: tensor.fill_(1 - source))
    assert ranks.as_first(False, HOST)


def test_a_group_that_sums_wrong_has_no_start_up_time(
    group: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ranks.communicator(rank(tmp_path)) == {"formed_s": 0.5}
    monkeypatch.setattr(dist, "all_reduce", lambda tensor, **_: tensor.add_(1))
    with pytest.raises(RuntimeError, match="an all-reduce of known whole numbers is wrong"):
        ranks.communicator(rank(tmp_path))


def test_ranks_that_differ_by_a_bit_are_caught(group: None, monkeypatch: pytest.MonkeyPatch) -> None:
    gradients = {"a": torch.ones(4), "b": torch.zeros(2)}
    ranks._same_everywhere(HOST, gradients)

    def other(tensor: torch.Tensor, op: object) -> None:
        tensor[0] += op == dist.ReduceOp.MAX

    monkeypatch.setattr(dist, "all_reduce", other)
    with pytest.raises(CheckFailed, match="the ranks do not have the same gradient"):
        ranks._same_everywhere(HOST, gradients)

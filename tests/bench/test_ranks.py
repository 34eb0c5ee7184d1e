"""Ranks measure together: the slowest one's seconds count, all take the same decisions, and wrong data give no figure."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from stackproof.bench import ranks
from stackproof.bench.engine import alone as cards_of
from stackproof.bench.engine import measure, workspace
from stackproof.bench.ranks import as_rank_0
from stackproof.bench.subjects import Budget
from stackproof.device.kinds import Host
from stackproof.ranks.rank import Rank
from stackproof.record.checks import CapabilityMissing, CheckFailed
from stackproof.runner.request import REQUEST
from stackproof.stack.stacks import Stack

from .conftest import HOST, Spin, subject_of

FEW = Budget(noise=0.5, seconds=0.5, least=8)


class Card(Host):
    """A test double: a device that two ranks may not share. Not an accelerator."""

    shareable = False


@pytest.mark.slow
def test_a_collective_is_verified_and_timed(spin: type[Spin], cpu: Stack) -> None:
    subject = subject_of(cpu, "collective", "s/GB", call="all-reduce", mib=1.0, dtype="float32", ranks=2)
    found = measure(subject, HOST, "tiny", FEW)
    assert found.verified, found.reason
    assert "is exact on 2 ranks" in found.reason
    assert (found.world_size, found.facts["backend"], found.facts["call"]) == (2, "gloo", "all-reduce")
    assert found.worth["GB"] == pytest.approx((1 << 20) / 1e9)
    assert found.worth["GB over a link"] == pytest.approx(found.worth["GB"])
    assert len(found.samples) >= FEW.least


@pytest.mark.slow
def test_training_over_ranks_counts_all_samples(spin: type[Spin], cpu: Stack) -> None:
    subject = subject_of(cpu, "data-parallel", "s/sample", workload="llama3-8b-lora", ranks=2)
    found = measure(subject, HOST, "tiny", FEW)
    assert found.verified, found.reason
    assert "mean gradient of 2 ranks" in found.reason
    assert found.worth["sample"] == 8.0


def test_fewer_cards_than_ranks_are_skipped(cpu: Stack) -> None:
    subject = subject_of(cpu, "collective", "s/GB", ranks=2)
    with pytest.raises(CapabilityMissing, match="needs 2 cards, one a rank, and 1 visible"):
        cards_of(subject, Card("cpu", 0), 2)
    assert len(cards_of(subject, HOST, 2).cards) == 2


def test_logs_of_ranks_are_kept_when_something_goes_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(REQUEST, str(tmp_path / "session.json"))
    with workspace("good") as folder:
        assert folder.parent == tmp_path
    assert not folder.exists()
    with pytest.raises(RuntimeError), workspace("bad") as folder:
        raise RuntimeError("a rank died")
    assert folder.exists()


def test_ranks_hold_blocks_when_rank_0_does(alone: Rank, monkeypatch: pytest.MonkeyPatch) -> None:
    assert as_rank_0(HOST, True)
    assert not as_rank_0(HOST, False)
    monkeypatch.setattr(dist, "broadcast", lambda tensor, source: tensor.fill_(1 - source))
    assert as_rank_0(HOST, False)


def test_a_group_that_sums_wrong_has_no_start_up_time(alone: Rank, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ranks.communicator(alone) == {"formed_s": 0.5}
    monkeypatch.setattr(dist, "all_reduce", lambda tensor, **_: tensor.add_(1))
    with pytest.raises(RuntimeError, match="an all-reduce of known whole numbers is wrong"):
        ranks.communicator(alone)


def test_ranks_that_differ_by_a_bit_are_caught(alone: Rank, monkeypatch: pytest.MonkeyPatch) -> None:
    gradients = {"a": torch.ones(4), "b": torch.zeros(2)}
    ranks._same_everywhere(HOST, gradients)

    def other(tensor: torch.Tensor, op: object) -> None:
        tensor[0] += op == dist.ReduceOp.MAX

    monkeypatch.setattr(dist, "all_reduce", other)
    with pytest.raises(CheckFailed, match="the ranks do not have the same gradient"):
        ranks._same_everywhere(HOST, gradients)

"""Sums of known numbers, one hash of all bits, and spans that all ranks begin together."""

from __future__ import annotations

import time

import pytest
import torch
import torch.distributed as dist

from stackproof.ranks import exact
from stackproof.ranks.rank import Rank
from stackproof.workloads.catalogue import get


def test_known_numbers_differ_by_rank_and_place() -> None:
    assert not torch.equal(exact.known(0), exact.known(1))
    assert len(set(exact.known(3).tolist())) == exact.known(3).numel()


def test_an_all_reduce_that_drops_a_contribution_is_not_exact(alone: Rank, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dist, "all_reduce", lambda tensor, group: tensor[5:6].zero_())
    with pytest.raises(RuntimeError, match="known whole numbers is wrong"):
        exact.require_exact(alone)


def test_spans_count_every_call(alone: Rank) -> None:
    assert exact.timed(alone, lambda: time.sleep(0.01), calls=3) >= 0.03


def test_one_ulp_changes_the_digest() -> None:
    job = get("classifier").build(torch.device("cpu"), "tiny", 7)
    before = exact.digest(dict(job.model.named_parameters()))
    with torch.no_grad():
        parameter = next(job.model.parameters()).view(-1)
        parameter[0] = torch.nextafter(parameter[0], torch.tensor(torch.inf))
    assert before != exact.digest(dict(job.model.named_parameters()))

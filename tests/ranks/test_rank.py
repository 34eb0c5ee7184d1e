"""A rank counts the collectives that it enters and leaves at once; sums of known numbers, hashes of bits, spans that begin together."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d

from stackproof.ranks import blame, rank
from stackproof.workloads.catalogue import get


@pytest.fixture
def group(tmp_path: Path) -> Iterator[None]:
    store = dist.FileStore(str(tmp_path / "store"), 1)
    dist.init_process_group("gloo", store=store, rank=0, world_size=1, timeout=timedelta(seconds=30))
    yield
    dist.destroy_process_group()


@pytest.mark.usefixtures("group")
def test_collectives_are_counted_by_group(tmp_path: Path) -> None:
    with rank.counted(tmp_path, 0):
        before = rank._sequences()
        second: Any = dist.new_group([0])
        for _ in range(3):
            dist.all_reduce(torch.ones(2))
        dist.all_reduce(torch.ones(2), group=second)
    found = blame.read_counts(tmp_path, 0)
    (world,) = before
    assert len(found) == 2
    assert found[world] >= before[world] + 3
    assert [count for name, count in found.items() if name != world] == [1]


@pytest.mark.usefixtures("group")
def test_a_backend_without_numbers_has_its_calls_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses() -> blame.Counts:
        raise RuntimeError("ProcessGroup ccl does not yet support sequence numbers.")

    monkeypatch.setattr(rank, "_sequences", refuses)
    for place in (dist, distributed_c10d):  # put back what is wrapped here
        for name in rank._COUNTED:
            monkeypatch.setattr(place, name, getattr(place, name))
    mine = torch.ones(3)
    with rank.counted(tmp_path, 0):
        dist.all_reduce(mine)
        dist.barrier()
    assert torch.equal(mine, torch.ones(3))
    assert blame.read_counts(tmp_path, 0) == {"calls of torch.distributed": 2}


def test_ranks_that_lag_are_told_by_group() -> None:
    counts = {0: {"0": 4, "left": 2}, 1: {"0": 4, "left": 1}, 2: {"0": 3}, 3: {}}
    assert blame.lagging(counts) == {"0": {2}, "left": {1}}
    assert blame.counts_sentence(counts) == (
        "; collectives entered: of group 0 rank 0 4, rank 1 4, rank 2 3; of group left rank 0 2, rank 1 1"
    )
    assert blame.counts_sentence({0: {}, 1: {}}) == ""


@pytest.mark.parametrize("text", ["", "{", "[]", '"x"', '{"0": null}'])
def test_a_file_that_is_cut_says_nothing(text: str, tmp_path: Path) -> None:
    blame.counts_path(tmp_path, 0).write_text(text)
    assert blame.read_counts(tmp_path, 0) == {}
    assert blame.read_counts(tmp_path, 1) == {}


def test_known_numbers_differ_by_rank_and_place() -> None:
    assert not torch.equal(rank.known(0), rank.known(1))
    assert len(set(rank.known(3).tolist())) == rank.known(3).numel()


def test_an_all_reduce_that_drops_a_contribution_is_not_exact(
    alone: rank.Rank, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dist, "all_reduce", lambda tensor, group: tensor[5:6].zero_())
    with pytest.raises(RuntimeError, match="known whole numbers is wrong"):
        rank.require_exact(alone)


def test_spans_count_every_call(alone: rank.Rank) -> None:
    assert rank.timed(alone, lambda: time.sleep(0.01), calls=3) >= 0.03


def test_one_ulp_changes_the_digest() -> None:
    job = get("classifier").build(torch.device("cpu"), "tiny", 7)
    before = rank.digest(dict(job.model.named_parameters()))
    with torch.no_grad():
        parameter = next(job.model.parameters()).view(-1)
        parameter[0] = torch.nextafter(parameter[0], torch.tensor(torch.inf))
    assert before != rank.digest(dict(job.model.named_parameters()))


LEAVING = """
import atexit, sys
import torch.distributed as dist
from stackproof.ranks import libraries, rank
libraries.finalises = lambda backend: {finalise}
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
world, second = dist.group.WORLD, dist.new_group([0])
dist.barrier(second)
destroy = dist.destroy_process_group
dist.destroy_process_group = lambda group=None: (print("world" if group in (None, world) else "second"), destroy(group))
atexit.register(print, "goodbye")
rank.end(lambda: {status})
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("finalise", "status", "said"), [(False, 0, ""), (True, 0, "second\nworld\ngoodbye"), (True, 1, "")]
)
def test_a_rank_shuts_down_in_order_only_where_its_library_needs_it(finalise: bool, status: int, said: str) -> None:
    code = LEAVING.format(finalise=finalise, status=status)
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert (ended.returncode, ended.stdout.strip()) == (status, said), ended.stderr

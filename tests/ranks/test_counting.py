"""Each rank leaves how many collectives it has entered: by torch's own number of the group, or by its calls where there is none."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d

from stackproof.ranks import blame, counting


@pytest.fixture
def group(tmp_path: Path) -> Iterator[None]:
    store = dist.FileStore(str(tmp_path / "store"), 1)
    dist.init_process_group("gloo", store=store, rank=0, world_size=1, timeout=timedelta(seconds=30))
    yield
    dist.destroy_process_group()


@pytest.mark.usefixtures("group")
def test_collectives_are_counted_by_group(tmp_path: Path) -> None:
    with counting.counted(tmp_path, 0):
        before = counting._sequences()
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

    monkeypatch.setattr(counting, "_sequences", refuses)
    for place in (dist, distributed_c10d):  # put back what is wrapped here
        for name in counting._COUNTED:
            monkeypatch.setattr(place, name, getattr(place, name))
    mine = torch.ones(3)
    with counting.counted(tmp_path, 0):
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

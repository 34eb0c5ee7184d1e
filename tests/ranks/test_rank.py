"""A rank keeps a journal of its collectives and leaves at once; sums of known numbers, hashes of bits, spans that begin together."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.distributed import _functional_collectives as functional
from torch.nn.parallel import DistributedDataParallel

from stackproof.ranks import blame, rank
from stackproof.ranks.launchers import Placement
from stackproof.workloads.catalogue import get


@pytest.fixture
def group(tmp_path: Path) -> Iterator[None]:
    store = dist.FileStore(str(tmp_path / "store"), 1)
    dist.init_process_group("gloo", store=store, rank=0, world_size=1, timeout=timedelta(seconds=30))
    yield
    dist.destroy_process_group()


def test_a_program_may_return_nothing_and_raise_what_no_text_holds(tmp_path: Path) -> None:
    spec: Any = SimpleNamespace(folder=tmp_path, remaining_s=60.0, environment={})
    place, left = Placement("plain", 0, 1, 0, 1), blame.Traces(tmp_path, 1)
    nothing: Any = lambda: None  # noqa: E731
    rank.take_part(spec, place, nothing)
    assert left.answered(0)

    def fails() -> dict[str, Any]:
        raise ValueError("caf\udce9")

    with pytest.raises(ValueError, match="caf"):
        rank.take_part(spec, place, fails)
    assert left.error(0) == "ValueError: caf\\udce9"


@pytest.mark.usefixtures("group")
def test_what_a_rank_calls_is_in_its_journal(tmp_path: Path) -> None:
    path = blame.journal_path(tmp_path, 0)
    mine = torch.ones(2, 3)
    with rank.journaled(path):
        second: Any = dist.new_group([0])
        dist.new_group([0], use_local_synchronization=True)
        dist.all_reduce(mine, op=dist.ReduceOp.MAX)
        dist.broadcast(mine.to(torch.bfloat16), 0, group=second)
        dist.all_gather_object([""], "something")
        dist.barrier()
        model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(3, 1), torch.nn.BatchNorm1d(1)))
        model(mine).sum().backward()
        world = dist.group.WORLD
        assert world
        with torch.inference_mode():
            functional.broadcast(mine.half(), 0, world).sum()
        functional.all_reduce(torch.ones(7), "sum", second).sum()
    calls = blame.journal(tmp_path, 0)
    words = {call.words: (call.stream, call.number) for call in reversed(calls)}
    name = second.group_name
    assert words["new_group of ranks [0]"] == (blame.NEW_GROUPS, 1)
    local = [call.members for call in calls if call.stream == f"{blame.NEW_GROUPS} of 0"]
    assert local == [(0,)]  # which other ranks need not call
    assert words["all_reduce of 2x3 float32, MAX"] == (blame.WORLD, 1)
    assert words["broadcast of 2x3 bfloat16, root 0"] == (f"group {name} of ranks 0", 1)
    # DDP's reducer calls in C++: its buffers of two dtypes before a forward, its gradients after a backward.
    operator = ", SUM" if hasattr(dist.ReduceOp, "unbox") else ""
    in_cpp = ("broadcast of 2 float32, root 0", "broadcast of 1 int64, root 0", f"all_reduce of 6 float32{operator}")
    assert set(in_cpp) <= set(words)
    assert words[f"all_reduce of 7 float32{operator}"][0] == f"group {name} of ranks 0"
    assert "broadcast of 2x3 float16, root 0" in words
    assert any(text.startswith("all_gather_object of ") for text in words) and "barrier" in words
    assert {call.line.partition(":")[0] for call in calls} == {Path(__file__).name}
    assert [call.seconds for call in calls] == sorted(call.seconds for call in calls)
    dist.barrier()
    assert blame.journal(tmp_path, 0) == calls


@pytest.mark.usefixtures("group")
def test_an_error_of_a_rank_that_polls_in_vain_says_that_it_waited(tmp_path: Path) -> None:
    spec: Any = SimpleNamespace(folder=tmp_path, remaining_s=60.0, environment={})

    def polls() -> dict[str, Any]:
        with rank.journaled(blame.journal_path(tmp_path, 0)):
            dist.distributed_c10d._get_default_store().check(["never"])
            raise AssertionError("nobody came")

    with pytest.raises(AssertionError):
        rank.take_part(spec, Placement("plain", 0, 1, 0, 1), polls)
    assert blame.Traces(tmp_path, 1).error(0).endswith("nobody came\nwhile it waited for other ranks")


@pytest.mark.usefixtures("group")
def test_a_journal_keeps_the_last_calls(tmp_path: Path) -> None:
    with rank.journaled(blame.journal_path(tmp_path, 0)):
        for _ in range(blame.SLOTS + 7):
            dist.barrier()
    calls = blame.journal(tmp_path, 0)
    assert (calls[0].number, calls[-1].number, len(calls)) == (8, blame.SLOTS + 7, blame.SLOTS)


@pytest.mark.usefixtures("group")
@pytest.mark.parametrize("odd", [3, None])
def test_a_call_that_differed_long_ago_is_in_the_digest(tmp_path: Path, odd: int | None) -> None:
    for number in (0, 1):
        with rank.journaled(blame.journal_path(tmp_path, number)):
            for at in range(blame.SLOTS + 7):
                differs = (number, at) == (1, odd)
                dist.all_reduce(torch.ones(1), op=dist.ReduceOp.MAX if differs else dist.ReduceOp.SUM)
    traces = blame.Traces(tmp_path, 2)
    assert blame.departures(traces.journals()) == []
    calls = blame.SLOTS + 7
    words = (
        f"rank 1 and rank 0 did not call the same of the world: of {calls} calls one differs that came before the last "
    )
    assert blame.differences(traces).startswith(words) if odd else blame.differences(traces) == ""


def test_a_timed_block_is_one_call_of_a_journal(alone: rank.Rank, tmp_path: Path) -> None:
    with rank.journaled(blame.journal_path(tmp_path, 0)):
        rank.timed(alone, lambda: [dist.all_reduce(torch.ones(2)) for _ in range(9)])
        dist.broadcast(torch.ones(3), 0)
    assert [call.words for call in blame.journal(tmp_path, 0)] == [
        "barrier",
        "timed action",
        "broadcast of 3 float32, root 0",
    ]


def test_known_numbers_differ_by_rank_and_place() -> None:
    assert not torch.equal(rank.known(0), rank.known(1))
    assert len(set(rank.known(3).tolist())) == rank.known(3).numel()


def test_an_all_reduce_that_drops_a_contribution_is_not_exact(
    alone: rank.Rank, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dist, "all_reduce", lambda tensor, group: tensor[5:6].zero_())
    said = "is wrong: 1 of 1031, first number 5, 0 instead of 5; all ranks got the same"
    with pytest.raises(RuntimeError, match=said):
        rank.require_exact(alone)


def test_an_action_is_timed_to_its_end(alone: rank.Rank) -> None:
    assert rank.timed(alone, lambda: time.sleep(0.03)) >= 0.03


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
    ("finalise", "ends", "status", "said"),
    [
        (False, "0", 0, ""),
        (True, "0", 0, "second\nworld\ngoodbye"),
        (True, "1", 1, ""),
        (True, "sys.exit()", 0, ""),
        (False, "sys.exit(7)", 7, ""),
        (False, "sys.exit('so')", 1, ""),
    ],
)
def test_a_rank_shuts_down_in_order_only_where_its_library_needs_it(
    finalise: bool, ends: str, status: int, said: str
) -> None:
    code = LEAVING.format(finalise=finalise, status=ends)
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert (ended.returncode, ended.stdout.strip()) == (status, said), ended.stderr

"""Collectives as work, in one process: each result is what it promises, faults are caught, busbw follows from the ranks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch.multiprocessing.spawn import spawn

from stackproof.record.checks import CheckFailed
from stackproof.workloads import collectives
from stackproof.workloads.collectives import TimedCollective, bus_factor

from .working import block, setting


@pytest.fixture(autouse=True)
def group(tmp_path: Path) -> Iterator[None]:
    """A group of one rank, over a file; with several the tests of measuring run them."""
    dist.init_process_group("gloo", init_method=f"file://{tmp_path / 'store'}", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.parametrize("call", ["all-reduce", "broadcast", "all-gather"])
def test_a_right_collective_is_proved(call: str) -> None:
    work = TimedCollective(setting(call=call, mib=0.01, dtype="float32"))
    assert "is exact on 1 ranks" in work.prove()
    assert set(work.worth) == {"GB"}
    assert work.conclude() == {"call": call}


@pytest.mark.parametrize("call", ["all-reduce", "broadcast", "all-gather"])
def test_a_wrong_collective_is_caught(call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    work, own = TimedCollective(setting(call=call, mib=0.01, dtype="bfloat16")), collectives._CALLS[call]

    def wrong(buffer: torch.Tensor, other: torch.Tensor) -> None:
        own(buffer, other)
        buffer[7] += 1

    monkeypatch.setitem(collectives._CALLS, call, wrong)
    with pytest.raises(CheckFailed, match=f"{call} of .* bytes on 1 ranks is wrong"):
        work.prove()


@pytest.mark.parametrize("call", ["all-reduce", "all-gather"])
def test_numbers_that_are_sent_in_fewer_bits_show(call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    work, own = TimedCollective(setting(call=call, mib=0.01, dtype="float32")), collectives._CALLS[call]

    def narrow(buffer: torch.Tensor, sent: torch.Tensor) -> None:
        own(buffer, sent)
        buffer.copy_(buffer.bfloat16())

    monkeypatch.setitem(collectives._CALLS, call, narrow)
    with pytest.raises(CheckFailed, match="is wrong after 3 runs"):
        block(work, 3)


@pytest.mark.parametrize("call", ["all-gather", "all-to-all", "reduce-scatter"])
def test_a_call_that_is_left_out_is_caught_wherever_it_was(call: str) -> None:
    work = TimedCollective(setting(call=call, mib=0.01, dtype="float32"))
    block(work, 20)
    for number in (0, 9, 19):
        with pytest.raises(CheckFailed, match=f"{call} of .* is wrong after 20 runs"):
            block(work, 20, {number})


@pytest.mark.parametrize(("dtype", "ranks"), [("bfloat16", 3), ("bfloat16", 6), ("float16", 2), ("float32", 3)])
def test_sums_are_exact_and_use_all_digits(dtype: str, ranks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dist, "get_world_size", lambda: ranks)
    sent = []
    for rank in range(ranks):
        monkeypatch.setattr(dist, "get_rank", lambda rank=rank: rank)
        work = TimedCollective(setting(call="all-reduce", mib=0.1, dtype=dtype))
        work.begin(3)
        sent.append(torch.stack(work.buffers[:3]))
    total = sum(sent[1:], sent[0])
    exact = torch.stack(sent).double().sum(0)
    assert torch.equal(total.double(), exact)
    assert exact.abs().max() * torch.finfo(total.dtype).eps > 0.5, "half the digits would do"
    assert not any(torch.equal(total[one], total[other]) for one, other in ((0, 1), (1, 2), (0, 2)))


def _pair(rank: int, file: str) -> None:
    dist.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=2)
    torch.set_num_threads(1)
    for call in ("all-reduce", "broadcast", "reduce", "all-gather", "reduce-scatter", "all-to-all"):
        work = TimedCollective(setting(call=call, mib=0.01, dtype="float32"))
        for runs in (1, 7, min(work.most_runs, 200)):
            block(work, runs)
        if (rank, call) not in ((1, "reduce"), (0, "broadcast")):  # these hold nothing that they received
            for number in (0, 3, 6):
                with pytest.raises(CheckFailed):
                    block(work, 7, {number})
        else:
            for _ in range(3):
                work.begin(7)
                for _ in range(6):
                    work.run()
    dist.barrier()
    dist.destroy_process_group()


@pytest.mark.slow
def test_two_ranks_see_each_run(tmp_path: Path) -> None:
    spawn(_pair, (str(tmp_path / "pair"),), nprocs=2)


@pytest.mark.parametrize(
    ("call", "ranks", "factor"),
    [
        ("all-reduce", 2, 1.0),
        ("all-reduce", 8, 1.75),
        ("all-gather", 4, 0.75),
        ("reduce-scatter", 4, 0.75),
        ("broadcast", 8, 1.0),
    ],
)
def test_factors_are_those_of_nccl_tests(call: str, ranks: int, factor: float) -> None:
    assert bus_factor(call, ranks) == pytest.approx(factor)

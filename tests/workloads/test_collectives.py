"""Collectives as work, in one process: each result is what it promises, faults are caught, busbw follows from the ranks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from stackproof.record.checks import CheckFailed
from stackproof.workloads import collectives
from stackproof.workloads.collectives import TimedCollective, bus_factor

from .working import looked_at, setting


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
    work = TimedCollective(setting(call=call, mib=0.01, dtype="bfloat16"))

    def wrong(self: TimedCollective) -> None:
        self._other.copy_(self._long)
        for tensor in (self._long, self._other):
            tensor[7] += 1

    monkeypatch.setitem(collectives._CALLS, call, wrong)
    with pytest.raises(CheckFailed, match=f"{call} of .* bytes on 1 ranks is wrong"):
        work.prove()


def test_a_collective_that_does_nothing_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    work = TimedCollective(setting(call="all-gather", mib=0.01, dtype="float32"))
    monkeypatch.setitem(collectives._CALLS, "all-gather", lambda _: None)
    with pytest.raises(CheckFailed):
        work.prove()


def test_a_call_that_is_left_out_now_and_then_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    work = TimedCollective(setting(call="all-gather", mib=0.01, dtype="float32"))
    work.prove()
    own, calls = collectives._CALLS["all-gather"], list[int]()

    def lazy(one: TimedCollective) -> object:
        calls.append(1)
        return own(one) if len(calls) % 3 else None

    monkeypatch.setitem(collectives._CALLS, "all-gather", lazy)
    looked_at(work)
    looked_at(work)
    with pytest.raises(CheckFailed, match="all-gather of .* is wrong"):
        looked_at(work)


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


def test_repeated_sums_stay_finite() -> None:
    work = TimedCollective(setting(call="all-reduce", mib=0.01, dtype="float16"))
    work.prove()
    for _ in range(100):
        work.run()
    assert bool(torch.isfinite(work._long).all())


def test_every_run_that_is_told_of_has_data_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    work = TimedCollective(setting(call="all-reduce", mib=0.01, dtype="float32"))
    work.prove()
    work.ready(3)
    for _ in range(3):
        work.run()
    work.verify()
    monkeypatch.setitem(collectives._CALLS, "all-reduce", lambda it: it._long.zero_())
    work.ready(3)
    for _ in range(3):
        work.run()
    with pytest.raises(CheckFailed, match="is wrong"):
        work.verify()


def test_where_there_is_no_room_runs_are_on_zeros(monkeypatch: pytest.MonkeyPatch) -> None:
    work = TimedCollective(setting(call="all-reduce", mib=0.01, dtype="float32"))
    work.prove()
    monkeypatch.setattr(collectives, "_MOST_BYTES", 1)
    work.ready(300)
    for _ in range(300):
        work.run()
    work.verify()
    assert len(work._longs) == 1

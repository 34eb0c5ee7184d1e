"""An all-reduce is timed and compared; a step is timed with communication, without, and with more of it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.distributed as dist

from stackproof.collectives import timing
from stackproof.ranks.rank import Rank

ARGUMENTS = {
    "workload": "classifier", "preset": "tiny", "seed": 7, "rounds": 2,
}  # fmt: skip


def test_an_all_reduce_is_timed_and_compared(alone: Rank, monkeypatch: pytest.MonkeyPatch) -> None:
    found = timing.all_reduce_rate(alone, 0.25)
    assert (found["gb"], found["wrong"]) == (262144 / 1e9, "") and found["seconds"] and min(found["seconds"]) > 0
    monkeypatch.setattr(dist, "all_reduce", lambda tensor, **_: tensor[-1:].add_(1))
    assert "all-reduce of 262144 bytes on 1 ranks is wrong" in timing.all_reduce_rate(alone, 0.25)["wrong"]


def test_the_slowest_rank_counts(alone: Rank, monkeypatch: pytest.MonkeyPatch) -> None:
    def slower(tensor: torch.Tensor, op: object = None) -> None:
        if op == dist.ReduceOp.MAX:
            tensor.copy_(torch.arange(1, len(tensor) + 1))

    sampler = timing.Together(alone.device, lambda: None)
    sampler.start_clock()
    assert sampler.spent() == 0.0
    monkeypatch.setattr(dist, "all_reduce", slower)
    assert sampler.block(3) == [1.0, 2.0, 3.0]
    assert sampler.spent() == 4.0


def test_steps_are_those_of_the_slowest_rank() -> None:
    ranks = [
        {"seconds": {"on": [3.0, 5.0], "off": [1.0, 2.0], "more": [6.0, 8.0], "ballast": [2.0, 2.0]}},
        {"seconds": {"on": [2.0, 6.0], "off": [2.0, 1.0], "more": [7.0, 7.0], "ballast": [3.0, 1.0]}},
    ]
    found = timing.split(ranks)
    assert (found["on"], found["exposed"], found["shown"]) == ([3.0, 6.0], [1.0, 4.0], [4.0, 2.0])
    assert found["ballast"] == [3.0, 2.0]


def test_the_middle_has_its_quartiles() -> None:
    assert timing.quartiles([5.0, 1.0, 4.0, 2.0, 3.0, 9.0, 8.0]) == (4.0, 2.0, 8.0)


@pytest.mark.parametrize(("seconds", "rounds"), [(0.0, 2), (900.0, 5)], ids=["the-fewest", "short-steps"])
def test_a_rank_returns_its_times(alone: Rank, monkeypatch: pytest.MonkeyPatch, seconds: float, rounds: int) -> None:
    monkeypatch.setattr(timing, "_ROUNDS_S", seconds)
    monkeypatch.setattr(timing, "_MOST_ROUNDS", 5)
    found = timing.cost(alone)
    assert {kind: len(times) for kind, times in found["seconds"].items()} == dict.fromkeys(
        ("on", "off", "more", "ballast"), rounds
    )
    assert all(seconds > 0 for times in found["seconds"].values() for seconds in times)
    assert found["dtype"] == "float32" and found["digests"].keys() == {"on", "off"}


def test_the_switch_leaves_communication_out(alone: Rank, monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[int] = []
    original = dist.all_reduce

    def counted(tensor: torch.Tensor, *rest: Any, **more: Any) -> Any:
        called.append(tensor.numel())
        return original(tensor, *rest, **more)

    monkeypatch.setattr(dist, "all_reduce", counted)
    switch = timing.Switch(torch.device("cpu"))
    switch.repeats = 2
    model = switch.wrap(torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4)))
    sent: list[Any] = []
    monkeypatch.setattr(model, "_sync_buffers", lambda: sent.append(switch.mode))
    job: Any = SimpleNamespace(step=lambda: model(torch.randn(3, 4)).sum().backward())
    for mode in timing.MODES:
        switch.turn(mode)
        switch.run(job)
    ballast = switch.ballast.numel()
    assert called == [28, 28, ballast, ballast] and sent == ["on", "more"]


def test_the_ballast_takes_as_long_as_a_step(alone: Rank, monkeypatch: pytest.MonkeyPatch) -> None:
    switch = timing.Switch(torch.device("cpu"))
    monkeypatch.setattr(timing, "_step", lambda *_: 0.05)
    monkeypatch.setattr(timing, "timed", lambda rank, action: switch.ballast.numel() * 1e-9 * switch.repeats)
    timing._weigh(alone, SimpleNamespace(), switch)  # type: ignore[arg-type]
    assert switch.repeats == round(0.05 / (2**18 * 1e-9))

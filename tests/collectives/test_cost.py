"""Cost of communication: spans of time, what steps show, and gradients that are exchanged only where they are meant to be."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.distributed as dist

from stackproof.collectives import cost
from stackproof.device.kinds import Host
from stackproof.ranks.rank import Rank


def event(name: str, start: float, end: float, kind: str = "DeviceType.CPU") -> SimpleNamespace:
    """Return an event as torch's profiler has it, in microseconds."""
    return SimpleNamespace(name=name, device_type=kind, time_range=SimpleNamespace(start=start, end=end))


def test_spans_are_merged() -> None:
    spans = [(5.0, 6.0), (0.0, 2.0), (1.0, 3.0), (3.0, 4.0)]
    assert cost.merged(spans) == [(0.0, 4.0), (5.0, 6.0)]
    assert cost.length(cost.merged(spans)) == 5.0
    assert cost.overlap([(0.0, 4.0)], [(3.0, 5.0), (6.0, 7.0)]) == 1.0


def test_on_the_host_operators_hide_communication() -> None:
    events = [
        event("DistributedDataParallel.forward", 0, 100),
        event("aten::mm", 0, 20),
        event("gloo:all_reduce", 10, 30),
        event("gloo:all_reduce", 20, 40),
    ]
    found = cost.shares(events, 1e-4)
    assert found == {"step": 1e-4, "communication": pytest.approx(30e-6), "alone": pytest.approx(20e-6)}


def test_on_a_card_only_what_ran_there_counts() -> None:
    cuda = "DeviceType.CUDA"
    events = [
        event("nccl:all_reduce", 0, 5),
        event("aten::mm", 0, 90),
        event("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", 50, 90, cuda),
        event("gemm_kernel", 40, 60, cuda),
    ]
    found = cost.shares(events, 1e-4)
    assert [found["communication"], found["alone"]] == pytest.approx([40e-6, 30e-6])


def test_gloo_talks_on_the_host_whatever_runs_on_the_card() -> None:
    cuda = "DeviceType.CUDA"
    events = [
        event("gloo:all_reduce", 10, 50),
        event("gloo:all_reduce", 10, 11, cuda),
        event("gemm_kernel", 0, 20, cuda),
    ]
    found = cost.shares(events, 1e-4)
    assert [found["communication"], found["alone"]] == pytest.approx([40e-6, 30e-6])


def test_steps_are_those_of_the_slowest_rank() -> None:
    ranks = [
        {"seconds": {"on": [3.0, 5.0], "off": [1.0, 2.0], "more": [6.0, 8.0], "ballast": [2.0, 2.0]}},
        {"seconds": {"on": [2.0, 6.0], "off": [2.0, 1.0], "more": [7.0, 7.0], "ballast": [3.0, 1.0]}},
    ]
    found = cost.split(ranks)
    assert (found["on"], found["exposed"], found["shown"]) == ([3.0, 6.0], [1.0, 4.0], [4.0, 2.0])
    assert found["ballast"] == [3.0, 2.0]


def test_the_middle_has_its_quartiles() -> None:
    assert cost.middle([5.0, 1.0, 4.0, 2.0, 3.0, 9.0, 8.0]) == (4.0, 2.0, 8.0)


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Rank]:
    """A group of one rank over gloo, in this process."""
    dist.init_process_group("gloo", store=dist.FileStore(str(tmp_path / "store"), 1), rank=0, world_size=1)
    arguments = {"workload": "classifier", "preset": "tiny", "seed": 7, "rounds": 2}
    yield Rank(0, 1, Host("cpu", 0), "gloo", 0.1, arguments, tmp_path)
    dist.destroy_process_group()


@pytest.mark.filterwarnings("ignore")  # the profiler warns of devices that are not there
@pytest.mark.parametrize(("seconds", "rounds"), [(0.0, 2), (9.0, 5)], ids=["the-fewest", "short-steps"])
def test_a_rank_returns_its_times(alone: Rank, monkeypatch: pytest.MonkeyPatch, seconds: float, rounds: int) -> None:
    monkeypatch.setattr(cost, "_ROUNDS_S", seconds)
    monkeypatch.setattr(cost, "_MOST_ROUNDS", 5)
    found = cost.measure(alone)
    assert {kind: len(times) for kind, times in found["seconds"].items()} == dict.fromkeys(
        ("on", "off", "more", "ballast"), rounds
    )
    assert all(seconds > 0 for times in found["seconds"].values() for seconds in times)
    on, off = found["profiled"]["on"], found["profiled"]["off"]
    assert on["communication"] > 0 == off["communication"]
    assert on["alone"] <= on["communication"] * (1 + 1e-9)
    assert found["dtype"] == "float32" and found["digests"].keys() == {"on", "off"}


def test_the_switch_leaves_communication_out(alone: Rank, monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[int] = []
    original = dist.all_reduce

    def counted(tensor: torch.Tensor, *rest: Any, **more: Any) -> Any:
        called.append(tensor.numel())
        return original(tensor, *rest, **more)

    monkeypatch.setattr(dist, "all_reduce", counted)
    switch = cost.Switch(torch.device("cpu"))
    switch.repeats = 2
    model = switch.wrap(torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4)))
    sent: list[Any] = []
    monkeypatch.setattr(model, "_sync_buffers", lambda: sent.append(switch.mode))
    job: Any = SimpleNamespace(step=lambda: model(torch.randn(3, 4)).sum().backward())
    for mode in cost.MODES:
        switch.turn(mode)
        switch.run(job)
    ballast = switch.ballast.numel()
    assert called == [28, 28, ballast, ballast] and sent == ["on", "more"]


def test_the_ballast_takes_as_long_as_a_step(alone: Rank, monkeypatch: pytest.MonkeyPatch) -> None:
    switch = cost.Switch(torch.device("cpu"))
    monkeypatch.setattr(cost, "_step", lambda *_: 0.05)
    monkeypatch.setattr(cost, "timed", lambda rank, action: switch.ballast.numel() * 1e-11 * switch.repeats)
    cost._weigh(alone, SimpleNamespace(), switch)  # type: ignore[arg-type]
    assert switch.ballast.numel() == cost._LARGEST_BALLAST and switch.repeats == round(0.05 / (2**26 * 1e-11))

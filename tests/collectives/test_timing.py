"""Bandwidth: sizes and factors of nccl-tests, and buffers whose result is known after any number of calls."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.distributed as dist

from stackproof.collectives import timing
from stackproof.collectives.table import rows
from stackproof.collectives.timing import TRANSFERS, Buffers, most_calls, per_gb, sizes, words
from stackproof.ranks.rank import Rank
from stackproof.workloads.collectives import bus_factor

CPU = torch.device("cpu")
ARGUMENTS = {
    "transfers": [name for name in TRANSFERS if name != "send_recv"], "sizes": [4096, 16384],
    "workload": "classifier", "preset": "tiny", "seed": 7, "rounds": 2,
}  # fmt: skip


def test_sizes_go_up_by_four() -> None:
    assert [words(size) for size in sizes("tiny")] == [
        "4 KiB", "16 KiB", "64 KiB", "256 KiB", "1 MiB", "4 MiB", "16 MiB"
    ]  # fmt: skip
    assert [words(size) for size in sizes("full")][6:] == ["16 MiB", "64 MiB", "256 MiB"]


def test_bus_factors_are_those_of_nccl_tests() -> None:
    factors = {name: bus_factor(name, 8) for name in TRANSFERS}
    assert factors == {
        "all_reduce": 1.75, "all_gather": 0.875, "reduce_scatter": 0.875, "all_to_all": 0.875, "broadcast": 1, "send_recv": 1
    }  # fmt: skip


def test_seconds_per_gb() -> None:
    assert per_gb([0.01], 20_000_000) == [pytest.approx(0.5)]
    assert per_gb([0.01], 20_000_000, 2.0) == [pytest.approx(0.25)]


def test_every_transfer_builds_on_a_check_that_exists() -> None:
    names = {row.name for row in rows()}
    assert {f"{transfer.row}-float32" for transfer in TRANSFERS.values()} <= names


@pytest.mark.parametrize("world", range(1, 17))
def test_repeated_sums_in_place_stay_exact(world: int) -> None:
    ranks = [torch.arange(-8.0, 9.0).roll(rank) for rank in range(world)]
    total, calls = torch.stack(ranks).sum(0), most_calls(world)
    exact = [Fraction(value) * Fraction(world) ** (calls - 1) for value in total.tolist()]
    for _ in range(calls - 1):
        total = sum(total.clone() for _ in range(world))  # type: ignore[assignment]
    assert [Fraction(value) for value in total.tolist()] == exact and 1 <= calls <= 50


@pytest.mark.parametrize("world", [1, 2, 3, 4])
def test_buffers_agree_with_the_definition(world: int) -> None:
    given = {name: [Buffers(one, rank, world, 6, CPU) for rank in range(world)] for name, one in TRANSFERS.items()}
    for rank in range(world):
        parts = [list(one.source.split(6)) for one in given["all_to_all"]]
        expected = {
            "all_reduce": torch.stack([one.source for one in given["all_reduce"]]).sum(0),
            "broadcast": given["broadcast"][0].source,
            "all_gather": torch.cat([one.source for one in given["all_gather"]]),
            "reduce_scatter": torch.stack([one.source for one in given["reduce_scatter"]]).sum(0)[
                6 * rank : 6 * rank + 6
            ],
            "all_to_all": torch.cat([of[rank] for of in parts]),
            "send_recv": given["send_recv"][rank - 1].source,
        }
        for name, exact in expected.items():
            assert torch.equal(given[name][rank].expected, exact), (name, rank)


def test_long_buffers_repeat_and_are_filled_anew() -> None:
    buffers = Buffers(TRANSFERS["all_gather"], 0, 2, 200_000, CPU)
    buffers.fill()
    assert buffers.wrong(1.0) == buffers.out.numel() == 400_000
    buffers.out.copy_(buffers.expected)
    assert buffers.wrong(1.0) == 0 and torch.equal(buffers.mine, buffers.source)


def test_every_size_is_timed_in_spans(alone: Rank) -> None:
    found = timing.bandwidth(alone)["transfers"]
    for name in alone.arguments["transfers"]:
        assert [row["bytes"] for row in found[name]] == [4096, 16384]
        for row in found[name]:
            assert row["wrong"] == 0 and 5 <= len(row["seconds"]) <= 15 and min(row["seconds"]) > 0


@pytest.mark.parametrize("broken", ["all_reduce", "all_gather_into_tensor"])
def test_a_wrong_result_under_the_clock_is_counted(broken: str, alone: Rank, monkeypatch: pytest.MonkeyPatch) -> None:
    original, calls = getattr(dist, broken), [0]

    def wrong(tensor: torch.Tensor, *more: Any) -> Any:
        calls[0] += 1
        work = original(tensor, *more)
        if calls[0] > 10:
            tensor[-1] += 1
        return work

    monkeypatch.setattr(dist, broken, wrong)
    name = {"all_reduce": "all_reduce", "all_gather_into_tensor": "all_gather"}[broken]
    assert max(row["wrong"] for row in timing.bandwidth(alone)["transfers"][name]) == 1


def test_a_refused_transfer_leaves_the_others_alone(alone: Rank, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise RuntimeError("isn't implementd on backend [cpu]")

    monkeypatch.setattr(dist, "broadcast", refuse)
    rank = replace(alone, arguments={"transfers": ["broadcast", "all_reduce"], "sizes": [4096]})
    found = timing.bandwidth(rank)["transfers"]
    assert found["broadcast"] == [{"refused": "RuntimeError: isn't implementd on backend [cpu]"}]
    assert found["all_reduce"][0]["wrong"] == 0


def event(name: str, start: float, end: float, kind: str = "DeviceType.CPU") -> SimpleNamespace:
    return SimpleNamespace(name=name, device_type=kind, time_range=SimpleNamespace(start=start, end=end))


def test_spans_are_merged() -> None:
    spans = [(5.0, 6.0), (0.0, 2.0), (1.0, 3.0), (3.0, 4.0)]
    assert timing.merged(spans) == [(0.0, 4.0), (5.0, 6.0)]
    assert timing.length(timing.merged(spans)) == 5.0
    assert timing.overlap([(0.0, 4.0)], [(3.0, 5.0), (6.0, 7.0)]) == 1.0


def test_on_the_host_operators_hide_communication() -> None:
    events = [
        event("DistributedDataParallel.forward", 0, 100),
        event("aten::mm", 0, 20),
        event("gloo:all_reduce", 10, 30),
        event("gloo:all_reduce", 20, 40),
    ]
    found = timing.shares(events, 1e-4)
    assert found == {"step": 1e-4, "communication": pytest.approx(30e-6), "alone": pytest.approx(20e-6)}


def test_on_a_card_only_what_ran_there_counts() -> None:
    cuda = "DeviceType.CUDA"
    events = [
        event("nccl:all_reduce", 0, 5),
        event("aten::mm", 0, 90),
        event("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", 50, 90, cuda),
        event("gemm_kernel", 40, 60, cuda),
    ]
    found = timing.shares(events, 1e-4)
    assert [found["communication"], found["alone"]] == pytest.approx([40e-6, 30e-6])


def test_gloo_talks_on_the_host_whatever_runs_on_the_card() -> None:
    cuda = "DeviceType.CUDA"
    events = [
        event("gloo:all_reduce", 10, 50),
        event("gloo:all_reduce", 10, 11, cuda),
        event("gemm_kernel", 0, 20, cuda),
    ]
    found = timing.shares(events, 1e-4)
    assert [found["communication"], found["alone"]] == pytest.approx([40e-6, 30e-6])


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


@pytest.mark.filterwarnings("ignore")  # the profiler warns of devices that are not there
@pytest.mark.parametrize(("seconds", "rounds"), [(0.0, 2), (900.0, 5)], ids=["the-fewest", "short-steps"])
def test_a_rank_returns_its_times(alone: Rank, monkeypatch: pytest.MonkeyPatch, seconds: float, rounds: int) -> None:
    monkeypatch.setattr(timing, "_ROUNDS_S", seconds)
    monkeypatch.setattr(timing, "_MOST_ROUNDS", 5)
    found = timing.cost(alone)
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
    monkeypatch.setattr(timing, "timed", lambda rank, action: switch.ballast.numel() * 1e-11 * switch.repeats)
    timing._weigh(alone, SimpleNamespace(), switch)  # type: ignore[arg-type]
    assert switch.ballast.numel() == timing._LARGEST_BALLAST and switch.repeats == round(0.05 / (2**26 * 1e-11))

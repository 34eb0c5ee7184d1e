"""A subject in a side's own process: proved before it is run, slower by what a drill plants, larger by what one holds."""

from __future__ import annotations

import gc

import pytest
import torch

from stackproof.bench.subjects import subjects
from stackproof.device.devices import HOST
from stackproof.device.kinds import Device
from stackproof.gate import planted
from stackproof.gate.side import Answer, InProcess
from stackproof.record.checks import CheckFailed
from stackproof.stack import stacks


@pytest.fixture(autouse=True)
def _threads() -> object:
    """A station sets the number of threads and freezes the collector, as the process of a side may."""
    before = torch.get_num_threads()
    yield
    gc.unfreeze()
    torch.set_num_threads(before)


def _station(name: str, drill: str = "", earlier: Answer | None = None) -> InProcess:
    known = {one.name: one for one in subjects("fast", stacks.load("cpu"))}
    return InProcess(known[name], "tiny", HOST, planted.read(drill), earlier)


def test_a_station_is_proved_runs_and_says_what_a_run_is_worth() -> None:
    station = _station("gemm-float32")
    assert station.proved
    assert station.worth["iteration"] == 1.0
    told = station.warm(0.5)
    assert told["seconds"] > 0
    assert told["opening-memory"] > 1e6
    timed = station.block(2)
    assert timed["seconds"] > 0
    assert len(timed["each"]) == 2
    assert station.done()["peak-memory"] > 1e6
    assert station.count()["counters"]["operators"] >= 1
    station.conclude()
    station.close()


def test_the_collector_leaves_alone_what_stood_before_the_blocks() -> None:
    station = _station("gemm-float32")
    station.warm(0.5)
    assert gc.get_freeze_count() > 10_000
    station.close()
    assert gc.get_freeze_count() == 0


@pytest.mark.parametrize("name", ["gemm-float32", "optimiser-yolov8n"])
def test_what_an_earlier_launch_proved_is_proved_again_only_where_the_work_computes_something_else(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = _station(name)
    fields = first.compute()
    earlier = {"proved": "in launch 1", "dtype": fields["dtype"], "timed": fields["groups"]["timed"]}
    proofs = list[object]()

    def prove(work: object) -> str:
        proofs.append(work)
        return "anew"

    monkeypatch.setattr(type(first._work), "prove", prove)
    first.close()
    second = _station(name, earlier=earlier)
    assert (second.proved, proofs) == ("in launch 1", [])
    assert second.conclude() == {"figures": {}}
    second.close()
    other = _station(name, earlier={**earlier, "timed": {}})
    assert (other.proved, len(proofs)) == ("anew", 1)
    other.close()


@pytest.mark.slow
def test_a_planted_gradient_does_not_pass_the_proof() -> None:
    with pytest.raises(CheckFailed):
        _station("training-llama3-8b-lora", "gradient=0.05")


@pytest.mark.slow
def test_a_spin_is_as_long_as_it_says() -> None:
    took, plain = (_least(_station("gemm-float32", *faults)) for faults in (("spin=10",), ()))
    assert took > 3 * plain


def _least(station: InProcess) -> float:
    """Return the seconds of the warm-up that was disturbed least."""
    return min(float(station.warm(0.1)["seconds"]) for _ in range(5))


def test_what_a_device_cannot_spin_that_briefly_is_owed_to_later_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    spun: list[float] = []

    def spin(_: Device, seconds: float) -> float:
        spun.append(round(seconds, 6) // 0.01 * 0.01)
        return spun[-1]

    monkeypatch.setattr(type(HOST), "spin", spin)
    run = planted.burdened(lambda: None, planted.read("spin=0.03"), HOST, seconds=0.1)
    for _ in range(8):
        run()
    assert sum(spun) == pytest.approx(0.02)


@pytest.mark.slow
def test_held_memory_shows_in_the_peak() -> None:
    station = _station("gemm-float32", "memory=1.0")
    before = HOST.memory().peak
    station.warm(0.5)
    assert station.done()["peak-memory"] > 1.5 * before


def test_a_worse_kernel_dispatches_other_operators() -> None:
    fused, plain = _station("attention-forward-float32"), _station("attention-forward-float32", "kernel=1")
    for station in (fused, plain):
        station.warm(0.3)
    counted = [station.count()["counters"]["operators"] for station in (fused, plain)]
    assert counted[1] > counted[0]

"""Work that is right but was kept from the run before is found by its time; honest work, and neighbours, raise no alarm."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import torch

from stackproof.base.toml import Table
from stackproof.bench import engine
from stackproof.bench.engine import SpotChecks
from stackproof.bench.sampling import Sampler
from stackproof.bench.subjects import Budget
from stackproof.device.devices import HOST
from stackproof.record.checks import CheckFailed
from stackproof.workloads import sdpa
from stackproof.workloads.copies import Copy
from stackproof.workloads.gemm import Gemm
from stackproof.workloads.sdpa import Attention
from stackproof.workloads.work import Setting, Work

NEW, SAME = 0.1, 0.001


class Told(Work):
    """Takes no time: how long its runs are said to take is in a list."""

    def __init__(self, renewable: bool = True) -> None:
        self._renewable, self.renewed = renewable, 0

    @property
    def worth(self) -> Mapping[str, float]:
        """Nothing."""
        return {}

    def prove(self) -> str:
        """Nothing to prove."""
        return ""

    def run(self) -> None:
        """Nothing to do."""

    def fresh_inputs(self) -> bool:
        """Count."""
        self.renewed += 1
        return self._renewable


def taking(monkeypatch: pytest.MonkeyPatch, *seconds: float) -> None:
    calls: list[int] = []

    def timed(*_: object) -> float:
        calls.append(1)
        return seconds[(len(calls) - 1) % len(seconds)]

    monkeypatch.setattr(engine, "_timed", timed)


def test_what_is_kept_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    taking(monkeypatch, NEW, SAME)
    with pytest.raises(
        CheckFailed, match=r"takes 0\.1 s at least, the timed ones took 0\.001 s: what they left was kept"
    ):
        SpotChecks(Told()).computed(HOST, [SAME] * 9)


def test_honest_work_tells_its_ratio(monkeypatch: pytest.MonkeyPatch) -> None:
    taking(monkeypatch, NEW, NEW)
    assert SpotChecks(Told()).computed(HOST, [NEW] * 9) == {"new inputs, times as long": 1.0}


def test_neighbours_raise_no_alarm(monkeypatch: pytest.MonkeyPatch) -> None:
    taking(monkeypatch, NEW, SAME)
    assert SpotChecks(Told()).computed(HOST, [NEW] * 9)["new inputs, times as long"] == pytest.approx(NEW / SAME)
    taking(monkeypatch, NEW, SAME, NEW, NEW)
    SpotChecks(Told()).computed(HOST, [SAME] * 9)


def test_work_with_new_inputs_anyhow_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    taking(monkeypatch, NEW, SAME)
    work = Told(renewable=False)
    assert SpotChecks(work).computed(HOST, [SAME]) == {}
    assert work.renewed == 1


@pytest.mark.parametrize(
    ("make", "row"),
    [
        (Gemm, {"size": 32, "dtype": "float32"}),
        (Copy, {"mib": 1, "source": "device", "target": "device"}),
        (Attention, {"batch": 1, "heads": 1, "length": 8, "width": 8, "dtype": "float32", "backward": False}),
    ],
)
def test_new_inputs_give_another_result(make: type[Gemm | Copy | Attention], row: dict[str, object]) -> None:
    work = make(Setting(HOST, "tiny", Table(Path("benchmarks.toml"), row)))
    work.prove()
    before = left(work)
    assert work.fresh_inputs()
    work.run()
    assert not torch.equal(left(work), before)
    work.close()


def left(work: Work) -> torch.Tensor:
    found = work.run()
    tensor = found["output"] if isinstance(found, dict) else found
    assert isinstance(tensor, torch.Tensor)
    return tensor.detach().clone()


def singly(work: Work, seconds: float, number: int = 1) -> tuple[int, list[float]]:
    checks = SpotChecks(work)
    samples = checks.singly(Sampler(HOST, work.run, number, work.ready), Budget(0.1, seconds / engine.PROOF), 0)
    return checks.single, samples


class Skipped:
    """Leaves each so manieth run out."""

    def __init__(self, run: Callable[[], object], each: int) -> None:
        self.run, self.each, self.calls = run, each, 0

    def __call__(self) -> object:
        """Run, or not."""
        self.calls += 1
        return None if self.calls % self.each == 0 else self.run()


def product_or_copy(kind: str) -> Work:
    table = (
        {"size": 64, "dtype": "float32"} if kind == "product" else {"mib": 1, "source": "device", "target": "device"}
    )
    setting = Setting(HOST, "tiny", Table(Path("benchmarks.toml"), table))
    return Gemm(setting) if kind == "product" else Copy(setting)


@pytest.mark.parametrize("each", [2, 7, 31])
@pytest.mark.parametrize("kind", ["product", "copy"])
def test_a_run_that_is_left_out_now_and_then_is_found(kind: str, each: int, monkeypatch: pytest.MonkeyPatch) -> None:
    work = product_or_copy(kind)
    work.prove()
    assert singly(work, 60.0)[0] == engine.SINGLE
    monkeypatch.setattr(work, "run", Skipped(work.run, each))
    with pytest.raises(CheckFailed, match=rf"run {each} of those .* did nothing"):
        singly(work, 60.0)


def attention(*, backward: bool) -> Attention:
    table = {"batch": 1, "heads": 2, "length": 16, "width": 8, "dtype": "float32", "backward": backward}
    return Attention(Setting(HOST, "tiny", Table(Path("benchmarks.toml"), table)))


@pytest.mark.parametrize("each", [2, 7, 31])
@pytest.mark.parametrize("backward", [False, True])
def test_attention_that_is_left_out_now_and_then_is_found(
    backward: bool, each: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = attention(backward=backward)
    work.prove()
    assert singly(work, 60.0)[0] == engine.SINGLE
    own, results = sdpa.scaled_dot_product_attention, list[torch.Tensor]()

    def lazy(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *, is_causal: bool) -> torch.Tensor:
        skipped = results and len(results) % each == 0
        results.append(results[-1] if skipped else own(query, key, value, is_causal=is_causal))
        return results[-1]

    monkeypatch.setattr(sdpa, "scaled_dot_product_attention", lazy)
    work.run()
    with pytest.raises((CheckFailed, RuntimeError), match="left what an earlier run had left|second time"):
        singly(work, 60.0)
    work.close()


def test_few_runs_are_looked_at_where_there_is_no_time() -> None:
    assert singly(product_or_copy("product"), -1.0)[0] == 4
    assert singly(Told(), 60.0) == (0, [])


def test_runs_that_are_looked_at_are_samples() -> None:
    work = product_or_copy("product")
    runs, samples = singly(work, -1.0)
    assert runs == len(samples) == 4
    assert min(samples) > 0
    assert singly(work, -1.0, number=3) == (4, [])

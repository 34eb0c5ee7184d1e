"""The order of things: the clock is proved, then the work, then it is warmed up and timed; what is wrong gives no figure."""

from __future__ import annotations

import random
import re
import time
from dataclasses import replace

import pytest

from stackproof.base.errors import Refusal
from stackproof.bench import engine
from stackproof.bench.engine import measure
from stackproof.bench.sampling import Warmth
from stackproof.bench.subjects import Budget, subjects
from stackproof.probes import clock, spans
from stackproof.probes.clock import ClockWrongError
from stackproof.probes.spans import Sampler
from stackproof.record.checks import CapabilityMissing, CheckFailed, CheckInconclusive
from stackproof.stack.stacks import Stack

from .conftest import HOST, Spin, subject_of

SHORT = Budget(noise=0.5, seconds=0.3, least=8)


def test_everything_comes_in_order(spin: type[Spin], cpu: Stack) -> None:
    found = measure(subject_of(cpu), HOST, "tiny", SHORT)
    order = [word for number, word in enumerate(spin.log) if number == 0 or spin.log[number - 1] != word]
    assert order == ["calibrated", "built", "proved", "run", "proved", "closed"]
    assert (found.verified, found.reason) == (True, "a spin is right")
    assert found.facts["calibration.factor"] == 2.0
    assert float(found.facts["spins"]) > 10


def test_seconds_are_per_unit(spin: type[Spin], cpu: Stack) -> None:
    found = measure(subject_of(cpu), HOST, "tiny", SHORT)
    assert min(found.samples) >= 0.9 * spin.seconds / 4
    assert found.per_run >= 0.9 * spin.seconds
    assert len(found.samples) >= SHORT.least
    assert found.version == "3"


def test_what_computes_wrong_is_not_timed(spin: type[Spin], cpu: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spin, "wrong", "the gradient is off by 0.1 %")
    found = measure(subject_of(cpu), HOST, "tiny", SHORT)
    assert (found.verified, found.reason, found.samples) == (False, "the gradient is off by 0.1 %", ())
    assert "run" not in spin.log
    assert spin.log[-1] == "closed"


def test_what_goes_wrong_while_timed_has_no_figure(
    spin: type[Spin], cpu: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spin, "spoilt", "the loss is nan")
    found = measure(subject_of(cpu), HOST, "tiny", SHORT)
    assert (found.verified, found.samples) == (False, ())


def test_a_clock_that_lies_ends_everything(spin: type[Spin], cpu: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object) -> dict[str, float]:
        raise CheckFailed("synchronising does not wait")

    monkeypatch.setattr(engine, "calibrate", refuse)
    with pytest.raises(CheckFailed, match="synchronising does not wait"):
        measure(subject_of(cpu), HOST, "tiny", SHORT)
    assert spin.log == []


def test_a_clock_that_goes_wrong_is_no_wrong_result(
    spin: type[Spin], cpu: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(_: object) -> None:
        raise ClockWrongError("the host's clock measured 1 ms for a span of 2 ms")

    monkeypatch.setattr(clock, "require_kept", wrong)
    with pytest.raises(ClockWrongError, match="measured 1 ms"):
        measure(subject_of(cpu), HOST, "tiny", SHORT)
    assert spin.log[-1] == "closed"


def test_a_missing_capability_skips_with_its_rule(spin: type[Spin], cpu: Stack) -> None:
    with pytest.raises(CapabilityMissing, match="device-memory"):
        measure(subject_of(cpu, needs=("device-memory",)), HOST, "tiny", SHORT)
    narrow = replace(cpu, precisions=("float32",))
    with pytest.raises(CapabilityMissing, match="precisions has no bfloat16"):
        measure(subject_of(narrow, dtype="bfloat16"), HOST, "tiny", SHORT)
    assert spin.log == []


def test_other_processes_end_it_or_are_noted(spin: type[Spin], cpu: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    from stackproof.device import telemetry

    monkeypatch.setattr(telemetry, "others_on_card", lambda *_: ("miner (4711)",))
    with pytest.raises(CheckInconclusive, match=r"miner \(4711\); end them, or add --allow-foreign"):
        measure(subject_of(cpu), HOST, "tiny", SHORT)
    found = measure(subject_of(cpu), HOST, "tiny", replace(SHORT, allow_foreign=True))
    assert "1 other process(es) on cpu: miner (4711)" in found.notes


def test_an_unknown_kind_is_refused(spin: type[Spin], cpu: Stack) -> None:
    with pytest.raises(Refusal, match=re.escape("no kind of work 'spni' (did you mean 'spin'?)")):
        measure(subject_of(cpu, kind="spni"), HOST, "tiny", SHORT)


def test_remarks_say_what_makes_samples_doubtful() -> None:
    warm, cold = Warmth(10, 1.0, True, 0.001, 0.1), Warmth(10, 1.0, False, 0.2, 0.1)
    assert engine.remarks(warm, [1.0] * 30, SHORT) == []
    (unsettled,) = engine.remarks(cold, [1.0] * 30, SHORT)
    assert unsettled.startswith("not settled: the last runs of the warm-up still changed by 20.0%")
    slower = [1.0] * 10 + [1.05] * 10 + [1.1] * 10
    assert any(
        word.startswith("drifted: the last third of the samples is +10.0%")
        for word in engine.remarks(warm, slower, SHORT)
    )
    (noisy,) = engine.remarks(warm, [1.0, 2.0, 3.0], Budget(noise=0.01, seconds=1.0))
    assert noisy.startswith("noisy: known to within 50% only, 1.0% was wanted")


@pytest.mark.slow
def test_a_real_subject_from_the_file(cpu: Stack) -> None:
    (subject,) = [one for one in subjects("fast", cpu) if one.name == "gemm-float32"]
    found = measure(subject, HOST, "tiny", Budget(noise=0.2, seconds=1.0, least=10))
    assert found.verified
    assert found.arithmetic == "float32"
    assert found.worth["TFLOP"] == pytest.approx(2 * 512**3 / 1e12)
    assert found.peak_memory_bytes > 1 << 20
    assert len(found.samples) >= 10


def test_what_blocks_leave_is_compared(spin: type[Spin], cpu: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    held = list[tuple[int, str]]()
    monkeypatch.setattr(spin, "verify", lambda _, runs: held.append((runs, spin.log[-1])))
    found = measure(subject_of(cpu), HOST, "tiny", SHORT)
    assert found.facts["blocks compared"] == len(held) >= 1
    assert {word for _, word in held} == {"run"}
    assert len({runs for runs, _ in held}) == 1


@pytest.mark.parametrize(("cost", "blocks"), [(0.0, 9), (0.02, 3)])
def test_dear_traces_are_compared_of_the_first_two_blocks_and_the_last(
    spin: type[Spin], monkeypatch: pytest.MonkeyPatch, cost: float, blocks: int
) -> None:
    monkeypatch.setattr(random, "random", lambda: 0.5)
    traces = engine.RunTraces(spin.__new__(spin), Sampler(HOST, lambda: None), bool)
    monkeypatch.setattr(spin, "verify", lambda *_: time.sleep(cost) if cost else None)
    for number in range(9):
        if traces.compares(number == 8):
            traces._began -= 0.001 + 10.0 * (not cost)
            traces.after(4)
    assert (traces.blocks, traces.compared) == (9, blocks)
    assert traces.spent >= cost * (blocks - 1) and traces.first >= cost


def test_the_last_block_is_compared_and_others_may_go_on_from_where_they_are(
    spin: type[Spin], cpu: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = list[bool]()
    monkeypatch.setattr(random, "random", lambda: 0.5)
    monkeypatch.setattr(spans, "_BLOCK_S", 0.02)
    monkeypatch.setattr(spin, "begin", lambda _, runs, compared=True: begun.append(compared))
    monkeypatch.setattr(spin, "verify", lambda *_: time.sleep(0.05))
    found = measure(subject_of(cpu), HOST, "tiny", replace(SHORT, seconds=1.0, noise=0.0))
    assert begun[-1] and not all(begun)
    assert found.facts["blocks compared"] == 3


def test_a_rate_above_the_peak_is_void(spin: type[Spin], cpu: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    from stackproof.bench import rows

    slow = rows.Peak(("*",), "nobody", 1.0, {"float32": 1e-9})
    monkeypatch.setattr(rows, "peaks", lambda: (slow,))
    found = measure(subject_of(cpu), HOST, "tiny", SHORT)
    assert not found.verified
    assert "of the published peak" in found.reason

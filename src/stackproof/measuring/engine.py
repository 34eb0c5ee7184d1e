"""Measures one subject on one device: may it run, is the clock true, does it compute right, has it settled, how long does it take."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from .. import capabilities
from ..checks import CapabilityMissing, CheckFailed
from ..device import Device
from ..errors import Refusal, suggestion
from ..records import Figure
from ..workloads import kinds
from ..workloads.work import Maker, Setting, Work
from .calibration import calibrate
from .sampled import Sampled
from .sampling import Sampler, Warmth, sample, warm_up
from .statistics import drift
from .subjects import Budget, Subject

_DRIFTED = 0.03


def run(subject: Subject, device: Device, preset: str, budget: Budget) -> Sampled:
    """Measure; see `stackproof.measuring.measure` for what it raises."""
    _require_possible(subject)
    with threads(preset), device.current():
        facts = calibrate(device)
        work = _maker(subject)(Setting(device, preset, subject.table(preset)))
        try:
            return _proved(subject, work, device, preset, budget, facts)
        finally:
            work.close()


def _maker(subject: Subject) -> Maker:
    if subject.kind not in kinds():
        raise Refusal(f"there is no kind of work '{subject.kind}'{suggestion(subject.kind, kinds())}")
    return kinds()[subject.kind]


def _require_possible(subject: Subject) -> None:
    """End with the rule that says why this stack is not asked."""
    for need in subject.needs:
        capabilities.require(subject.stack, need)
    if subject.dtype and subject.dtype not in subject.stack.precisions:
        raise CapabilityMissing(f"stacks/{subject.stack.name}/stack.toml: precisions has no {subject.dtype}")


def _proved(
    subject: Subject, work: Work, device: Device, preset: str, budget: Budget, facts: dict[str, Figure]
) -> Sampled:
    """Prove the work, and only then time it."""
    try:
        reason = work.prove()
    except CheckFailed as failure:
        return _sampled(subject, work, preset, (), False, str(failure))
    device.synchronize()
    device.reset_peak()
    sampler = Sampler(device, work.run)
    warmth = warm_up(sampler, budget.seconds)
    seconds = sample(sampler, budget)
    return _sampled(
        subject, work, preset, tuple(seconds), True, reason,
        peak_memory_bytes=device.memory().peak, settled=warmth.settled,
        facts={**facts, **work.facts(), "warm_up.runs": warmth.runs, "warm_up.seconds": warmth.seconds, "runs per sample": sampler.number},
        notes=_notes(warmth, seconds),
    )  # fmt: skip


def _sampled(
    subject: Subject, work: Work, preset: str, seconds: tuple[float, ...], verified: bool, reason: str, **rest: object
) -> Sampled:
    worth = {"iteration": 1.0, **work.worth}
    amount = 1.0 if subject.unit == "s" else worth[subject.unit.removeprefix("s/")]
    samples = tuple(one / amount for one in seconds)
    return Sampled(
        subject.name, subject.version, preset, work.dtype, 1, subject.unit, samples, worth, verified, reason,
        work.arithmetic, **rest,  # type: ignore[arg-type]
    )  # fmt: skip


def _notes(warmth: Warmth, seconds: list[float]) -> tuple[str, ...]:
    notes = []
    if not warmth.settled:
        notes.append(f"not settled: the last runs of the warm-up still changed by {warmth.change:.1%}")
    if abs(moved := drift(seconds)) > _DRIFTED:
        notes.append(f"drifted: the last third of the samples is {moved:+.1%} against the first")
    return tuple(notes)


@contextmanager
def threads(preset: str) -> Iterator[None]:
    """Run tiny work on one thread of the CPU, as the suites do: with busy neighbours, two are far less steady."""
    before = torch.get_num_threads()
    torch.set_num_threads(1 if preset == "tiny" else before)
    try:
        yield
    finally:
        torch.set_num_threads(before)

"""Measures one subject on one device: may it run, is the clock true, does it compute right, has it settled, how long does it take.

What is timed is what was proved: blocks of runs leave their trace in what is there at the end of each.
"""

from __future__ import annotations

import gc
import importlib
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from stackproof.base.errors import Refusal, suggestion
from stackproof.base.processes import HostLoad
from stackproof.base.statistics import drift, median_interval, rhythm
from stackproof.bench.rows import Sampled, figures, result
from stackproof.bench.sampling import Sampler, Warmth, calibrate, joules_of_a_run, sample, warm_up
from stackproof.bench.subjects import Budget, Subject
from stackproof.device import threads
from stackproof.device.kinds import Device
from stackproof.device.telemetry import Telemetry, energy_counter, require_alone
from stackproof.probes.clock import ClockWrongError
from stackproof.record.checks import CapabilityMissing, CheckFailed
from stackproof.record.records import Figure
from stackproof.stack import capabilities
from stackproof.workloads.catalogue import kinds
from stackproof.workloads.work import Setting, Work

_DRIFTED = 0.03
"""From this share on, the difference between the first and the last third of the samples is worth a note."""
_WIDE = 3.0
"""Beyond so many times the noise target, the cap came first and the figure is worth a note."""

_SHARE = 0.01
"""So much of the sampling time is spent on traces, beside those of the first two blocks and the last."""

# Kinds that are no work to be repeated in this process: what measures each.
_PROCEDURES = {
    "start-up": "procedures:start_up",
    "collective": "ranks:measure",
    "data-parallel": "ranks:measure",
}


def measure(subject: Subject, device: Device, preset: str, budget: Budget) -> Sampled:
    """Verify one run of the subject on the device, warm up until its time settles, and sample to the budget's noise target.

    A subject that computes wrong comes back with `verified` false, the reason, and no samples.

    Raises:
        CapabilityMissing: a rule in data says that this stack, or this environment, cannot run it.
        CheckFailed: the device's clock or its synchronisation cannot be believed.
        CheckInconclusive: other processes use the card, and the budget does not allow that.
    """
    require_possible(subject)
    if preset == "full":
        budget = replace(budget, seconds=max(budget.seconds, subject.full_seconds))
    foreign = require_alone(device, subject.stack, allowed=budget.allow_foreign)
    with threads.chosen(preset), device.current():
        facts = calibrate(device)
        if subject.kind in _PROCEDURES:
            module, _, function = _PROCEDURES[subject.kind].partition(":")
            procedure = getattr(importlib.import_module(f".{module}", __package__), function)
            sampled: Sampled = procedure(subject, device, preset, budget)
            return sampled
        return _measured(subject, device, preset, budget, facts, foreign)


def require_possible(subject: Subject) -> None:
    """End with the rule that says why this stack is not asked."""
    for need in subject.needs:
        capabilities.require(subject.stack, need)
    if subject.dtype and subject.dtype not in subject.stack.precisions:
        raise CapabilityMissing(f"{subject.stack.definition}: precisions has no {subject.dtype}")


def _measured(
    subject: Subject, device: Device, preset: str, budget: Budget, facts: Mapping[str, Figure], notes: Sequence[str]
) -> Sampled:
    """Build, prove, time, and let go of everything."""
    if subject.kind not in kinds():
        known = *sorted(kinds()), *sorted(_PROCEDURES)
        raise Refusal(f"there is no kind of work '{subject.kind}'{suggestion(subject.kind, known)}")
    work = kinds()[subject.kind](Setting(device, preset, subject.table(preset)))
    made = partial(result, subject, preset, worth=work.worth, dtype=work.dtype, arithmetic=work.arithmetic)
    try:
        sampler, telemetry = (
            Sampler(device, work.run, begin=work.begin, most=work.most_runs),
            Telemetry(device, subject.stack),
        )
        done = timed(work, sampler, budget, around=lambda: telemetry.read(lambda: sampler.block(1)))
        slowed = [f"throttled: {', '.join(reasons)}"] if (reasons := telemetry.throttled()) else []
        sampled = made(
            tuple(done.seconds), verified=True, reason=done.reason, peak_memory_bytes=done.peak, settled=done.warmth.settled,
            clocks=telemetry.facts(), facts={**facts, **done.facts},
            notes=(*notes, *remarks(done.warmth, done.seconds, budget), *done.load, *slowed),
        )  # fmt: skip
        figures(sampled, device.name())
        return sampled
    except ClockWrongError:
        raise
    except CheckFailed as failure:
        return made((), verified=False, reason=str(failure), facts=facts, notes=tuple(notes))
    finally:
        work.close()
        del work, made
        gc.collect()
        device.empty_cache()


@dataclass(frozen=True)
class Timed:
    """What sampling gave of work that was proved; `peak` is the most memory that was in use meanwhile, in bytes."""

    reason: str
    warmth: Warmth
    seconds: list[float]
    facts: dict[str, Figure]
    peak: int
    load: list[str]
    """What is worth a note of others on the host."""


def timed(
    work: Work,
    sampler: Sampler,
    budget: Budget,
    agreed: Callable[[bool], bool] = bool,
    around: Callable[[], object] = lambda: None,
) -> Timed:
    """Prove work, warm up, sample, and prove once more; `around` is called before sampling and after.

    `agreed`: what all ranks that sample together do about something that this one wants.

    Raises:
        CheckFailed: it computes wrong, or a timed run did not do what was proved.
    """
    began = time.perf_counter()
    reason = work.prove()
    proof = time.perf_counter() - began
    sampler.device.synchronize()
    sampler.device.reset_peak()
    warmth = warm_up(sampler, budget.seconds)
    around()
    load, traces = HostLoad(), RunTraces(work, agreed)
    sampler.energy = energy_counter(sampler.device)
    slope = sample(sampler, budget, traces.after, warmth.took)
    share = load.share()
    around()
    peak = sampler.device.memory().peak
    facts: dict[str, Figure] = {
        "others' share of the host's cores": share, "warm_up.runs": warmth.runs, "warm_up.seconds": warmth.seconds,
        "proof before, s": proof, "runs per sample": sampler.number, **work.conclude(), **traces.figures(budget.seconds),
        **slope.require_believable(), **joules_of_a_run(sampler),
    }  # fmt: skip
    return Timed(reason, warmth, slope.seconds, facts, peak, list(load.note(share)))


class RunTraces:
    """Holds what blocks of timed runs left: of the first two, which tell what it costs, of the last, and of those that chance picks."""

    def __init__(self, work: Work, agreed: Callable[[bool], bool]) -> None:
        self.work, self._agreed = work, agreed
        self.blocks = self.held = 0
        self.spent = self._dear = 0.0
        self._before = time.perf_counter()

    def after(self, runs: int, last: bool) -> None:
        """Hold a block of so many runs, or not: of all together it takes its share of the time, beside the first two and the last."""
        self.blocks += 1
        chance = random.random() * self._dear <= _SHARE * (time.perf_counter() - self._before)
        if self._agreed(last or self.held < 2 or chance):
            began = time.perf_counter()
            self.work.verify(runs)
            self._dear = time.perf_counter() - began
            self.spent += self._dear
            self.held += 1
        self._before = time.perf_counter()

    def figures(self, budget_s: float) -> dict[str, Figure]:
        """Return how many blocks were held, and what that cost of the time budget."""
        return {
            "blocks": self.blocks,
            "blocks compared": self.held,
            "traces, share of the time budget": self.spent / budget_s,
        }


def remarks(warmth: Warmth, seconds: Sequence[float], budget: Budget) -> list[str]:
    """Say what makes the samples doubtful."""
    lines = []
    if (noise := median_interval(seconds).relative) > _WIDE * budget.noise:
        lines.append(f"noisy: known to within {noise:.0%} only, {budget.noise:.1%} was wanted")
    if not warmth.settled:
        lines.append(f"not settled: the last runs of the warm-up still changed by {warmth.change:.1%}")
    if regular := rhythm(seconds):
        lines.append(
            f"uneven: each {regular[0]}. sample takes {regular[1]:.1f} times as long, and the median does not show it"
        )
    if abs(moved := drift(seconds)) > _DRIFTED:
        lines.append(f"drifted: the last third of the samples is {moved:+.1%} against the first")
    return lines

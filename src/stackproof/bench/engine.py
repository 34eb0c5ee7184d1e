"""Measures one subject on one device: may it run, is the clock true, does it compute right, has it settled, how long does it take.

What is timed is what was proved: what timed runs leave is looked at, the first, the last and some between.
"""

from __future__ import annotations

import gc
import importlib
import random
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any

from stackproof.base.errors import Refusal, suggestion
from stackproof.base.processes import HostLoad
from stackproof.base.statistics import drift, median_interval, rhythm
from stackproof.bench.rows import Sampled, figures, result
from stackproof.bench.sampling import Sampler, Warmth, calibrate, sample, warm_up
from stackproof.bench.subjects import Budget, Subject
from stackproof.device import threads
from stackproof.device.kinds import Device
from stackproof.device.telemetry import Telemetry, require_alone
from stackproof.probes.timekeeping import ClockWrongError
from stackproof.record.checks import CapabilityMissing, CheckFailed
from stackproof.record.records import Figure
from stackproof.stack import capabilities
from stackproof.workloads.catalogue import kinds
from stackproof.workloads.work import Setting, Work

_DRIFTED = 0.03
"""From this share on, the difference between the first and the last third of the samples is worth a note."""
_WIDE = 3.0
"""Beyond so many times the noise target, the cap came first and the figure is worth a note."""

_SHARE = 0.02
"""So much of the sampling time may be spent on checks between blocks."""
_OFTEN = 0.3
"""How often a block is checked where that is affordable; which ones is left to chance."""
PROOF = 0.05
"""So much of the time budget all checks may take; what is left goes to runs that are checked one by one, a few at least."""
SINGLE, _LEAST_SINGLE = 64, 4
"""So many runs in a row are checked one by one, at most and at least."""
PAIRS = 3
FACTOR = 2.0
"""A run of new inputs takes so many times as long only if more than half of the work of the others was not done."""

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
            found: Sampled = procedure(subject, device, preset, budget)
            return found
        return _Measurement(subject, device, preset, budget, dict(facts), list(foreign)).take()


def kinds_known() -> tuple[str, ...]:
    """Return every kind of subject that can be measured."""
    return (*sorted(kinds()), *sorted(_PROCEDURES))


def require_possible(subject: Subject) -> None:
    """End with the rule that says why this stack is not asked."""
    for need in subject.needs:
        capabilities.require(subject.stack, need)
    if subject.dtype and subject.dtype not in subject.stack.precisions:
        raise CapabilityMissing(f"{subject.stack.definition}: precisions has no {subject.dtype}")


@dataclass
class _Measurement:
    """One subject being measured; facts and notes gather as it goes."""

    subject: Subject
    device: Device
    preset: str
    budget: Budget
    facts: dict[str, Figure]
    notes: list[str] = field(default_factory=list)

    def take(self) -> Sampled:
        """Build, prove, time, and let go of everything."""
        work = self._build()
        try:
            began = time.perf_counter()
            reason = work.prove()
            self.facts["proof before, s"] = time.perf_counter() - began
            return self._timed(work, reason)
        except ClockWrongError:
            raise
        except CheckFailed as failure:
            return self._result(work, (), verified=False, reason=str(failure))
        finally:
            work.close()
            del work
            gc.collect()
            self.device.empty_cache()

    def _build(self) -> Work:
        if self.subject.kind not in kinds():
            known = kinds_known()
            raise Refusal(f"there is no kind of work '{self.subject.kind}'{suggestion(self.subject.kind, known)}")
        return kinds()[self.subject.kind](Setting(self.device, self.preset, self.subject.table(self.preset)))

    def _timed(self, work: Work, reason: str) -> Sampled:
        """Time work that was proved."""
        self.device.synchronize()
        self.device.reset_peak()
        sampler, telemetry = (
            Sampler(self.device, work.run, ready=work.ready),
            Telemetry(self.device, self.subject.stack),
        )
        warmth = warm_up(sampler, self.budget.seconds)
        telemetry.read(lambda: sampler.block(1))
        load = HostLoad()
        checks = SpotChecks(work)
        seconds = sample(sampler, self.budget, checks.between)
        share = load.share()
        telemetry.read(lambda: sampler.block(1))
        seconds += checks.sampled(sampler, self.budget, len(seconds))
        peak = self.device.memory().peak
        self.facts |= {"others' share of the host's cores": share, "warm_up.runs": warmth.runs}
        self.facts |= {"warm_up.seconds": warmth.seconds, "runs per sample": sampler.number}
        self.facts |= {**checks.conclude(), **checks.computed(self.device, seconds)}
        seconds += checks.singly(sampler, self.budget, len(seconds))
        self.facts |= checks.figures(self.budget.seconds)
        self.notes += [*remarks(warmth, seconds, self.budget), *load.note(share), *_throttling(telemetry)]
        require_possible_rate(self._result(work, tuple(seconds), verified=True, reason=reason), self.device.name())
        return self._result(
            work, tuple(seconds), verified=True, reason=reason, peak_memory_bytes=peak,
            settled=warmth.settled, clocks=telemetry.facts(),
        )  # fmt: skip

    def _result(self, work: Work, seconds: tuple[float, ...], **rest: Any) -> Sampled:
        return result(
            self.subject, self.preset, seconds, work.worth, dtype=work.dtype, arithmetic=work.arithmetic,
            facts=dict(self.facts), notes=tuple(self.notes), **rest,
        )  # fmt: skip


@dataclass
class SpotChecks:
    """Re-verifies what timed runs left: the first, the last, some in between that nobody can foresee, and some one by one.

    Checks change the inputs, and so find what is wrong. Work that is kept while its inputs stay is right and was not done: its time
    shows. A run that is left out now and then leaves what the one before it left: some runs are checked one by one.
    """

    work: Work
    taken: int = 0
    spent: float = 0.0
    poisoned: bool = False
    """Whether nothing has run since the last check."""
    single: int = 0
    """How many runs were checked one by one."""
    _began: float = field(default_factory=time.perf_counter)

    def between(self) -> None:
        """Check what the last run of a block left, unless checks have taken their share; the next block finds other data.

        Raises:
            CheckFailed: a timed run did not do what was proved.
        """
        self.poisoned = False
        wanted = not self.taken or (self._affordable() and random.random() < _OFTEN)
        if self.on_all_ranks(wanted):
            with self._spending():
                self.work.verify()
                self.work.poison_output()
            self.poisoned = True
            self.taken += 1

    @contextmanager
    def _spending(self) -> Iterator[None]:
        began = time.perf_counter()
        yield
        self.spent += time.perf_counter() - began

    def on_all_ranks(self, wanted: bool) -> bool:
        """Return what all ranks that sample together do about something that this one wants."""
        return wanted

    def _affordable(self) -> bool:
        """Whether one more check of the usual length stays within the share."""
        return self.spent * (1 + 1 / self.taken) <= _SHARE * (time.perf_counter() - self._began)

    def sampled(self, sampler: Sampler, budget: Budget, taken: int) -> list[float]:
        """Take one more sample from where the work was proved, where no other run can be held in full; return it if there is room."""
        if not self.work.reset_to_verified():
            return []
        self.poisoned = False
        return sampler.block(1)[: max(budget.most - taken, 0)]

    def conclude(self) -> dict[str, Figure]:
        """Let the work check what the last timed run left, and once more; return its facts, and how often timed runs were checked."""
        passed = max(time.perf_counter() - self._began, 1e-9)
        seen = {"looks at timed runs": self.taken + 1, "looks, share of the time": self.spent / passed}
        with self._spending():
            if self.poisoned:
                self.work.run()
            return {**seen, **self.work.conclude()}

    def computed(self, device: Device, samples: Sequence[float]) -> dict[str, Figure]:
        """Time runs of new inputs beside runs of the same ones; return how many times as long the first take.

        Raises:
            CheckFailed: they take longer in all pairs, and the shortest takes longer than the samples: their results were kept.
        """
        pairs = []
        with self._spending():
            for _ in range(PAIRS):
                if not self.work.fresh_inputs():
                    return {}
                pairs.append((_timed(self.work, device), _timed(self.work, device)))
        longer = sum(new > FACTOR * same for new, same in pairs)
        shortest = min(new for new, _ in pairs)
        if longer == PAIRS and shortest > FACTOR * median(samples):
            raise CheckFailed(
                f"a run whose inputs are new takes {shortest:.3g} s at least, the timed ones took {median(samples):.3g} s: "
                "what they left was kept from a run before, and not computed"
            )
        return {"new inputs, times as long": median(new / max(same, 1e-9) for new, same in pairs)}

    def singly(self, sampler: Sampler, budget: Budget, taken: int) -> list[float]:
        """Check runs one by one for what is left of the time budget's share, a few at least.

        Where a sample is one run, these are samples too: returned are those for which there is room. Their time was not lost.

        Raises:
            CheckFailed: a run did nothing, or something else than was proved.
        """
        alone, samples = replace(sampler, number=1), list[float]()
        with self._spending():
            end = time.perf_counter() + PROOF * budget.seconds - self.spent
            while len(samples) < SINGLE and self.on_all_ranks(
                len(samples) < _LEAST_SINGLE or time.perf_counter() < end
            ):
                if not self.work.begin_spot_check():
                    break
                samples += alone.block(1)
                try:
                    self.work.end_spot_check()
                except CheckFailed as failure:
                    said = f"run {len(samples)} of those that were looked at one by one: {failure}"
                    raise CheckFailed(said) from failure
        self.single = len(samples)
        kept = samples[: max(budget.most - taken, 0)] if sampler.number == 1 else []
        self.spent -= sum(kept)
        return kept

    def figures(self, budget_s: float) -> dict[str, Figure]:
        """Return what all checks since the first timed run cost of the time budget, and how many runs were checked one by one."""
        alone: dict[str, Figure] = {"runs looked at one by one": self.single} if self.single else {}
        return {"looks, share of the time budget": self.spent / budget_s, **alone}


def _timed(work: Work, device: Device) -> float:
    device.synchronize()
    return Sampler(device, work.run).block(1)[0]


def require_possible_rate(sampled: Sampled, device_name: str) -> None:
    """Hold the median against what the device can do at best, where that is published.

    Raises:
        CheckFailed: it is faster, so that the runs did not do what they are counted for, or the clock does not tell the time.
    """
    share = figures(sampled, device_name).get("of_peak")
    if isinstance(share, float) and share > 1.0:
        raise CheckFailed(
            f"it would run at {share:.1%} of the published peak of {device_name}, which cannot be: "
            "the timed runs did less than they are counted for, or the clock is wrong"
        )


def remarks(warmth: Warmth, seconds: Sequence[float], budget: Budget) -> list[str]:
    """Say what makes the samples doubtful."""
    found = []
    if (noise := median_interval(seconds).relative) > _WIDE * budget.noise:
        found.append(f"noisy: known to within {noise:.0%} only, {budget.noise:.1%} was wanted")
    if not warmth.settled:
        found.append(f"not settled: the last runs of the warm-up still changed by {warmth.change:.1%}")
    if regular := rhythm(seconds):
        found.append(
            f"uneven: each {regular[0]}. sample takes {regular[1]:.1f} times as long, and the median does not show it"
        )
    if abs(moved := drift(seconds)) > _DRIFTED:
        found.append(f"drifted: the last third of the samples is {moved:+.1%} against the first")
    return found


def _throttling(telemetry: Telemetry) -> list[str]:
    reasons = telemetry.throttled()
    return [f"throttled: {', '.join(reasons)}"] if reasons else []

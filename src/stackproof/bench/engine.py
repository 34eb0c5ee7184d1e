"""Measures one subject on one device: may it run, is the clock true, does it compute right, has it settled, how long does it take.

What is timed is what was proved: blocks of runs leave their trace in what is there at the end of each. Work runs in this process or on
ranks of its own (`ranks`); start-up takes a process for each sample.
"""

from __future__ import annotations

import gc
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from stackproof.base import files, processes
from stackproof.base.errors import Refusal, suggestion
from stackproof.base.processes import HostLoad
from stackproof.base.statistics import drift, median_interval
from stackproof.base.text import tail
from stackproof.bench.rows import Sampled, figures, measurements, result
from stackproof.bench.sampling import Warmth, calibrate, enough, sample, warm_up
from stackproof.bench.subjects import Budget, Subject
from stackproof.device import devices, threads
from stackproof.device.kinds import Device
from stackproof.device.telemetry import Telemetry, energy_counter, require_alone
from stackproof.probes.clock import ClockWrongError
from stackproof.probes.spans import Sampler, energy
from stackproof.ranks.launch import Arrangement, arrange, launch
from stackproof.record.checks import CapabilityMissing, CheckCrashed, CheckEnded, CheckFailed, CheckHung, require
from stackproof.record.records import Figure, Measurement, Verdict
from stackproof.runner.request import REQUEST
from stackproof.stack import capabilities
from stackproof.workloads.catalogue import kinds
from stackproof.workloads.work import Setting, Work

_DRIFTED = 0.03
"""From this share on, the difference between the first and the last third of the samples is worth a note."""
_WIDE = 3.0
"""Beyond so many times the noise target, the cap came first and the figure is worth a note."""
_WARM = 0.5
"""Of the time for samples, at most, is spent on warming up."""
_SHARE = 0.01
"""So much of the sampling time is spent on traces, beside those of the first two blocks and the last; and less on their beginnings."""


def measure(subject: Subject, device: Device, preset: str, budget: Budget) -> Sampled:
    """Verify one run of the subject on the device, warm up until its time settles, and sample to the budget's noise target.

    A subject that computes wrong comes back with the reason, and no samples.

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
        try:
            sampled = _ELSEWHERE.get(subject.kind, _in_process)(subject, device, preset, budget)
            figures(sampled, device.name())
        except ClockWrongError:
            raise
        except CheckFailed as failure:
            sampled = result(subject, preset, str(failure), world_size=_ranks(subject, preset))
        finally:
            gc.collect()
            device.empty_cache()
    return replace(sampled, facts={**facts, **sampled.facts}, notes=(*foreign, *sampled.notes))


def try_measure(
    subject: Subject, device: Device, preset: str, budget: Budget
) -> tuple[Verdict, str, list[Measurement]]:
    """Measure a subject; return how that ended, why, and the rows of a record, of which there are none without a pass."""
    try:
        sampled = measure(subject, device, preset, budget)
        rows = measurements(sampled, subject.kind, device.name()) if sampled.verified else []
    except CheckEnded as ended:
        return ended.verdict, str(ended), []
    return Verdict.PASSED if sampled.verified else Verdict.FAILED, sampled.reason, rows


def require_possible(subject: Subject) -> None:
    """End with the rule that says why this stack is not asked."""
    for need in subject.needs:
        capabilities.require(subject.stack, need)
    if subject.dtype and subject.dtype not in subject.stack.precisions:
        raise CapabilityMissing(f"{subject.stack.definition}: precisions has no {subject.dtype}")


def _in_process(subject: Subject, device: Device, preset: str, budget: Budget) -> Sampled:
    if subject.kind not in kinds():
        known = *sorted(kinds()), *sorted(_ELSEWHERE)
        raise Refusal(f"there is no kind of work '{subject.kind}'{suggestion(subject.kind, known)}")
    work = kinds()[subject.kind](Setting(device, preset, subject.table(preset)))
    sampler, telemetry = (
        Sampler(device, work.run, begin=work.begin, most=work.most_runs),
        Telemetry(device, subject.stack),
    )
    try:
        fields = timed(work, sampler, budget, around=lambda: telemetry.read(lambda: sampler.block(1)))
        fields["notes"] += [f"throttled: {', '.join(reasons)}"] if (reasons := telemetry.throttled()) else []
        fields["facts"] = {**telemetry.facts(), **fields["facts"]}
        return result(subject, preset, **fields)
    finally:
        work.close()


def timed(
    work: Work,
    sampler: Sampler,
    budget: Budget,
    agreed: Callable[[bool], bool] = bool,
    around: Callable[[], object] = lambda: None,
) -> dict[str, Any]:
    """Prove work, warm up, sample, and prove once more; return what a result is made of, as it can be sent.

    `agreed`: what all ranks that sample together do about something that this one wants; `around` is called before sampling and after.

    Raises:
        CheckFailed: it computes wrong, or a timed run did not do what was proved.
    """
    began = time.perf_counter()
    reason = work.prove()
    proof = time.perf_counter() - began
    sampler.device.synchronize()
    sampler.device.reset_peak()
    warmth = warm_up(sampler, _WARM * budget.seconds)
    around()
    load, traces = HostLoad(), RunTraces(work, sampler, agreed)
    sampler.energy = energy_counter(sampler.device)
    slope = sample(sampler, budget, traces.compares, traces.after, warmth.took)
    share = load.share()
    around()
    peak = sampler.device.memory().peak
    facts: dict[str, Figure] = {
        "others' share of the host's cores": share, "warm_up.runs": warmth.runs, "warm_up.seconds": warmth.seconds,
        "runs per sample": sampler.number,
        **work.conclude(), "proof before, s": proof + traces.first, "blocks": traces.blocks, "blocks compared": traces.compared,
        "traces, share of the time budget": traces.spent / budget.seconds, **slope.require_believable(sampler.device.modelled),
        **energy(sampler),
    }  # fmt: skip
    return {
        "reason": reason, "seconds": slope.seconds, "worth": dict(work.worth), "dtype": work.dtype, "arithmetic": work.arithmetic,
        "peak_memory_bytes": peak, "settled": warmth.settled, "facts": facts,
        "notes": [*remarks(warmth, slope.seconds, budget), *load.note(share)],
    }  # fmt: skip


class RunTraces:
    """Holds what blocks of timed runs left: of the first two, which tell what it costs, of the last, and of those that chance picks.

    The first is a part of the proof, because replays are made then; it takes nothing from the time for samples.
    """

    def __init__(self, work: Work, sampler: Sampler, agreed: Callable[[bool], bool]) -> None:
        self.work, self.sampler, self._agreed = work, sampler, agreed
        self.blocks = self.compared = 0
        self.first = self.spent = self._dear = self._took = 0.0

    def compares(self, last: bool) -> bool:
        """Choose whether the next block is compared: of all together it takes its share of the time, beside the first two and the last."""
        self.blocks += 1
        chance = random.random() * self._dear <= _SHARE * self._took
        self._began = time.perf_counter()
        return self._agreed(last or self.compared < 2 or chance)

    def after(self, runs: int) -> None:
        began = time.perf_counter()
        self.work.verify(runs)
        self._took, self._dear = began - self._began, time.perf_counter() - began
        self.compared += 1
        if self.compared > 1:
            self.spent += self._dear
        else:
            self.first = self._dear
            self.sampler.pause(self._dear)


def remarks(warmth: Warmth, seconds: Sequence[float], budget: Budget) -> list[str]:
    """Say what makes the samples doubtful."""
    lines = []
    if (noise := median_interval(seconds).relative) > _WIDE * budget.noise:
        lines.append(f"noisy: known to within {noise:.0%} only, {budget.noise:.1%} was wanted")
    if not warmth.settled:
        lines.append(f"not settled: the last runs of the warm-up still changed by {warmth.change:.1%}")
    if abs(moved := drift(seconds)) > _DRIFTED:
        lines.append(f"drifted: the last third of the samples is {moved:+.1%} against the first")
    return lines


# What takes processes of its own: ranks, each on a card of its own, and start-up.
_START_S = 240.0
"""What importing, building and verifying may take beside the samples."""
_DEADLINE_S = 180.0
_PROGRAMS = "stackproof.bench.ranks"


def _ranks(subject: Subject, preset: str) -> int:
    return int(subject.parameters[preset].get("ranks", 1))


def _on_ranks(subject: Subject, device: Device, preset: str, budget: Budget) -> Sampled:
    parameters = dict(subject.parameters[preset])
    arguments = {"kind": subject.kind, "parameters": parameters, "preset": preset, "budget": asdict(budget)}
    ranks, deadline = _ranks(subject, preset), _START_S + 3 * budget.seconds
    rows = _launched(subject, device, ranks, "repeated", arguments, deadline)
    fields = rows[0]["fields"]
    fields["facts"] |= {"backend": rows[0]["backend"], "formed_s": max(rank["formed_s"] for rank in rows)}
    fields["peak_memory_bytes"] = max(rank["fields"]["peak_memory_bytes"] for rank in rows)
    return result(subject, preset, world_size=ranks, **fields)


def _launched(
    subject: Subject, device: Device, ranks: int, program: str, arguments: dict[str, Any], seconds: float
) -> list[dict[str, Any]]:
    with workspace(subject.name) as folder:
        return launch(
            f"{_PROGRAMS}:{program}", subject.stack, alone(subject, device, ranks), arguments, folder, seconds
        )


@contextmanager
def workspace(name: str) -> Iterator[Path]:
    """Give a folder for the ranks' logs: beside those of the run where there is one, and kept if something goes wrong."""
    beside = Path(os.environ[REQUEST]).parent if REQUEST in os.environ else None
    folder = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=beside))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def alone(subject: Subject, device: Device, ranks: int) -> Arrangement:
    """Arrange the ranks; figures of ranks that share a card over another backend would say nothing of the stack.

    Raises:
        CapabilityMissing: there are fewer cards than ranks.
    """
    cards = devices.visible(subject.stack.device)
    if len(cards) < ranks and not device.shareable:
        capabilities.withhold(
            "a-card-each", f"{subject.name} needs {ranks} cards, one a rank, and {len(cards)} visible"
        )
    return arrange(subject.stack, cards, ranks)


_CHILD = """
import importlib, json, sys, time
phase, kind, index, began, *names = sys.argv[1:]
for name in names:
    importlib.import_module(name)
imported = time.monotonic() - float(began)
import torch
place = "cpu"
if phase == "kernel":
    from stackproof.device import devices
    place = devices.parse(f"{kind}:{index}", kind).torch
ready = time.perf_counter()
total = float(torch.arange(8, dtype=torch.float32, device=place).sum().item())
kernel = time.perf_counter() - ready
print(json.dumps({"import": imported, "kernel": kernel, "sum": total}))
"""


@dataclass(frozen=True)
class _Phase:
    phase: Literal["import", "kernel", "communicator"]
    ranks: int


def _start_up(subject: Subject, device: Device, preset: str, budget: Budget) -> Sampled:
    """Start processes one after the other until the noise target or the cap is reached; that the first has cold files moves no median."""
    row = subject.table(preset).row(_Phase)
    once, reason = partial(_starting, subject, device, row.phase), "each process computed a known sum right"
    if row.phase == "communicator":
        once, reason = partial(_forming, subject, device, row.ranks), "each group summed its ranks' numbers right"
    seconds, began = list[float](), time.monotonic()
    while not enough(seconds, budget, time.monotonic() - began):
        seconds.append(once())
    return result(subject, preset, reason, seconds, world_size=row.ranks)


def _starting(subject: Subject, device: Device, phase: str) -> float:
    began = time.monotonic()  # what is imported before our own words counts too
    words = [phase, device.kind, str(device.index), str(began), *subject.stack.imports]
    done = processes.run([sys.executable, "-c", _CHILD, *words], seconds=_DEADLINE_S)
    if done.timed_out:
        raise CheckHung(f"a process that only starts up did not end within {_DEADLINE_S:.0f} s")
    if not done.ok:
        raise CheckCrashed(f"a process that only starts up ended with exit code {done.code}: {tail(done.errors)}")
    answer = files.parse_json(done.output.strip().splitlines()[-1], "what a process that only starts up printed")
    require(answer["sum"] == 28.0, f"the first kernel gave {answer['sum']}, 28 was expected")
    return float(answer[phase])


def _forming(subject: Subject, device: Device, ranks: int) -> float:
    return max(float(rank["formed_s"]) for rank in _launched(subject, device, ranks, "communicator", {}, _DEADLINE_S))


_ELSEWHERE = {"start-up": _start_up, "collective": _on_ranks, "data-parallel": _on_ranks}
"""What measures the kinds that are no work to be repeated in this process."""

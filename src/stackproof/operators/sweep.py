"""The operator sweep: every entry of torch's operator database, or those named, on one device in one dtype, as checks of a suite.

Each operator ends in exactly one outcome, so that nothing is skipped in silence.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch

from stackproof.base import places
from stackproof.base.errors import Refusal, suggestion
from stackproof.device.kinds import Device
from stackproof.device.numerics import Judgement
from stackproof.operators.compare import Exemption, Outcome, Result, exemptions, smallest, word
from stackproof.operators.database import OpInfo, load, preserved
from stackproof.operators.examine import examine
from stackproof.operators.repro import code
from stackproof.record.checks import CapabilityMissing, CheckFailed, NotApplicable
from stackproof.record.records import Figure
from stackproof.stack.stacks import Stack

DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.complex64)


def possible(stack: Stack, dtype: torch.dtype) -> None:
    """End the check if the stack has no such precision; complex64 is there where float32 is, unless the stack says otherwise."""
    name = word(dtype)
    place = stack.definition
    if name in stack.missing:
        raise CapabilityMissing(f"{place}, missing.{name}: {stack.missing[name]}")
    if word(dtype.to_real()) not in stack.precisions:
        raise CapabilityMissing(f"{place}: precisions has no {word(dtype.to_real())}")


def check(
    name: str, op: OpInfo, device: Device, dtype: torch.dtype, figures: dict[str, Figure], samples: int | None = None
) -> None:
    """Examine the operator and end the check accordingly; the figures hold the code that repeats a failure."""
    with preserved(device.torch), device.current():
        result = examine(name, op, device.torch, dtype, samples)
        figures |= _figures(result)
        if result.outcome is Outcome.NOT_APPLICABLE:
            raise NotApplicable(result.reason)
        if not result.outcome.ok:
            raise CheckFailed(_failure(result, op, device.torch, dtype, figures))
    figures["summary"] = _summary(result)
    row = exemptions().get((name, word(dtype)), Exemption())
    if row.compare == "values" and row.reason:
        figures["row"] = f"{places.table('operators.toml')}: {row.reason}"
        figures["summary"] = f"{figures['summary']}; by its row" + ("" if result.why else f": {row.reason}")


def _figures(result: Result) -> dict[str, Figure]:
    counts: dict[str, Figure] = {
        "samples": result.forward,
        "samples backward": result.backward,
        "samples ill-conditioned": result.conditioned,
        "samples left out": result.left_out,
        "compared": "values" if result.outcome is not Outcome.FORM else Outcome.FORM.value,
    }
    if result.why:
        counts["left out"] = result.why
    worst = result.worst
    return {**counts, "error": worst.error, "bound": worst.bound, "cpu": worst.anchor} if worst else counts


def _failure(result: Result, op: OpInfo, device: torch.device, dtype: torch.dtype, figures: dict[str, Figure]) -> str:
    """Return the sentence of the smallest failing sample, and put the code that repeats it into the figures."""
    if not result.findings:  # its samples cannot be made
        return f"{result.operator} in {word(dtype)} on {device}: {result.reason}"
    finding = smallest(result.findings)
    figures["call"], figures["repro"] = finding.call, code(op, finding, device, dtype)
    wrong = sum(finding.outcome in (Outcome.FAILED, Outcome.ERROR) for finding in result.findings)
    return (
        f"{finding.sentence}; {wrong} of {max(result.forward, wrong)} samples; figure 'repro' is code that repeats it"
    )


def _summary(result: Result) -> str:
    if result.outcome is Outcome.FORM:
        return f"{result.forward} samples agree in form; not in numbers: {result.reason}"
    backward = f", {result.backward} backward" if result.backward else ""
    hard = f"; {result.conditioned} ill-conditioned" if result.conditioned else ""
    less = f"; left out {result.why}" if result.left_out else ""
    return f"{result.forward} samples{backward}: {_worst(result.worst)}{hard}{less}"


def _worst(worst: Judgement | None) -> str:
    return f"worst error {worst.error:.1e} of {worst.bound:.1e} allowed" if worst else "nothing to compare"


Progress = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Sweep:
    """All results of one dtype on one device; `seconds` is wall time without the import of the database."""

    device: torch.device
    dtype: torch.dtype
    seconds: float
    results: tuple[Result, ...]

    @property
    def ok(self) -> bool:
        """Tell whether no operator failed, raised or was left out."""
        return all(result.outcome.ok for result in self.results)

    @property
    def counts(self) -> dict[Outcome, int]:
        """Return the number of operators by outcome; they add up to `len(results)`."""
        found = Counter(result.outcome for result in self.results)
        return {outcome: found[outcome] for outcome in Outcome}

    @property
    def executed(self) -> dict[str, int]:
        """Return how many operators ran forward and backward, and how many samples that were."""
        forward, backward = [r.forward for r in self.results], [r.backward for r in self.results]
        return {
            "forward": sum(map(bool, forward)),
            "backward": sum(map(bool, backward)),
            "samples": sum(forward),
        }

    def faults(self) -> list[Result]:
        """Return the operators for which the sweep is not ok."""
        return [result for result in self.results if not result.outcome.ok]


def sweep(
    device: torch.device,
    dtype: torch.dtype,
    *,
    samples: int | None,
    budget_s: float = float("inf"),
    names: Iterable[str] | None = None,
    on_progress: Progress | None = None,
) -> Sweep:
    """Examine every operator (or those named) on at most `samples` samples each (all: None).

    Operators whose turn comes after `budget_s` seconds end as `NOT_RUN`, which is not ok. Raises `Refusal`
    for a name that the database does not have, or if the database cannot be imported.
    """
    chosen = _chosen(load(), names)
    started, results = time.monotonic(), []
    with preserved(device):
        for done, (name, op) in enumerate(chosen.items()):
            if on_progress:
                on_progress(done, len(chosen), name)
            late = time.monotonic() - started > budget_s
            overdue = Result(name, Outcome.NOT_RUN, f"the time budget of {budget_s:g} s was used up")
            results.append(overdue if late else examine(name, op, device, dtype, samples))
    return Sweep(device, dtype, time.monotonic() - started, tuple(results))


def _chosen(database: dict[str, OpInfo], names: Iterable[str] | None) -> dict[str, OpInfo]:
    wanted = list(database if names is None else names)
    for name in wanted:
        if name not in database:
            hint = suggestion(name, database)
            raise Refusal(f"operator {name!r} is not in torch {torch.__version__}'s operator database{hint}")
    return {name: database[name] for name in wanted}

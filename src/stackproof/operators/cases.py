"""One operator in one dtype as a check of a suite: what the stack cannot be asked, what was found, and how to repeat it."""

from __future__ import annotations

import torch

from ..checks import CapabilityMissing, CheckFailed, NotApplicable
from ..device import Device
from ..numerics import Judgement
from ..records import Figure
from ..stacks import Stack
from .database import OpInfo, preserved
from .examining import examine
from .judging import Exemption, exemptions, word
from .outcomes import Outcome, Result, smallest
from .repro import code

DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.complex64)


def possible(stack: Stack, dtype: torch.dtype) -> None:
    """End the check if the stack has no such precision; complex64 is there where float32 is, unless the stack says otherwise."""
    name = word(dtype)
    place = f"stacks/{stack.name}/stack.toml"
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
        figures["row"] = f"fixtures/operators.toml: {row.reason}"
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

"""Activation checkpointing of language models with adapters and frozen weights (docs/users-reports.md D2)."""

from __future__ import annotations

import pytest
import torch

from stackproof.device.kinds import Device
from stackproof.device.numerics import MIXED, judge, shortened
from stackproof.record.checks import require
from stackproof.record.records import Figure
from stackproof.stack.stacks import Stack
from stackproof.workloads.base import Job, StepResult
from stackproof.workloads.catalogue import get, taking_part
from stackproof.workloads.gradients import joined
from suites.common import SEED, possible, reference, supported
from suites.recompute.checkpointing import MODES, PRESET, outcome, watching

MODELS = taking_part("recompute")
PRECISIONS = {"float32": None, "bfloat16": torch.bfloat16}


@pytest.mark.deadline(60)
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", MODELS)
def test_gradients(
    name: str, mode: str, precision: str, stack: Stack, device: Device, figures: dict[str, Figure]
) -> None:
    """Recomputing activations gives every adapter the gradient that keeping them gives."""
    job = _job(name, precision, stack, device)
    with shortened(False):
        kept, recomputed = outcome(job, None), outcome(job, mode)
    absent = kept.gradients.keys() ^ recomputed.gradients.keys()
    require(
        not absent, f"{name}, {mode}: {len(absent)} gradients are there in one way only, such as {sorted(absent)[:1]}"
    )
    other = [key for key, gradient in kept.gradients.items() if not torch.equal(gradient, recomputed.gradients[key])]
    figures |= {"gradients": len(kept.gradients), "not bit-equal": len(other)}
    what = f"{name}, {mode}, {precision}: the gradient with recomputation"
    figures["summary"] = (
        _within(what, name, PRECISIONS[precision], kept, recomputed)
        if other
        else f"{len(kept.gradients)} gradients are bit-equal with and without recomputation"
    )


def _within(what: str, name: str, autocast: torch.dtype | None, kept: StepResult, recomputed: StepResult) -> str:
    """Judge what is not bit-equal: recomputing may err by what keeping errs by on the same device."""
    dtype = autocast or torch.float32
    cap = get(name).offer.mixed.get(str(autocast).removeprefix("torch."), MIXED) if autocast else None
    judged = judge(
        joined(recomputed.gradients), joined(reference(name, PRESET).gradients), joined(kept.gradients), dtype, cap
    )
    require(judged.ok, judged.sentence(what))
    return f"not bit-equal; {judged.sentence(what)}"


@pytest.mark.deadline(60)
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", MODELS)
def test_metadata(
    name: str, mode: str, precision: str, stack: Stack, device: Device, figures: dict[str, Figure]
) -> None:
    """Layers are computed twice, and the second time gives the shapes, dtypes and devices of the first."""
    job = _job(name, precision, stack, device)
    del job.batches[1:]
    with watching(job.model) as log:
        outcome(job, mode)
    require(bool(log.again), f"{name}, {mode}: checkpointing was on and nothing was computed again")
    wrong = [key for key, seen in log.again.items() if seen != log.first[key]]
    require(
        not wrong,
        f"{name}, {mode}: {wrong[:1]} gave {[log.first[key] for key in wrong[:1]]} and then {[log.again[key] for key in wrong[:1]]}",
    )
    figures |= {"modules": len(log.first), "computed again": len(log.again)}
    figures["summary"] = f"{len(log.again)} of {len(log.first)} modules were computed again, with the same metadata"


@pytest.mark.deadline(60)
@pytest.mark.parametrize("name", MODELS)
def test_off(name: str, stack: Stack, device: Device, figures: dict[str, Figure]) -> None:
    """With checkpointing off nothing is computed twice: the comparison above compares two different things."""
    job = _job(name, "float32", stack, device)
    del job.batches[1:]
    job.recompute(None)
    with watching(job.model) as log:
        job.observe()
    require(not log.again, f"{name}: checkpointing was off and {len(log.again)} modules were computed again")
    figures["summary"] = f"{len(log.first)} modules were computed once"


def _job(name: str, precision: str, stack: Stack, device: Device) -> Job:
    autocast = PRECISIONS[precision]
    supported(stack, autocast or torch.float32)
    return possible(name).build(device.torch, PRESET, SEED, torch.float32, autocast)

"""Real models: forward, loss and every gradient against float64, one optimiser step, and what mixed precision costs."""

from __future__ import annotations

import math

import pytest
import torch

from stackproof.device.kinds import Device
from stackproof.device.numerics import Judgement, judge, judge_each, judge_mixed, relative_error, require_all, shortened
from stackproof.record.checks import require
from stackproof.record.records import Figure
from stackproof.stack.stacks import Stack
from stackproof.workloads.base import Job, Preset, StepResult
from stackproof.workloads.catalogue import get, taking_part
from stackproof.workloads.gradients import conditioned, joined, kept, living, on_top
from suites.common import SEED, anchor, possible, reference, require_counted, supported, watch_forward

# What is compared with float64; `full` is for rates: its float64 reference would take tens of GiB and minutes on a host.
PRESET: Preset = "tiny"


@pytest.mark.deadline(120)
@pytest.mark.parametrize("name", taking_part("smoke"))
def test_float32(name: str, device: Device, figures: dict[str, Figure]) -> None:
    """Prediction, loss and every gradient agree with float64; one optimiser step then moves every parameter."""
    job = possible(name).build(device.torch, PRESET, SEED, torch.float32)
    with shortened(False):  # cuDNN convolves float32 in tf32 unless told not to
        actual = job.observe()
    _loss_is_one(actual)
    judgements = _judgements(actual, reference(name, PRESET), anchor(name, PRESET, None))
    worst = require_all(conditioned(judgements, get(name)), name)
    figures |= {
        "loss": float(actual.loss),
        "gradients": len(actual.gradients),
        "worst error": worst.error,
        "its bound": worst.bound,
    }
    figures["summary"] = (
        f"{len(actual.gradients)} gradients, worst error {worst.error:.1e} of {worst.bound:.1e} allowed; loss {float(actual.loss):.4f}"
    )
    _one_step(name, job)


@pytest.mark.deadline(120)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bfloat16", "float16"])
@pytest.mark.parametrize("name", taking_part("mixed"))
def test_autocast(name: str, dtype: torch.dtype, stack: Stack, device: Device, figures: dict[str, Figure]) -> None:
    """Mixed precision really casts, loses no more than the CPU does in that dtype, and one step moves the parameters."""
    supported(stack, dtype)
    workload = possible(name)
    job = workload.build(device.torch, PRESET, SEED, torch.float32, dtype)
    products = watch_forward(job)
    actual, exact = job.observe(), reference(name, PRESET)
    _loss_is_one(actual)
    cast, count = products.cast(dtype), products.count
    require(cast > 0 or not count, f"autocast did not cast: {products.summary(dtype)}")
    expected = anchor(name, PRESET, dtype)
    judgements = {
        "loss": judge(actual.loss, exact.loss, expected.loss, dtype),
        "gradient": judge_mixed(
            joined(actual.gradients), joined(exact.gradients), joined(expected.gradients), dtype, workload.offer.mixed
        ),
    }
    moving = living(exact.gradients, exact)
    judgements |= kept(judge_each(name, actual.gradients, moving, expected.gradients, dtype), workload, dtype)
    require_all(judgements, name)
    figures |= {
        "layers": count,
        "layers cast": cast,
        "loss error": judgements["loss"].error,
        "gradient error": judgements["gradient"].error,
        "gradient bound": judgements["gradient"].bound,
    }
    figures["summary"] = (
        f"loss {float(actual.loss):.4f}, gradient error {judgements['gradient'].error:.1e} of "
        f"{judgements['gradient'].bound:.1e} allowed, {products.summary(dtype)}"
    )
    _one_step(name, job)
    require_counted(name, products)


def _judgements(actual: StepResult, exact: StepResult, expected: StepResult) -> dict[str, Judgement]:
    require(
        actual.gradients.keys() == exact.gradients.keys(),
        f"gradients differ in kind: {sorted(actual.gradients.keys() ^ exact.gradients.keys())[:3]}",
    )
    ours, truth, anchored = (on_top(result.gradients, exact) for result in (actual, exact, expected))
    pairs = {f"gradient of {name}": (ours[name], truth[name], anchored[name]) for name in exact.gradients}
    pairs |= {
        "output": (actual.output, exact.output, expected.output),
        "loss": (actual.loss, exact.loss, expected.loss),
    }
    return {what: judge(*values, torch.float32) for what, values in pairs.items()}


def _loss_is_one(outcome: StepResult) -> None:
    loss = float(outcome.loss)
    require(math.isfinite(loss), f"the loss is {loss}")
    require(loss != 0, "the loss is exactly 0")


def _one_step(workload: str, job: Job) -> None:
    """Take a step and look that the optimiser, or a gradient scaler that skips, did not leave parameters as they were."""
    trained = {name: p.detach().clone() for name, p in job.model.named_parameters() if p.requires_grad}
    before = living(trained, reference(workload, PRESET))
    loss = float(job.step())
    require(math.isfinite(loss), f"the loss of the first optimiser step is {loss}")
    still = [
        name
        for name, parameter in job.model.named_parameters()
        if name in before and relative_error(parameter, before[name].cpu()) == 0
    ]
    require(
        not still, f"one optimiser step left {len(still)} of {len(before)} parameters as they were, such as {still[:1]}"
    )

"""A short training in each precision: a verdict per dtype by measurement, not by name (docs/users-reports.md A3, C3).

Qwen2 in float16 once gave loss 0 and learning rate 0 on a stack: the scaler skipped every step, so the schedule never left its start.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Final

import pytest
import torch

from stackproof.device.kinds import Device
from stackproof.record.checks import require
from stackproof.record.records import Figure
from stackproof.stack.stacks import Stack
from stackproof.workloads.base import Job
from stackproof.workloads.catalogue import taking_part
from stackproof.workloads.gradients import living
from suites.common import SEED, possible, reference, require_counted, supported, watch_backward, watch_forward

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
_PRESET: Final = "tiny"
_STEPS = 8
_WARM_UP = 2


@dataclass
class Course:
    """What each step was like; a skipped step left parameters and schedule alone."""

    losses: list[float] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)
    scales: list[float] = field(default_factory=list)
    skipped: int = 0
    still: list[int] = field(default_factory=list)


@pytest.mark.deadline(120)
@pytest.mark.parametrize("precision", DTYPES)
@pytest.mark.parametrize("name", taking_part("precision"))
def test_training(name: str, precision: str, stack: Stack, device: Device, figures: dict[str, Figure]) -> None:
    """The loss is finite, never 0, and falls; every layer casts, forward and backward; steps at a rate above 0 move every parameter."""
    dtype = DTYPES[precision]
    supported(stack, dtype)
    autocast = None if dtype is torch.float32 else dtype
    job = possible(name).build(device.torch, _PRESET, SEED, torch.float32, autocast)
    forward, backward = watch_forward(job), watch_backward(job)
    course = _train(name, job)
    figures |= {
        "first loss": course.losses[0],
        "last loss": course.losses[-1],
        "scale": course.scales[-1],
        "skipped steps": course.skipped,
        "lowest learning rate": min(course.rates),
        "layers": forward.count,
        "layers cast": forward.cast(dtype),
        "products in backward": backward.count,
    }
    what = f"{name} in {precision}"
    require(forward.all_in(dtype), f"{what}: autocast did not cast: {forward.summary(dtype)}")
    require(
        (backward.count > 0 or not forward.count) and not backward.others(dtype, attention=False),
        f"{what}: autocast did not cast the backward pass: {backward.summary}",
    )
    _alive(what, course)
    require_counted(name, forward)
    figures["summary"] = (
        f"loss {course.losses[0]:.3f} to {course.losses[-1]:.3f} in {_STEPS} steps, {course.skipped} skipped, scale "
        f"{course.scales[-1]:g}, {forward.summary(dtype)}; "
        f"{backward.count - backward.others(dtype, attention=True)} of {backward.count} products of backward in {precision}"
    )


def _train(name: str, job: Job) -> Course:
    """Train with a warm-up that starts above 0; as trainers do, the schedule waits while the scaler skips."""
    course, schedule = Course(), torch.optim.lr_scheduler.LambdaLR(job.optimiser, _rate)
    trained = {key: parameter for key, parameter in job.model.named_parameters() if parameter.requires_grad}
    trainable = list(living(trained, reference(name, _PRESET)).values())
    for _ in range(_STEPS):
        before, scale = [parameter.detach().clone() for parameter in trainable], job.scaler.get_scale()
        course.rates.append(float(job.optimiser.param_groups[0]["lr"]))
        course.losses.append(float(job.step()))
        course.scales.append(job.scaler.get_scale())
        if course.scales[-1] < scale:
            course.skipped += 1
            continue
        course.still.append(sum(torch.equal(old, new) for old, new in zip(before, trainable, strict=True)))
        schedule.step()
    return course


def _rate(step: int) -> float:
    """Return the share of the learning rate: a linear warm-up, then half a cosine that ends above 0."""
    if step < _WARM_UP:
        return (step + 1) / (_WARM_UP + 1)
    return (1 + math.cos(math.pi * (step - _WARM_UP) / _STEPS)) / 2


def _alive(what: str, course: Course) -> None:
    """Fail on what a training that does nothing looks like, the cause before its consequences."""
    bad = [loss for loss in course.losses if not math.isfinite(loss)]
    require(not bad, f"{what}: the loss is {bad[:1]} in {len(bad)} of {_STEPS} steps; losses {course.losses}")
    require(0 not in course.losses, f"{what}: the loss is exactly 0: {course.losses}")
    require(
        course.skipped <= _STEPS / 2,
        f"{what}: the scaler skipped {course.skipped} of {_STEPS} steps, its scale went to {course.scales[-1]:g}",
    )
    require(min(course.rates) > 0, f"{what}: the learning rate that the optimiser sees is 0: {course.rates}")
    require(len(set(course.rates)) > 1, f"{what}: the schedule never moved the learning rate from {course.rates[0]}")
    require(not any(course.still), f"{what}: steps that were taken left parameters as they were: {course.still}")
    first, last = course.losses[0], course.losses[-1]
    require(last < first, f"{what}: the loss does not fall: {first} to {last} in {_STEPS} steps")

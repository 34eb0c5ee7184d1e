"""Whole models against float64: training, three optimiser steps, evaluation, and channels-last pictures."""

from __future__ import annotations

import math

import pytest
import torch

from stackproof.base.text import counted
from stackproof.device.kinds import Device
from stackproof.device.numerics import Judgement, require_all
from stackproof.record.checks import require
from stackproof.record.records import Figure
from stackproof.workloads.base import Job
from stackproof.workloads.catalogue import get, taking_part, unanchored
from stackproof.workloads.gradients import conditioned, living
from suites.common import SEED, possible, reference
from suites.models.observing import (
    PRESET,
    Tensors,
    anchored,
    compared,
    evaluated,
    exact,
    in_channels_last,
    observed,
    predicted,
)
from suites.models.stepping import Step, judged, state, taken

PICTURES, MODELS = taking_part("channels-last"), taking_part("models")

STEPS = 3


@pytest.mark.deadline(120)
@pytest.mark.parametrize("name", MODELS)
def test_training(name: str, device: Device, figures: dict[str, Figure]) -> None:
    """Prediction, loss, and the gradient of every parameter and input agree with float64."""
    actual = observed(_job(name, device))
    loss = float(actual["loss"])
    require(math.isfinite(loss) and loss != 0, f"the loss is {loss}")
    judgements = compared(actual, exact(name, observed), anchored(name, observed))
    sentence = _held(name, judgements, name, figures)
    inputs = [judged.error for what, judged in judgements.items() if what.startswith("input")]
    figures |= {"loss": loss, "prediction error": judgements["prediction"].error, "input gradient error": max(inputs)}
    figures["summary"] = f"loss {loss:.4f}, {counted(len(inputs), 'input gradient')}, {sentence}{unanchored(name)}"


@pytest.mark.deadline(120)
@pytest.mark.parametrize("name", MODELS)
def test_steps(name: str, device: Device, figures: dict[str, Figure]) -> None:
    """In each of three steps loss, gradients and running statistics agree with float64; the update is the optimiser's and moves all."""
    job = _job(name, device)
    trainable = [key for key, parameter in job.model.named_parameters() if parameter.requires_grad]
    moving = living({key: value for key, value in state(job).items() if key in trainable}, reference(name, PRESET))
    steps = [_taken(name, number, job, moving) for number in range(1, STEPS + 1)]
    against = steps[0][0].update.against
    judgements = {
        f"step {number}, {what}": judgement
        for number, (step, _) in enumerate(steps, 1)
        for what, judgement in judged(name, step).items()
    }
    sentence = _held(name, judgements, f"{name},", figures)
    update = max(share for _, share in steps)
    figures |= {"update, share of its bound": update, "update compared with": against}
    figures["summary"] = (
        f"losses, gradients and buffers: {sentence}; updates of {type(job.optimiser).__name__} "
        f"take {update:.2g} of theirs, compared with {against}"
    )


def _taken(name: str, number: int, job: Job, moving: Tensors) -> tuple[Step, float]:
    """Take a step; require that it did something, and what its optimiser must do: return how much of its bound the worst number takes."""
    step = taken(job)
    ended = state(job)
    still = [key for key in moving if torch.equal(step.start[key], ended[key])]
    require(
        not still,
        f"{name}: step {number} left {len(still)} of {len(moving)} parameters as they were, such as {still[:1]}",
    )
    return step, step.update.share()


@pytest.mark.deadline(120)
@pytest.mark.parametrize("name", MODELS)
def test_evaluation(name: str, device: Device, figures: dict[str, Figure]) -> None:
    """In evaluation mode the prediction agrees with float64, is the same twice, and leaves buffers alone."""
    job = _job(name, device)
    actual = evaluated(job)
    before = {key: buffer.clone() for key, buffer in job.model.named_buffers()}
    again = predicted(job)
    require(
        all(torch.equal(actual[what], again[what]) for what in again),
        f"{name}: two predictions in evaluation mode differ",
    )
    changed = [key for key, buffer in job.model.named_buffers() if not torch.equal(buffer, before[key])]
    require(
        not changed, f"{name}: a prediction in evaluation mode changed {len(changed)} buffers, such as {changed[:1]}"
    )
    judgements = compared(actual, exact(name, evaluated), anchored(name, evaluated))
    sentence = _held(name, judgements, f"{name} in evaluation mode,", figures)
    figures["summary"] = f"{' and '.join(actual)}: {sentence}{unanchored(name)}"


@pytest.mark.deadline(120)
@pytest.mark.parametrize("name", PICTURES)
def test_channels_last(name: str, device: Device, figures: dict[str, Figure]) -> None:
    """With pictures and kernels in channels-last order, prediction, loss and gradients agree with float64 as before."""
    job = _job(name, device)
    kept = _watch_order(job)
    actual = in_channels_last(job)
    require(kept["layers"] > 0, f"{name}: no convolution was given its pictures in channels-last order")
    # The CPU's channels-last kernels add in another order than its usual ones: they are the anchor here.
    judgements = compared(actual, exact(name, observed), anchored(name, in_channels_last))
    sentence = _held(name, judgements, f"{name} in channels-last order,", figures)
    figures |= {f"convolutions that {what}": count for what, count in kept.items() if what != "layers"}
    figures["summary"] = (
        f"{kept['keep the order']} of {kept['layers']} convolutions that are given the order keep it; {sentence}"
    )


def _watch_order(job: Job) -> dict[str, int]:
    """Count convolutions that are given channels-last pictures, and those whose output is in that order."""
    kept = {"layers": 0, "keep the order": 0}

    def note(_module: torch.nn.Module, inputs: tuple[torch.Tensor], output: torch.Tensor) -> None:
        ordered = inputs[0].is_contiguous(memory_format=torch.channels_last)
        kept["layers"] += ordered
        kept["keep the order"] += ordered and output.is_contiguous(memory_format=torch.channels_last)

    for module in job.model.modules():
        if isinstance(module, torch.nn.Conv2d):
            module.register_forward_hook(note)
    return kept


def _job(name: str, device: Device) -> Job:
    return possible(name).build(device.torch, PRESET, SEED, torch.float32)


def _held(name: str, judgements: dict[str, Judgement], what: str, figures: dict[str, Figure]) -> str:
    """Require that all results are as near as the model's own condition lets them be; note the worst, and say it."""
    worst = require_all(conditioned(judgements, get(name)), what)
    figures |= {"compared": len(judgements), "worst error": worst.error, "its bound": worst.bound}
    return f"worst error of {counted(len(judgements), 'result')}: {worst.error:.1e} of {worst.bound:.1e} allowed"

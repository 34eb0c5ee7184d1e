"""Training looked at one step at a time: each from where the device stood, because a trajectory amplifies the rounding of its steps.

What goes into a step (loss, gradients, running statistics) is held against float64 at the same parameters; what the optimiser makes of
the device's own gradients is held against the closed form of its update.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from stackproof.device.numerics import Judgement
from stackproof.workloads.base import Job, StepResult
from stackproof.workloads.catalogue import get
from stackproof.workloads.training import Update
from suites.common import SEED
from suites.models.observing import CPU, PRESET, Tensors, compared, flat


@dataclass(frozen=True)
class Step:
    """The state before a step, what the device computed from it, and its optimiser, to be compared before the next step."""

    start: Tensors
    seen: Tensors
    update: Update


def taken(job: Job) -> Step:
    """Take one optimiser step."""
    start, update = state(job), Update(job.optimiser)
    loss = job.step()
    gradients = {name: p.grad.cpu().clone() for name, p in job.model.named_parameters() if p.grad is not None}
    seen = {"loss": loss.cpu()} | {f"gradient of {name}": grad for name, grad in gradients.items()} | _buffers(job)
    return Step(start, seen, update)


def judged(name: str, step: Step) -> dict[str, Judgement]:
    """Judge what went into a step against float64 on the CPU from the same state, anchored by float32 there."""
    exact, anchor = (_from(name, step.start, dtype) for dtype in (torch.float64, torch.float32))
    return compared(step.seen, exact, anchor)


def state(job: Job) -> Tensors:
    """Return all parameters and buffers, on the CPU."""
    every = {**dict(job.model.named_parameters()), **dict(job.model.named_buffers())}
    return {name: tensor.detach().cpu().clone() for name, tensor in every.items()}


def _from(name: str, start: Tensors, dtype: torch.dtype) -> Tensors:
    job = get(name).build(CPU, PRESET, SEED, dtype)
    with torch.no_grad():
        for key, tensor in (*job.model.named_parameters(), *job.model.named_buffers()):
            tensor.copy_(start[key])
    outcome = job.observe()
    seen = flat(StepResult(torch.empty(0), outcome.loss, outcome.gradients))
    return {key: tensor for key, tensor in seen.items() if key != "prediction"} | _buffers(job)


def _buffers(job: Job) -> Tensors:
    return {f"buffer {name}": buffer.detach().cpu().clone() for name, buffer in job.model.named_buffers()}

"""What checks of models look at besides a job's outcome: gradients of its inputs, and what training leaves behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, Final

import torch

from stackproof.device.numerics import Judgement, relative_error, rule
from stackproof.record.checks import require
from stackproof.workloads.base import Job, StepResult
from stackproof.workloads.catalogue import get
from suites.common import SEED

# What is compared with float64, whatever the session's preset: `full` would take tens of GiB and minutes on a host.
PRESET: Final = "tiny"
STEPS = 3
CPU = torch.device("cpu")

Tensors = dict[str, torch.Tensor]


@contextmanager
def watching_inputs(job: Job) -> Iterator[list[torch.Tensor]]:
    """Keep what enters the model's arithmetic, with its gradient: the pictures, or what the token embedding gives."""
    kept: list[torch.Tensor] = []

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        kept.append(tensor.requires_grad_())
        tensor.retain_grad()
        return tensor

    embedding = getattr(job.model, "get_input_embeddings", None)  # transformers' name for it
    handle = (
        embedding().register_forward_hook(lambda _module, _inputs, output: keep(output))
        if embedding
        else job.model.register_forward_pre_hook(lambda _module, inputs: (keep(inputs[0].detach()),))
    )
    try:
        yield kept
    finally:
        handle.remove()


def observed(job: Job) -> Tensors:
    """Run forward and backward; return prediction, loss, the gradient of every parameter and of every input."""
    with watching_inputs(job) as inputs:
        outcome = job.observe()
    gradients = [tensor.grad for tensor in inputs if tensor.grad is not None]
    require(len(gradients) == len(inputs) > 0, "backward left no gradient at the inputs")
    reached = {f"input gradient {index}": gradient.cpu() for index, gradient in enumerate(gradients)}
    return flat(outcome) | reached


def observed_once(job: Job) -> Tensors:
    """Do the same with one micro-batch and unwatched: for other lengths torch would compile again, and for a hook not at all."""
    del job.batches[1:]
    return flat(job.observe())


def flat(outcome: StepResult) -> Tensors:
    """Return everything that an outcome holds, by what it is."""
    gradients = {f"gradient of {name}": gradient for name, gradient in outcome.gradients.items()}
    return {"prediction": outcome.output, "loss": outcome.loss} | gradients


def in_channels_last(job: Job) -> Tensors:
    """Do the same with kernels and pictures stored channel by channel within a pixel."""
    job.model.to(memory_format=torch.channels_last)
    job.batches[0]["img"] = job.batches[0]["img"].contiguous(memory_format=torch.channels_last)
    return observed(job)


def trained(job: Job) -> Tensors:
    """Take three optimiser steps; return their losses, and the parameters and buffers that they leave."""
    losses = {"losses": torch.stack([job.step() for _ in range(STEPS)]).cpu()}
    parameters, buffers = job.model.named_parameters(), job.model.named_buffers()
    return losses | _copied("parameter", parameters) | _copied("buffer", buffers)


def evaluated(job: Job) -> Tensors:
    """Let normalisation see the data once in training mode, then return the prediction of evaluation mode."""
    job.observe()
    return predicted(job)


def predicted(job: Job) -> Tensors:
    """Return logits, or boxes (in pixels) and probabilities apart: together the large would hide the small."""
    prediction = job.predict()
    if prediction.dim() == 3:  # pictures, 4 + classes, anchors
        return {"boxes": prediction[:, :4], "probabilities": prediction[:, 4:]}
    return {"logits": prediction}


@cache
def exact(name: str, look: Callable[[Job], Any]) -> Any:
    """Return what `look` sees of the float64 job on the CPU, once a process."""
    return look(get(name).build(CPU, PRESET, SEED, torch.float64))


@cache
def anchored(name: str, look: Callable[[Job], Any]) -> Any:
    """Return what `look` sees of the float32 job on the CPU: what a device may err by."""
    return look(get(name).build(CPU, PRESET, SEED, torch.float32))


def compared(actual: Tensors, reference: Tensors, anchor: Tensors) -> dict[str, Judgement]:
    """Judge float32 results by name; each must be there.

    One anchor serves all: the worst error that the CPU makes in any of them. Which tensor of a deep model catches the rounding is luck
    that differs between kernels; a scalar loss, for one, can be right to the last bit by chance.
    """
    absent = sorted(reference.keys() ^ actual.keys())
    require(not absent, f"results differ in kind: {', '.join(absent[:3])} of {len(absent)} on one side only")
    allowed = max(relative_error(anchor[name], reference[name]) for name in reference)
    bound = rule().bound(allowed, torch.float32)
    errors = {name: relative_error(actual[name], reference[name]) for name in reference}
    return {name: Judgement(error <= bound, error, bound, allowed) for name, error in errors.items()}


def judge_fixed(actual: torch.Tensor, reference: torch.Tensor, anchor: torch.Tensor, bound: float) -> Judgement:
    """Judge against a bound that does not depend on the CPU's own error, which is told."""
    error = relative_error(actual, reference)
    return Judgement(error <= bound, error, bound, relative_error(anchor, reference))


def _copied(kind: str, named: Iterator[tuple[str, torch.Tensor]]) -> Tensors:
    return {f"{kind} {name}": tensor.detach().cpu().clone() for name, tensor in named}

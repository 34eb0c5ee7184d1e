"""What checks of models look at besides a job's outcome: gradients of its inputs, and predictions in parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, Final

import torch
from torch.utils._pytree import tree_map

from stackproof.device.devices import HOST
from stackproof.device.numerics import Judgement, relative_error, rule
from stackproof.record.checks import require
from stackproof.workloads.base import Job, StepResult
from stackproof.workloads.catalogue import get
from stackproof.workloads.gradients import on_top
from suites.common import SEED

# What is compared with float64, whatever the session's preset: `full` would take tens of GiB and minutes on a host.
PRESET: Final = "tiny"
_PICTURES = 4
"""Dimensions of a batch of pictures."""
CPU = HOST.torch

Tensors = dict[str, torch.Tensor]


@contextmanager
def watching_inputs(job: Job) -> Iterator[list[torch.Tensor]]:
    """Keep what enters the model's arithmetic, with its gradient: floating inputs, or what embeddings make of whole numbers."""
    kept: list[torch.Tensor] = []

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        kept.append(tensor.requires_grad_())
        tensor.retain_grad()
        return tensor

    def enter(_module: torch.nn.Module, inputs: tuple[Any, ...], named: dict[str, Any]) -> Any:
        return tree_map(lambda leaf: keep(leaf.detach()) if _floating(leaf) else leaf, (inputs, named))

    def embedded(_module: torch.nn.Module, _inputs: object, output: torch.Tensor) -> torch.Tensor:
        return keep(output)

    if any(_floating(value) for batch in job.batches for value in batch.values()):
        handles = [job.model.register_forward_pre_hook(enter, with_kwargs=True)]
    else:
        tables = [module for module in job.model.modules() if isinstance(module, torch.nn.Embedding)]
        handles = [module.register_forward_hook(embedded) for module in tables]
    try:
        yield kept
    finally:
        for handle in handles:
            handle.remove()


def _floating(value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def observed(job: Job) -> Tensors:
    """Run forward and backward; return prediction, loss, the gradient of every parameter and of every input."""
    with watching_inputs(job) as inputs:
        outcome = job.observe()
    gradients = [tensor.grad for tensor in inputs if tensor.grad is not None]
    require(
        len(gradients) == len(inputs) > 0,
        "backward left no gradient at the inputs, or none was seen to enter the model",
    )
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
    for batch in job.batches:
        pictures = {name: x for name, x in batch.items() if x.dim() == _PICTURES and x.is_floating_point()}
        batch.update({name: x.contiguous(memory_format=torch.channels_last) for name, x in pictures.items()})
    return observed(job)


def evaluated(job: Job) -> Tensors:
    """Let normalisation see the data once in training mode, then return the prediction of evaluation mode."""
    job.observe()
    return predicted(job)


def predicted(job: Job) -> Tensors:
    """Return the prediction of evaluation mode, in the parts that are judged apart."""
    return dict(job.parts(job.predict()))


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
    actual, anchor, reference = (_raised(tensors, reference) for tensors in (actual, anchor, reference))
    allowed = max(relative_error(anchor[name], reference[name]) for name in reference)
    bound = rule().bound(allowed, torch.float32)
    errors = {name: relative_error(actual[name], reference[name]) for name in reference}
    return {name: Judgement(error <= bound, error, bound, allowed) for name, error in errors.items()}


def _raised(seen: Tensors, reference: Tensors) -> Tensors:
    """Return the results, with gradients that are zero in exact arithmetic added to one of usual size."""
    own, exact = (
        {key: tensor for key, tensor in of.items() if key.startswith("gradient of ")} for of in (seen, reference)
    )
    return {**seen, **on_top(own, StepResult(torch.empty(0), torch.empty(0), exact))}

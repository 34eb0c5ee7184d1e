"""What a side computes, made small enough to be sent: losses, outputs, gradients and updates from equal seeds, as norms and sketches.

A tensor becomes its digest, its norm, and its products with eight vectors of random signs (Johnson and Lindenstrauss 1984; Achlioptas
2003): the sketches of two tensors are as far apart as the tensors are, to within a third or so. Runs in a side, with torch;
`changed` compares what two sides say. What one run does is counted exactly besides: units of work, operators dispatched, blocks allocated
and kernels started. Counts have no noise on equal software: one launch and no statistics tell.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch

from stackproof.base.rpc import Message
from stackproof.device import threads
from stackproof.device.devices import HOST, Operators
from stackproof.device.kinds import Device, raw_events
from stackproof.workloads.base import Job
from stackproof.workloads.work import Work

SCALES = (1.0, 1.0, 1e4, 1e-4)
"""What gradients are multiplied by in the steps that are taken: a clip shows with large ones, an epsilon with small ones."""
_RUNS = 2
_SEED = 11
_WIDTH = 4096
_CHUNK = _WIDTH << 10
_SIGNS = 8
_LOW32 = 0xFFFFFFFF
_HOW = ("foreach", "fused", "capturable", "differentiable", "params")
"""Of an optimiser's settings, how it computes and not what."""
_ALLOCATION = "[memory]"
"""What the profiler calls the event of an allocator."""


@threads.chosen("tiny")
def fingerprint(work: Work, own: Mapping[str, dict[str, Message]]) -> Message:
    """Return all that is compared of work: `settings`, what a run is `worth`, and sketches by group and name.

    Groups of a training job are those of its tiny twin in float64 on the CPU; `own` is what `timed` gave of the work itself.
    """
    job, workload = getattr(work, "job", None), getattr(work, "workload", None)
    groups = in_float64(workload.build(HOST.torch, "tiny", _SEED, torch.float64)) if workload is not None else {}
    fields = settings(job) if job is not None else {}
    return {"settings": fields, "worth": dict(work.worth), "dtype": work.dtype, "groups": {**groups, **own}}


def settings(job: Job) -> dict[str, Any]:
    """Return what the optimiser was found, by group and name, and the precision of the job."""
    recipe = job.recipe
    names = {"dtype": recipe.dtype, "autocast": recipe.autocast, "optimiser": type(job.optimiser).__name__}
    fields: dict[str, Any] = {name: str(value) for name, value in names.items()}
    for number, group in enumerate(job.optimiser.param_groups):
        fields |= {f"{name} of group {number}": _plain(value) for name, value in group.items() if name not in _HOW}
    return fields


def _plain(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.tolist()
    return [_plain(item) for item in value] if isinstance(value, (tuple, list)) else value


def in_float64(job: Job) -> dict[str, dict[str, Message]]:
    """Return the sketches of a job: what goes in, what comes out, and what steps change."""
    named = dict(job.model.named_parameters())
    with _seeded():
        seen = job.observe()
    groups = {
        "data": _sketches(
            {f"{name} of batch {at}": tensor for at, batch in enumerate(job.batches) for name, tensor in batch.items()}
        ),
        "initial weights": _sketches(named),
        "output": _sketches({"output": seen.output}),
        "loss": _sketches({"loss": seen.loss}),
        "gradient": _sketches(seen.gradients),
    }
    with _seeded():
        groups["prediction"] = _sketches({"in evaluation": job.predict()})
    for number, scale in enumerate(SCALES, 1):
        before = {name: param.detach().clone() for name, param in named.items() if param.requires_grad}
        with _seeded(), _scaled(before, named, scale):
            groups[f"loss of step {number}"] = _sketches({"loss": job.step()})
        moved = {name: named[name].detach() - kept for name, kept in before.items()}
        groups[f"update of step {number}"] = _sketches(moved)
    groups["buffer"] = _sketches({name: buf for name, buf in job.model.named_buffers() if buf.is_floating_point()})
    return groups


def timed(work: Work) -> dict[str, dict[str, Message]]:
    """Run freshly built work and sketch what it gives back and what it changes as a whole; in its own precision, on its device."""
    with _seeded():
        work.begin(_RUNS)
    owner = getattr(work, "job", None)
    parameters = [param for param in owner.model.parameters() if param.requires_grad] if owner is not None else []
    sketches: dict[str, Message] = {}
    for number in range(1, (_RUNS if parameters else 1) + 1):
        before = [param.detach().clone() for param in parameters]
        with _seeded():
            outputs = work.run()
        outputs = outputs if isinstance(outputs, Mapping) else {"result": outputs}
        tensors = {name: tensor for name, tensor in outputs.items() if isinstance(tensor, torch.Tensor)}
        sketches |= {f"{name} of run {number}": sketch(tensor) for name, tensor in tensors.items()}
        if before:
            pairs = zip(parameters, before, strict=True)
            moved = torch.cat([(param.detach() - kept).flatten().cpu().double() for param, kept in pairs])
            sketches[f"size of the change of run {number}"] = sketch(moved.norm())
    return {"timed": sketches}


def _sketches(tensors: Mapping[str, torch.Tensor]) -> dict[str, Message]:
    return {name: sketch(tensor) for name, tensor in tensors.items()}


def sketch(tensor: torch.Tensor) -> Message:
    """Return a tensor's shape, the digest of its bits and, of numbers that round, its norm and its products with random signs."""
    own = tensor.detach().cpu().contiguous().reshape(-1)
    bits = own.view(torch.uint8).numpy().tobytes() if own.numel() else b""
    fields: Message = {"shape": list(tensor.shape), "digest": hashlib.blake2b(bits, digest_size=8).hexdigest()}
    if not tensor.is_floating_point():
        return fields
    total, square = torch.zeros(_SIGNS, dtype=torch.float64), 0.0
    for start in range(0, own.numel(), _CHUNK):
        part = own[start : start + _CHUNK].double()
        square += float(part @ part)
        rows = torch.nn.functional.pad(part, (0, -part.numel() % _WIDTH)).view(-1, _WIDTH)
        total += ((_signs(start // _WIDTH + _WIDTH, len(rows)) @ rows) * _signs(0, _WIDTH)).sum(1)
    return {**fields, "norm": square**0.5, "sketch": total.tolist()}


@cache
def _signs(start: int, count: int) -> torch.Tensor:
    """Return eight rows of -1 and 1: bits of a hash of so many indices (Murmur3's finaliser), the same on every host.

    An element's sign is its row's times its column's, which is as good: the products of two differ by as much on average.
    """
    mixed = torch.arange(start, start + count, dtype=torch.int64).mul_(0x1E3779B1).add_(_SEED).bitwise_and_(_LOW32)
    for shift, factor in ((16, 0x21F0AAAD), (15, 0x735A2D97), (15, 1)):
        mixed = mixed.bitwise_xor_(mixed >> shift).mul_(factor).bitwise_and_(_LOW32)
    return torch.stack([((mixed >> (8 + bit)) & 1).double().mul_(2).sub_(1) for bit in range(_SIGNS)])


@contextmanager
def _seeded() -> Iterator[None]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(_SEED)
        yield


@contextmanager
def _scaled(names: Mapping[str, object], named: Mapping[str, torch.Tensor], scale: float) -> Iterator[None]:
    hooks = [named[name].register_hook(lambda gradient: gradient * scale) for name in names]  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


class UnitsDone:
    """Counts what timed runs of a job do: calls of the model, numbers that go in and come out, backward passes, optimiser steps."""

    def __init__(self, job: Job | None) -> None:
        self.counts: dict[str, int] = {}
        self._hooks: list[Any] = []
        if job is None:
            return
        names = "forward passes", "numbers in", "numbers out", "backward passes", "optimiser steps"
        self.counts = dict.fromkeys(names, 0)
        first = next(parameter for parameter in job.model.parameters() if parameter.requires_grad)
        self._hooks = [
            job.model.register_forward_hook(self._forward, with_kwargs=True),
            first.register_hook(lambda _: self._add("backward passes")),  # type: ignore[no-untyped-call]
            job.optimiser.register_step_post_hook(lambda *_: self._add("optimiser steps")),
        ]

    def _forward(self, _: object, values: tuple[Any, ...], named: dict[str, Any], output: Any) -> None:
        self._add("forward passes")
        self._add("numbers in", _numbers((values, named)))
        self._add("numbers out", _numbers(output))

    def _add(self, name: str, many: int = 1) -> None:
        self.counts[name] += many

    def end(self) -> dict[str, int]:
        """Stop counting and return what was counted."""
        for hook in self._hooks:
            hook.remove()
        self._hooks = []
        return self.counts


def _numbers(nested: Any) -> int:
    if isinstance(nested, torch.Tensor):
        return nested.numel()
    if isinstance(nested, Mapping):
        nested = nested.values()
    elif not isinstance(nested, (tuple, list)):
        return 0
    return sum(map(_numbers, nested))


def counts(run: Callable[[], object], device: Device) -> dict[str, int]:
    """Return the counters of one run of warm work by name (`data/gate.toml`); one that nobody can tell here is absent."""
    values = {"operators": operators(run), "allocations": _allocations(run, device), "kernels": device.kernels(run)}
    device.synchronize()
    return {name: count for name, count in values.items() if count is not None}


def operators(run: Callable[[], object]) -> int:
    """Return how many operators one run dispatches to a backend, forward and backward."""
    with Operators() as ran:
        run()
    return len(ran.seen)


def _allocations(run: Callable[[], object], device: Device) -> int | None:
    """Return how many blocks the device's allocator hands out in one run; the host's is seen by the profiler alone."""
    before = device.allocations()
    if before is None:
        return _on_host(run)
    run()
    after = device.allocations()
    return None if after is None else after - before


def _on_host(run: Callable[[], object]) -> int | None:
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, profile_memory=True) as profiler:
        run()
    return sum(bool(event.name() == _ALLOCATION and event.nbytes() > 0) for event in raw_events(profiler))

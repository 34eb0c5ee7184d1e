"""Does the card serve its operators itself? Those that a step of training sends it are called again behind a full queue.

A backend without an operator may hand it to the CPU; its result is right and late, and what is said of it is a debug message
(https://github.com/pytorch/pytorch/issues/126488). So the card is given work for a tenth of a second, and operators are called: a launch
returns at once, and what reads its arguments on the host, or synchronises, returns when the queue is empty.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map_only

from stackproof.probes.clock import KnownWork
from stackproof.record.checks import CheckInconclusive, require

BACKLOG_S = 0.1
LEAST_S = 5e-3
"""So much of it must be left when the operator is called: far more than a launch takes."""
WAITED = 0.5
"""From this share of the queue's time on, a call waited for it; a launch takes little of it."""
_TRIES, _MOST_TRIES = 3, 6
_FAR, _LONGEST = 8, 16
"""A queue is so many times as long as a call takes by itself, up to so many times its usual length."""
_LATE = 0.4
"""When so much of the queue's time has passed it is filled again."""
Call = Callable[[], object]


class Traced(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Keeps each operator that runs while it is active, forward and backward, with copies of its largest arguments of a kind.

    A kind is the operator, the dtypes of its tensors, and whether one has gaps. `excused` has those that may wait, or do nothing:
    what only looks at a tensor, what must tell the host a number or a size, and what brings a tensor to or from it.
    """

    def __init__(self, device: torch.device) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls: dict[str, Call] = {}
        self.excused: dict[str, str] = {}
        self._sizes: dict[str, int] = {}
        self._device = device

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        tensors = [item for item in tree_flatten((args, kwargs))[0] if isinstance(item, torch.Tensor)]
        if reason := _excuse(func, tensors, kwargs, self._device):
            self.excused[_name(func)] = reason
        elif (size := sum(map(torch.Tensor.numel, tensors))) > self._sizes.get(kind := _kind(func, tensors), -1):
            self._sizes[kind], self.calls[kind] = size, _again(func, args, kwargs)
        return func(*args, **kwargs)


def _name(func: Any) -> str:
    return str(func).removeprefix("aten.").removesuffix(".default")


def _kind(func: Any, tensors: list[torch.Tensor]) -> str:
    dtypes = dict.fromkeys(str(tensor.dtype).removeprefix("torch.") for tensor in tensors)
    gaps = " with gaps" if any(not tensor.is_contiguous() for tensor in tensors) else ""
    return f"{_name(func)} {' '.join(dtypes)}{gaps}"


def _again(func: Any, args: Any, kwargs: Any) -> Call:
    """Return a call with copies of the arguments, in the same places of memory relative to each other."""
    copied = tree_map_only(torch.Tensor, _copy, (args, kwargs))

    def call() -> object:
        with torch.no_grad():
            return func(*copied[0], **copied[1])

    return call


def _copy(tensor: torch.Tensor) -> torch.Tensor:
    """Return the numbers in memory of their own, with the same strides: those of an expanded tensor stay one."""
    if not tensor.numel():
        return tensor.detach().clone()
    span = 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return tensor.detach().as_strided((span,), (1,)).clone().as_strided(tensor.shape, tensor.stride())


def _excuse(func: Any, tensors: list[torch.Tensor], kwargs: Mapping[str, Any], device: torch.device) -> str:
    """Return why an operator may wait, or is nothing for the card; empty where it must not."""
    returned = func._schema.returns
    if returned and all(result.alias_info and not result.alias_info.is_write for result in returned):
        return "looks at memory that is there"
    if torch.Tag.data_dependent_output in func.tags:
        return "tells the host a number"
    # Of an index a mask decides the size, places do not, whatever torch's tag says of both.
    masked = any(arg.dtype in (torch.bool, torch.uint8) for arg in tensors[1:])
    if masked if "index" in func.overloadpacket.__name__ else torch.Tag.dynamic_output_shape in func.tags:
        return "tells the host a size"
    places = {arg.device for arg in tensors if arg.dim()} | {arg.device for arg in tensors if arg.device == device}
    asked = kwargs.get("device")
    if asked is not None and torch.device(asked).type != device.type:
        return "brings a tensor to the host, or makes one there"
    if any(place != device for place in places):
        return "brings a tensor from or to the host"
    return "" if places or asked is not None else "has nothing on the card"


def behind(call: Call, work: KnownWork, units: int) -> tuple[float, float]:
    """Return the seconds of a call behind a full queue, and those until the queue was empty."""
    work.read()
    if units:
        work.submit(units)
    began = time.perf_counter()
    call()
    took = time.perf_counter() - began
    work.read()
    return took, time.perf_counter() - began


def waited(call: Call, work: KnownWork, units: int, whole: float = BACKLOG_S) -> float:
    """Return for which share of the queue's time the call did not return, less what it takes with nothing queued; the smallest of many.

    `units` take `whole` seconds. A call that takes long by itself, as on a busy host, is put behind a queue that takes far longer.
    """
    alone = [behind(call, work, 0)[0] for _ in range(_TRIES)]
    longer = min(_LONGEST, max(1, math.ceil(_FAR * max(alone) / whole)))
    shares = []
    for _ in range(_MOST_TRIES):
        took, until = behind(call, work, longer * units)
        shares.append(max(0.0, took - min(alone)) / max(until, 1e-9))
        if shares[-1] < WAITED:
            break
    return min(shares)


def served(chosen: Mapping[str, Call], work: KnownWork, units: int) -> dict[str, float]:
    """Hold every call against a queue that is not empty; return by name the share of its time that a call took.

    Many are called behind one queue. Which seems to wait is called again behind queues of its own.

    Raises:
        CheckFailed: operators waited for the queue.
        CheckInconclusive: the queue was empty before anything could be called.
    """
    whole = max(behind(lambda: None, work, units)[1] for _ in range(_TRIES))
    if whole < LEAST_S:
        raise CheckInconclusive(
            "the card had done its work before anything else could be called; nothing can be judged"
        )
    for call in chosen.values():
        call()  # what is loaded or allocated once is no answer
    shares, waiting = dict[str, float](), list(chosen)
    while waiting:
        work.read()
        work.submit(units)
        began = time.perf_counter()
        while waiting and time.perf_counter() - began < _LATE * whole:
            name, before = waiting.pop(), time.perf_counter()
            chosen[name]()
            shares[name] = (time.perf_counter() - before) / whole
    suspects = [name for name, share in shares.items() if share >= (1 - _LATE) * WAITED]
    shares |= {name: waited(chosen[name], work, units, whole) for name in suspects}
    late = ", ".join(f"{name} ({shares[name]:.0%})" for name in sorted(suspects) if shares[name] >= WAITED)
    require(
        not late,
        f"waited for the card's queue, as what the host computes in silence does, or what synchronises: {late}; "
        f"at most {WAITED:.0%} of the time until the queue was empty are allowed",
    )
    return shares

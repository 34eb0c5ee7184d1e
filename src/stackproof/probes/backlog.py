"""Proof that a card serves its operators itself: one that the host computes in silence has to wait for the card's queue first.

A backend without an operator may hand it to the CPU; its result is right and late, and what is said of it is a debug message
(https://github.com/pytorch/pytorch/issues/126488). So the card is given work for a tenth of a second, and the operator is called: a launch
returns at once, and what reads its arguments on the host returns when the queue is empty. An operator that synchronises shows likewise.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import torch
from torch.nn import functional

from ..checks import CheckInconclusive, require
from ..device import Device
from .timekeeping import Work

BACKLOG_S = 0.1
LEAST_S = 5e-3
"""So much of it must be left when the operator is called: far more than a launch takes."""
WAITED = 0.5
"""From this share of the queue's time on, a call waited for it; a launch takes little of it."""
_TRIES = 3
Call = Callable[[], object]


def calls(device: Device) -> dict[str, Call]:
    """Return operators that training is made of, on arguments that are small beside the queue."""
    place, draw = device.torch, torch.Generator().manual_seed(1)
    rows, image = (torch.randn(shape, generator=draw).to(place) for shape in ((64, 64), (2, 8, 16, 16)))
    kernel, heads = (torch.randn(shape, generator=draw).to(place) for shape in ((8, 8, 3, 3), (1, 2, 32, 16)))
    index = torch.arange(64).to(place)
    return {
        "mm": lambda: torch.mm(rows, rows),
        "addmm": lambda: torch.addmm(rows, rows, rows),
        "add": lambda: rows + rows,
        "sum": lambda: rows.sum(),
        "cat": lambda: torch.cat((rows, rows)),
        "index_select": lambda: rows.index_select(0, index),
        "embedding": lambda: functional.embedding(index, rows),
        "convolution": lambda: functional.conv2d(image, kernel, padding=1),
        "max_pool2d": lambda: functional.max_pool2d(image, 2),
        "silu": lambda: functional.silu(rows),
        "softmax": lambda: torch.softmax(rows, -1),
        "layer_norm": lambda: functional.layer_norm(rows, (64,)),
        "cross_entropy": lambda: functional.cross_entropy(rows, index),
        "attention": lambda: functional.scaled_dot_product_attention(heads, heads, heads),
    }


def waited(call: Call, work: Work, units: int) -> float:
    """Return for which share of the queue's time the call did not return, the smallest of three: noise only adds to it."""
    call()  # what is loaded or allocated once is no answer
    return min(_share(call, work, units) for _ in range(_TRIES))


def _share(call: Call, work: Work, units: int) -> float:
    took, whole = _behind(call, work, units)
    return took / max(whole, 1e-9)


def _behind(call: Call, work: Work, units: int) -> tuple[float, float]:
    """Return the seconds of a call behind a full queue, and those until the queue was empty."""
    work.read()
    work.submit(units)
    began = time.perf_counter()
    call()
    took = time.perf_counter() - began
    work.read()
    return took, time.perf_counter() - began


def served(chosen: Mapping[str, Call], work: Work, units: int) -> dict[str, float]:
    """Hold every call against a queue that is not empty; return the shares by name.

    Raises:
        CheckFailed: operators waited for the queue.
        CheckInconclusive: the queue was empty before anything could be called.
    """
    if _behind(lambda: None, work, units)[1] < LEAST_S:
        raise CheckInconclusive("the card had done its work before anything else could be called; nothing can be told")
    shares = {name: waited(call, work, units) for name, call in chosen.items()}
    late = ", ".join(f"{name} ({share:.0%})" for name, share in shares.items() if share >= WAITED)
    require(
        not late,
        f"waited for the card's queue, as what the host computes in silence does, or what synchronises: {late}; "
        f"at most {WAITED:.0%} of the time until the queue was empty are allowed",
    )
    return shares

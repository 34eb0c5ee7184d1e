"""How many threads of the CPU work is given: one policy for suites, benchmarks, asv and the gate, so that their figures are of one kind."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import torch


@cache
def default() -> int:
    """Return what torch chose before anybody changed it."""
    return int(torch.get_num_threads())


def choose(preset: str) -> None:
    """Give this process its threads, once and for all: tiny work one, since two were up to fifty times slower with busy neighbours."""
    usual = default()
    torch.set_num_threads(1 if preset == "tiny" else usual)


@contextmanager
def chosen(preset: str) -> Iterator[None]:
    """Give this process its threads inside the block."""
    before = torch.get_num_threads()
    choose(preset)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def on_core(number: int | None) -> Iterator[None]:
    """Keep work of one thread on one core inside the block; the same number is the same core in every process.

    Two processes that take turns would compare their cores as well: what else runs on each of them.
    """
    allowed = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []  # Linux alone has it
    if number is None or torch.get_num_threads() > 1 or len(allowed) < 2:
        yield
        return
    os.sched_setaffinity(0, {allowed[number % len(allowed)]})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)

"""Programs whose rank 1 fails on purpose; rank 0 does what a healthy rank would do."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from stackproof.ranks.rank import Rank

_FAULTY = 1
_STEPS = 12
_FOR_EVER_S = 86400.0


def healthy(rank: Rank) -> dict[str, Any]:
    _sums(rank, 3)
    return {"rank": rank.rank}


def killed(rank: Rank) -> dict[str, Any]:
    """Die by SIGKILL in the midst of all-reduces."""
    if rank.rank == _FAULTY:
        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGKILL)).start()
    rank.phase("sums without end")
    while True:
        _sum(rank, 1 << 22)


def hangs(rank: Rank) -> dict[str, Any]:
    """Stop before a collective that the others call."""
    _sums(rank, 1)
    if rank.rank == _FAULTY:
        rank.phase("a step that does not end")
        time.sleep(_FOR_EVER_S)
    _sums(rank, 1)
    return {}


def around(rank: Rank) -> dict[str, Any]:
    """Hang in a wrapper around a collective: all ranks are in the same phase, and each one's stack shows the collective."""
    _sums(rank, 1)
    rank.phase("a sum that somebody wrapped")
    _wrapped(rank, lambda: _sum(rank, 1031))
    return {}


def _wrapped(rank: Rank, action: Callable[[], None]) -> None:
    """Stand for a profiler's or a framework's own code around a call."""
    if rank.rank == _FAULTY:
        time.sleep(_FOR_EVER_S)
    action()


def stopped(rank: Rank) -> dict[str, Any]:
    """Be stopped by SIGSTOP, as by a debugger or a frozen container: no Python runs any more, and no phase tells it apart."""
    _sums(rank, 1)
    rank.phase("the last step")
    if rank.rank == _FAULTY:
        os.kill(os.getpid(), signal.SIGSTOP)
    _sum(rank, 1031)
    return {}


def raises(rank: Rank) -> dict[str, Any]:
    _sums(rank, 1)
    rank.phase("the step that raises")
    if rank.rank == _FAULTY:
        raise ValueError("this sample is broken on purpose")
    _sums(rank, 1)
    return {}


def too_few(rank: Rank) -> dict[str, Any]:
    _sums(rank, 2 if rank.rank == _FAULTY else 3)
    return {}


def shapes(rank: Rank) -> dict[str, Any]:
    """Bring one element more to a sum than the others."""
    rank.phase("a sum of mismatched shapes")
    _sum(rank, 1031 + rank.rank)
    return {}


def slow(rank: Rank) -> dict[str, Any]:
    for _ in range(_STEPS):
        time.sleep(0.02 + 0.1 * (rank.rank == _FAULTY))
        _sum(rank, 1031)
    return {}


def gives_up(rank: Rank) -> dict[str, Any]:
    """Wait in a sum that one rank never calls; return what ended the wait, and after how many seconds."""
    _sums(rank, 1)
    store = dist.distributed_c10d._get_default_store()
    rank.phase("a sum that rank 1 never calls")
    if rank.rank == _FAULTY:
        store.wait(["gave up"], timedelta(seconds=_FOR_EVER_S))
        return {}
    began = time.monotonic()
    try:
        # Seen with torch 2.11 over NCCL: a call that is not asynchronous leaves the waiting to the stream, which no timeout ends.
        dist.all_reduce(torch.ones(1031, device=rank.device.torch), async_op=True).wait()
        rank.device.synchronize()
        message = ""
    except RuntimeError as error:
        message = str(error).strip().splitlines()[0]
    seconds = time.monotonic() - began
    store.set("gave up", "")
    return {"message": message, "seconds": seconds}


def _sums(rank: Rank, count: int) -> None:
    """Sum so many times, each in a phase of its own."""
    for number in range(1, count + 1):
        rank.phase(f"sum {number}")
        _sum(rank, 1031)


def _sum(rank: Rank, elements: int) -> None:
    mine = torch.ones(elements, device=rank.device.torch)
    dist.all_reduce(mine)
    rank.device.synchronize()

"""What ranks do in the tests of the launcher; imported by the ranks themselves."""

from __future__ import annotations

import atexit
import functools
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from stackproof.ranks.joined import prove
from stackproof.ranks.rank import Rank


def report(rank: Rank) -> dict[str, Any]:
    print(f"rank {rank.rank} was here")
    return {
        "rank": rank.rank,
        "world_size": rank.world_size,
        "device": str(rank.device),
        "backend": rank.backend,
        "not numbers": [math.nan, -math.inf],
        **rank.arguments,
    }


def variables(rank: Rank) -> dict[str, Any]:
    return {name: os.environ.get(name) for name in rank.arguments["names"]}


def abort_at_exit(rank: Rank) -> dict[str, Any]:
    """Answer, and abort when Python shuts down, as gloo's threads sometimes do."""
    atexit.register(os.abort)
    return report(rank)


def _leave_quietly(rank: Rank, lost: int, leave: Callable[[int], Any] = os._exit) -> dict[str, Any]:
    """End one rank with exit code 0 before the program is done; the other exchanges until it notices."""
    rank.phase("adding numbers")
    for _ in range(3):
        dist.all_reduce(torch.ones(8))
    if rank.rank == lost:
        leave(0)
    while True:
        dist.all_reduce(torch.ones(8))


leave_quietly_0 = functools.partial(_leave_quietly, lost=0)
leave_quietly_1 = functools.partial(_leave_quietly, lost=1)
leave_by_sys_exit = functools.partial(_leave_quietly, lost=1, leave=sys.exit)


def skip_on_one(rank: Rank) -> dict[str, Any]:
    """Leave one sum of several out on rank 1: the next one meets it, bits of one dtype with those of another."""
    for number, dtype in enumerate((torch.float32, torch.float64, torch.int64)):
        if (rank.rank, number) != (1, 1):
            dist.all_reduce(torch.ones(8, dtype=dtype))
    return {}


def another_operator_once(rank: Rank) -> dict[str, Any]:
    """Call one of many sums as something else on rank 1; nothing dies of that, and the journals keep only the last calls."""
    for number in range(2200):
        differs = (rank.rank, number) == (1, 7)
        dist.all_reduce(torch.ones(8), op=dist.ReduceOp.MAX if differs else dist.ReduceOp.SUM)
    return {}


def other_buffers_on_one(rank: Rank) -> dict[str, Any]:
    """Wrap buffers of another size on rank 1: gloo ends without an error."""
    model = torch.nn.BatchNorm1d(4)
    model.register_buffer("seen", torch.zeros(3 + rank.rank))
    torch.nn.parallel.DistributedDataParallel(model)
    return {}


def crash_on_one(rank: Rank) -> dict[str, Any]:
    rank.phase("touching memory")
    if rank.rank == 1:
        print("last words", file=sys.stderr, flush=True)
        os.kill(os.getpid(), signal.SIGSEGV)
    time.sleep(60)
    return {}


def hang_on_one(rank: Rank) -> dict[str, Any]:
    """Hang on rank 1, with a child of its own; rank 0 gets further and waits for it in a collective."""
    rank.phase("first half")
    if rank.rank == 1:
        subprocess.Popen(["sleep", "600"])
        _wait_for_ever()
    rank.phase("second half")
    dist.barrier()
    return {}


def hang_at_the_end(rank: Rank) -> dict[str, Any]:
    """Hang on rank 1, of which rank 0, whose program has ended, needs no collective any more."""
    rank.phase("writing a checkpoint")
    if rank.rank == 1:
        _wait_for_ever()
    return {}


def sum_on_one(rank: Rank) -> dict[str, Any]:
    """Wait on rank 1 in a collective that rank 0 never calls."""
    dist.barrier()
    if rank.rank == 1:
        dist.all_reduce(torch.ones(8))
    return {}


def send_another_dtype(rank: Rank) -> dict[str, Any]:
    if rank.rank == 0:
        dist.send(torch.ones(8), 1)
    else:
        dist.recv(torch.ones(8, dtype=torch.int32), 0)
    return {}


def forget_a_message(rank: Rank) -> dict[str, Any]:
    """Wait for a message that rank 0, which went on to the barrier, never sends."""
    if rank.rank == 1:
        work = dist.irecv(torch.ones(8), 0)
        assert work is not None
        work.wait()
    dist.barrier()
    return {}


def prove_without_a_barrier(rank: Rank) -> dict[str, Any]:
    vars(dist)["barrier"] = lambda: None
    return prove(rank)


def delete_the_folder(rank: Rank) -> dict[str, Any]:
    dist.barrier()
    if rank.rank == 1:
        shutil.rmtree(rank.folder)
    dist.barrier()
    return {}


def wait_together(rank: Rank) -> dict[str, Any]:
    rank.phase("waiting")
    _wait_for_ever()
    return {}


def sum_for_ever(rank: Rank) -> dict[str, Any]:
    rank.phase("waiting")
    while True:
        dist.all_reduce(torch.ones(8))


def _wait_for_ever() -> None:
    time.sleep(600)

"""Counts the collectives that this rank enters, by group, in a file; `blame` compares the files of all ranks to explain a hang.

The count is torch's own sequence number of the group, which C++ callers such as DDP's reducer move too. oneCCL's `ccl` keeps none:
there the calls of torch.distributed's functions are counted instead.
"""

from __future__ import annotations

import contextlib
import functools
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch.distributed as dist
from torch.distributed import distributed_c10d

from stackproof.base.files import write_atomically
from stackproof.ranks.blame import Counts, counts_path

_EVERY_S = 0.2
_CALLS = "calls of torch.distributed"
_COUNTED = (
    *("all_reduce", "broadcast", "reduce", "all_gather", "all_gather_into_tensor", "reduce_scatter", "barrier"),
    *("reduce_scatter_tensor", "all_to_all", "all_to_all_single", "gather", "scatter"),
)


@contextlib.contextmanager
def counted(folder: Path, rank: int) -> Iterator[None]:
    """Keep the count of this rank in its file, from a thread, because the main thread may hang in a collective."""
    ended, count = threading.Event(), _sequences
    try:
        count()
    except (RuntimeError, AttributeError):  # the backend keeps none
        count = _wrapped()
    thread = threading.Thread(target=_follow, args=(folder, rank, count, ended), daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _follow(folder: Path, rank: int, count: Callable[[], Counts], ended: threading.Event) -> None:
    last: Counts = {}
    while True:
        over = ended.wait(_EVERY_S)
        with contextlib.suppress(RuntimeError, OSError):  # a group is formed or ended in this moment; a full disk
            if (now := count()) != last:
                write_atomically(counts_path(folder, rank), json.dumps(now), durably=False)
                last = now
        if over:
            return


def _sequences() -> Counts:
    groups: list[Any] = list(distributed_c10d._world.pg_map)
    return {str(group.group_name): int(group._get_sequence_number_for_group()) for group in groups}


def _wrapped() -> Callable[[], Counts]:
    counts = {_CALLS: 0}
    for name in _COUNTED:
        counted = _counting(getattr(dist, name), counts)
        for place in (dist, distributed_c10d):
            setattr(place, name, counted)
    return counts.copy


def _counting(function: Callable[..., Any], counts: Counts) -> Callable[..., Any]:
    @functools.wraps(function)
    def counting(*arguments: Any, **keywords: Any) -> Any:
        counts[_CALLS] += 1
        return function(*arguments, **keywords)

    return counting

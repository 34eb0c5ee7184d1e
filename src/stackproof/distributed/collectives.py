"""What every rank does to prove collectives exact: it tries each row, compares, and leaves the outcome.

The outcome of a row is on disk before the next begins, so that a rank that dies takes one row with it.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, TextIO

import torch.distributed as dist

from . import collectives_order as order
from .collectives_calls import COLLECTIVES
from .collectives_rows import BLOCKS, Row, cases
from .collectives_turn import Case, fault, play, prepare
from .rank import Rank

Groups = dict[tuple[tuple[int, ...], bool], Any]
Attempt = tuple[Case | None, Callable[[], order.Found]]

# Rows that are more than a call and a comparison.
_ORDER: dict[str, Callable[[Rank, Row], order.Found]] = {
    "barrier": order.barrier,
    "groups": order.groups,
    "late": order.late,
}


def check(rank: Rank) -> dict[str, Any]:
    """Try every row; each rank leaves its outcomes in `rankN.outcomes`, one JSON object a line.

    Arguments (of the specification): rows (names), counts, row_s (seconds that one row may take), outcomes (a folder).
    """
    groups: Groups = {(tuple(range(rank.world_size)), False): None}
    with (Path(rank.arguments["outcomes"]) / f"rank{rank.rank}.outcomes").open("a", encoding="utf-8") as stream:
        _leave(stream, {"row": "", "backend": rank.backend, "implementation": implementation(rank)})
        for name in rank.arguments["rows"]:
            rank.phase(name)
            with deadline(rank, name, rank.arguments["row_s"]):
                _leave(stream, {"row": name, **examine(rank, Row.of(name), groups)})
                agree(rank, name, rank.arguments["row_s"])
    return {"rank": rank.rank}


def _leave(stream: TextIO, outcome: dict[str, Any]) -> None:
    stream.write(json.dumps(outcome) + "\n")
    stream.flush()


def examine(rank: Rank, row: Row, groups: Groups) -> dict[str, Any]:
    """Return how many cases of a row were right, wrong and refused on this rank, with the first of the latter two."""
    outcome: dict[str, Any] = {"device": str(rank.device.torch), "right": 0, "wrong": 0, "refused": 0}
    outcome |= {"fault": None, "refusal": None, "sentence": "", "digest": ""}
    special = _ORDER.get(row.collective) or _ORDER.get(row.form)
    attempts: Iterable[Attempt] = [(None, partial(special, rank, row))] if special else _attempts(rank, row, groups)
    for case, attempt in attempts:
        try:
            found = attempt()
        except Exception as error:
            outcome["refused"] += 1
            outcome["refusal"] = outcome["refusal"] or {"case": case and asdict(case), "said": said(error)}
            continue
        wrong = bool(found.get("fault") or found.get("sentence"))
        outcome["wrong" if wrong else "right"] += 1
        _add(outcome, found)
    return outcome


def _add(outcome: dict[str, Any], found: order.Found) -> None:
    """Keep the first fault, the worst error, and the bits of every case."""
    outcome["digest"] += found.get("digest", "")
    if "bound" in found and found["error"] * outcome.get("bound", 0.0) >= outcome.get("error", 0.0) * found["bound"]:
        outcome |= {"error": found["error"], "bound": found["bound"]}
    outcome |= {key: found[key] for key in ("fault", "sentence", "blocks") if found.get(key) and not outcome.get(key)}


def _attempts(rank: Rank, row: Row, groups: Groups) -> Iterator[Attempt]:
    for case in cases(row, rank.world_size, tuple(rank.arguments["counts"])):
        key = case.peers, row.collective in BLOCKS  # what may be left half open gets a group of its own
        if key not in groups:  # every rank must create every group
            groups[key] = dist.new_group(list(case.peers))
        if case.data:
            yield case, partial(order.real, rank, case)
        elif rank.rank in case.peers:
            yield case, partial(compared, rank, case, groups[key])


def compared(rank: Rank, case: Case, group: Any) -> order.Found:
    """Return what is wrong with one call on this rank."""
    one = COLLECTIVES[case.collective]
    turn = prepare(case, one, case.peers.index(rank.rank), rank.device.torch, group)
    try:
        play(turn, one)
    except Exception:
        if case.collective in BLOCKS:
            close(rank, group)
        raise
    rank.device.synchronize()
    found = fault(turn, one)
    return {"fault": {"case": asdict(case), **found}} if found else {}


def close(rank: Rank, group: Any) -> None:
    """End the block of calls that a refusal left open, if one is.

    Until then torch only collects what is called on the group, and NCCL, whose blocks are the thread's, does nothing on any group.
    """
    group = group or dist.group.WORLD
    open_blocks: dict[Any, Any] = dist.distributed_c10d._world.pg_coalesce_state
    if open_blocks.pop(group, None) is not None:
        with contextlib.suppress(RuntimeError):
            group._end_coalescing(rank.device.torch)


def said(error: Exception) -> str:
    """Return an exception in one line; a C++ trace behind it is left out."""
    line = next((line.strip() for line in str(error).splitlines() if line.strip()), "no message")
    return f"{type(error).__name__}: {line}"[:300]


def implementation(rank: Rank) -> str:
    """Return the class that serves the rank's device: a name that was asked for may hide another backend."""
    group: Any = dist.group.WORLD
    backend = group._get_backend(rank.device.torch)
    return type(getattr(backend, "wrapped_pg", backend)).__name__  # TORCH_DISTRIBUTED_DEBUG=DETAIL wraps it


def agree(rank: Rank, name: str, seconds: float) -> None:
    """Wait for all ranks without the backend, so that no rank begins a row while another is still in the one before."""
    store = dist.distributed_c10d._get_default_store()
    store.set(f"collectives/{name}/{rank.rank}", "done")
    store.wait([f"collectives/{name}/{peer}" for peer in range(rank.world_size)], timedelta(seconds=2 * seconds))


@contextlib.contextmanager
def deadline(rank: Rank, name: str, seconds: float) -> Iterator[None]:
    """End this process if the block takes longer, and leave `rankN.expired` with the row's name: a hang costs one row, not the run."""

    def expire() -> None:
        (Path(rank.arguments["outcomes"]) / f"rank{rank.rank}.expired").write_text(name, encoding="utf-8")
        print(f"{name} did not end within {seconds:.0f} s", file=sys.stderr, flush=True)  # noqa: T201 - the rank's own log
        os._exit(1)

    timer = threading.Timer(seconds, expire)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()

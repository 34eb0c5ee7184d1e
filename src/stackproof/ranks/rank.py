"""One rank: it joins the group, counts the collectives that it enters, runs the program, and leaves; and what is exact about ranks.

`blame` compares the counts of all ranks to explain a hang. The count is torch's own sequence number of the group, which C++ callers such
as DDP's reducer move too. oneCCL's `ccl` keeps none: there the calls of torch.distributed's functions are counted instead.
"""

from __future__ import annotations

import contextlib
import faulthandler
import functools
import gc
import hashlib
import importlib
import json
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import Store
from torch.distributed import distributed_c10d

from stackproof.base.files import write_atomically
from stackproof.base.places import mount_suites
from stackproof.device.kinds import Device
from stackproof.ranks import libraries
from stackproof.ranks.blame import FORMED, LEAVING, Counts, counts_path
from stackproof.ranks.launchers import Placement, Spec
from stackproof.stack import stacks

# The launcher's deadline comes first: a peer that gave up waiting would be blamed for the rank that hangs.
AFTER_DEADLINE_S = 60.0
_PARTING_S = 5.0
_FAREWELL_S = 20.0


@dataclass(frozen=True)
class Rank:
    """What a program knows of its rank."""

    rank: int
    world_size: int
    device: Device
    backend: str
    formed_s: float
    arguments: dict[str, Any]
    folder: Path
    silence_s: float = 0.0
    """How long it may be silent before its stacks are dumped; 0: until the launch's own deadline."""

    def phase(self, name: str) -> None:
        """Note how far this rank got; a hang is blamed on the rank that got least far."""
        note_phase(self.folder, self.rank, name)
        if self.silence_s:
            faulthandler.dump_traceback_later(self.silence_s)


@dataclass(frozen=True)
class Board:
    """Notes between the ranks of one row, in the group's store: they pass without the backend."""

    row: str

    @property
    def _store(self) -> Any:
        return distributed_c10d._get_default_store()

    def put(self, note: str, text: str = "here") -> None:
        """Leave a note."""
        self._store.set(f"{self.row}/{note}", text)

    def has(self, *notes: str) -> bool:
        """Whether all the notes are there."""
        return bool(self._store.check([f"{self.row}/{note}" for note in notes]))

    def text(self, note: str) -> str:
        """Wait for a note and return its text."""
        return str(self._store.get(f"{self.row}/{note}").decode())

    def wait(self, *notes: str, seconds: float) -> bool:
        """Wait for all the notes; whether they came."""
        with contextlib.suppress(dist.DistStoreError, RuntimeError):
            self._store.wait([f"{self.row}/{note}" for note in notes], timedelta(seconds=seconds))
            return True
        return False

    def gather(self, rank: Rank, text: str, seconds: float) -> list[str]:
        """Leave how this rank ended the row, wait for all ranks, and return how each did; nothing where one does not come."""
        self.put(f"end {rank.rank}", text)
        ends = [f"end {other}" for other in range(rank.world_size)]
        return [self.text(end) for end in ends] if self.wait(*ends, seconds=seconds) else []


def note_phase(folder: Path, rank: int, name: str) -> None:
    """Append a phase to the rank's own file."""
    with (folder / f"rank{rank}.phases").open("a", encoding="utf-8") as stream:
        stream.write(f"{name}\n")


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


def take_part(spec: Spec, place: Placement, run: Callable[[], dict[str, Any]]) -> None:
    """Run the rank with its stacks dumped at the deadline; leave its result, or what it raised, in the folder."""
    faulthandler.enable()
    faulthandler.dump_traceback_later(spec.remaining_s)
    for name, value in spec.environment.items():
        os.environ[name] = value.replace("{file}", str(spec.folder / f"library.rank{place.rank}.log"))
    try:
        result = run()
    except Exception as error:
        text = str(error).strip() or "no message"
        (spec.folder / f"rank{place.rank}.error").write_text(f"{type(error).__name__}: {text}"[:8000], encoding="utf-8")
        raise
    write_atomically(spec.folder / f"rank{place.rank}.json", json.dumps(result))


def join(spec: Spec, place: Placement, device: Device, store: Store) -> dict[str, Any]:
    """Form the group over the store, run the program, leave the group, and return what the program gave."""
    folder = spec.folder
    note_phase(folder, place.rank, "forming the group")
    began = time.perf_counter()
    patience = timedelta(seconds=spec.patience_s or max(spec.remaining_s, spec.within_s) + AFTER_DEADLINE_S)
    dist.init_process_group(
        spec.backend,
        store=store,
        rank=place.rank,
        world_size=place.world_size,
        timeout=patience,
        **(device.group_options() if libraries.serving(spec.backend).device_id else {}),
    )
    dist.barrier()  # ccl and nccl start at the first collective; that is where configuration errors surface
    formed_s = time.perf_counter() - began
    context = Rank(
        place.rank, place.world_size, device, str(dist.get_backend()), formed_s, spec.arguments, folder, spec.within_s
    )
    context.phase(FORMED)
    module, _, function = spec.program.partition(":")
    mount_suites()
    program = getattr(importlib.import_module(module), function)
    with counted(folder, place.rank):
        result: dict[str, Any] = program(context)
    context.phase(LEAVING)
    # A rank that ends while another still receives breaks its connection: wait a moment for the others to come as far. The group
    # is not destroyed: the process ends at once after this, and torch 2.4.1 was seen to hang for ever in the destructor of gloo's groups.
    with contextlib.suppress(RuntimeError):
        store.set(f"parting/{place.rank}", "")
        store.wait([f"parting/{rank}" for rank in range(place.world_size)], timedelta(seconds=_PARTING_S))
    return result


def import_packages(spec: Spec, rank: int) -> stacks.Stack:
    """Import the stack's packages in their order, and return the stack."""
    note_phase(spec.folder, rank, "importing")
    stack = stacks.load(spec.stack)
    stack = stack.rehearse() if spec.rehearsed else stack
    for name in stack.imports:
        importlib.import_module(name)
    return stack


def end(run: Callable[[], int]) -> None:
    """Run a rank and end at once, without Python's own shutdown: the evidence, or the error, is on disk by then.

    torch 2.8 and later keep the group alive after it was destroyed; its threads then race with the shutdown, and gloo sometimes aborts.
    https://github.com/pytorch/pytorch/pull/179291
    """
    try:
        status = run()
    except BaseException:
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    if status == 0 and dist.is_initialized() and libraries.finalises(str(dist.get_backend())):
        # The group is destroyed and Python shuts down, so that the library takes its leave; one that hangs there is ended all the same.
        last = threading.Timer(_FAREWELL_S, os._exit, [0])
        last.daemon = True
        last.start()
        # oneCCL aborts where a subgroup that was used outlives the world's.
        subgroups: list[Any] = [group for group in distributed_c10d._world.pg_map if group is not dist.group.WORLD]
        while subgroups:
            dist.destroy_process_group(subgroups.pop())
        gc.collect()
        dist.destroy_process_group()
        sys.exit(0)
    os._exit(status)


# Whole numbers below this stay exact in float32 when a few thousand ranks are summed; a prime, so that chunks never align.
_PERIOD = 1031


def known(rank: int, elements: int = _PERIOD) -> torch.Tensor:
    """Return the whole numbers that a rank has, on the CPU in float32; they differ by rank and place."""
    return torch.arange(elements, dtype=torch.float32) % _PERIOD + 7 * rank


def require_exact(rank: Rank, elements: int = _PERIOD, group: Any = None) -> None:
    """All-reduce known whole numbers and compare with the sum computed on the host.

    Raises:
        RuntimeError: a number is wrong.
    """
    rank.phase(f"all-reduce of {elements} known numbers")
    mine = known(rank.rank, elements).to(rank.device.torch)
    dist.all_reduce(mine, group=group)
    expected = known(0, elements) * rank.world_size + 7 * sum(range(rank.world_size))
    if not torch.equal(mine.cpu(), expected):
        over = "" if group is None else " over the second group"
        raise RuntimeError(f"an all-reduce of known whole numbers is wrong{over}")


def mean_loss(rank: Rank, loss: torch.Tensor) -> float:
    """Return the loss of the global batch: the mean over equal shards."""
    total = loss.detach().clone()
    dist.all_reduce(total)
    return float(total) / rank.world_size


def digest(tensors: Mapping[str, torch.Tensor]) -> str:
    """Return one hash of all tensors' names and bits; ranks that drifted by one ulp differ."""
    found = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        found.update(name.encode())
        found.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return found.hexdigest()


def timed(rank: Rank, action: Callable[[], object], calls: int = 1) -> float:
    """Return this rank's seconds for so many calls back to back, which all ranks begin together.

    The barrier's own work is waited for before the clock starts, so that no call pays for it.
    """
    dist.barrier()
    rank.device.synchronize()
    watch = rank.device.stopwatch()
    watch.start()
    for _ in range(calls):
        action()
    watch.stop()
    return watch.seconds()

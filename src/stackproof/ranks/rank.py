"""One rank: it joins the group, keeps a journal of its collectives, runs the program, and leaves; and what is exact about ranks.

`blame` compares the journals of all ranks. torch's flight recorder has as much for some backends and versions; this is all backends'.
"""

from __future__ import annotations

import contextlib
import faulthandler
import functools
import gc
import hashlib
import importlib
import json
import mmap
import os
import re
import sys
import threading
import time
import traceback
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import ProcessGroup, ReduceOp, Store
from torch.distributed import distributed_c10d

from stackproof.base.files import write_atomically
from stackproof.base.places import mount_suites
from stackproof.device.kinds import Device
from stackproof.ranks import libraries
from stackproof.ranks.blame import (
    ANY,
    FORMED,
    LEAVING,
    NEW_GROUPS,
    SLOT,
    SLOTS,
    TO_ONE,
    WORLD,
    digests_path,
    journal_path,
    named,
)
from stackproof.ranks.launchers import SHOW_STACKS, Placement, Spec

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
        self._store.set(f"{self.row}/{note}", text)

    def has(self, *notes: str) -> bool:
        return bool(self._store.check([f"{self.row}/{note}" for note in notes]))

    def text(self, note: str) -> str:
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
    with (folder / f"rank{rank}.phases").open("a", encoding="utf-8") as stream:
        stream.write(f"{name}\n")


_TO_ONE, _POLLS = ("send", "recv", "recv_any_source"), ("check", "is_completed")
_WAITS = ("get", "wait", *_POLLS)
_C10D, _WRAPPERS = "distributed_c10d.py", ("c10d_logger.py", "contextlib.py", __file__)
_TORCH = str(Path(torch.__file__).parent)
# Every collective goes through an operator of c10d: Python's functions, DDP's reducer in C++, DTensor, FSDP. All calls pass this key
# on their way to the backend, also in inference mode and in the threads of autograd.
_KEY = torch._C.DispatchKey.BackendSelect
_BELOW = torch._C._dispatch_keyset_full_after(_KEY)
_NAMES = {
    "alltoall_base": "all_to_all_single",
    "allgather_base": "all_gather_into_tensor",
    "reduce_scatter_base": "reduce_scatter_tensor",
    "alltoall": "all_to_all",
    "allgather": "all_gather",
    "allreduce": "all_reduce",
}


class _Journal:
    """The last calls of this rank, in a file that is mapped into memory: what was noted outlives a rank that is killed or stopped.

    A note takes as long as a small collective does, so blocks of timed calls are noted as one (`unnoted`).
    """

    current: _Journal | None = None
    waits = False
    """Whether the last thing that this rank asked of torch.distributed was to wait for others, in vain so far."""

    def __init__(self, path: Path) -> None:
        with path.open("wb+") as file:
            os.posix_fallocate(file.fileno(), 0, SLOTS * SLOT)  # a disk that fills up later ends no rank
            self._memory = mmap.mmap(file.fileno(), SLOTS * SLOT)
        self._at, self._numbers, self._groups = 0, dict[str, int](), dict[Any, tuple[str, str]]()
        self._digests, self._members = dict[str, int](), dict[str, str]()
        self._began, self.flush = time.monotonic(), self._memory.flush
        names = [name for name in torch._C._dispatch_get_all_op_names() if re.fullmatch(r"c10d::\w+", name)]
        operators = [getattr(torch.ops.c10d, name.partition("::")[2]).default for name in names]
        self._kernels = [(call, _kernel(self, call)) for call in operators if "ProcessGroup" in str(call._schema)]
        self._library: Any = None
        waits = ((owner, name) for owner in (Store, dist.Work) for name in _WAITS if name in vars(owner))
        places: list[tuple[Any, str]] = [(distributed_c10d, "_new_group_with_tag"), *waits]
        self._places = [
            (owner, name, vars(owner)[name], _noting(self, name, getattr(owner, name))) for owner, name in places
        ]

    def switch(self, on: bool) -> None:
        for owner, name, original, noting in self._places:
            setattr(owner, name, noting if on else original)
        if self._library:
            self._library._destroy()
        self._library = torch.library.Library("c10d", "IMPL") if on else None  # type: ignore[no-untyped-call]
        for operator, kernel in self._kernels if on else ():
            self._library.impl(operator, kernel, _KEY.name, with_keyset=True)

    def note(self, stream: str, members: str, words: str, name: str = "") -> None:
        """Note a call; the name of torch.distributed's own function that was called goes before `name`."""
        _Journal.waits = False
        frame, at, seconds = sys._getframe(1), self._at, time.monotonic() - self._began
        self._at += 1  # at once: autograd's threads note, too
        while (whose := _whose(frame.f_code.co_filename)) and frame.f_back:
            name = frame.f_code.co_name if whose == _C10D else name
            frame = frame.f_back
        line = "autograd's thread" if whose else _line(frame.f_code, frame.f_lineno)
        number = self._numbers[stream] = self._numbers.get(stream, 0) + 1
        alike = words if stream.startswith(TO_ONE) else f"{name} {words}"
        self._digests[stream] = zlib.crc32(f"{alike}\n".encode(), self._digests.get(stream, 0))
        self._members[stream] = members
        text = f"{at}\t{seconds:.4f}\t{stream}\t{number}\t{name} {words}\t{line}\t{members}"
        start = at % SLOTS * SLOT
        self._memory[start : start + SLOT] = text.encode()[: SLOT - 1].ljust(SLOT - 1) + b"\n"

    def digests(self) -> dict[str, tuple[int, int, list[int]]]:
        """Return by stream how many calls there were, a digest of all, also of those that are no longer kept, and its ranks."""
        members = {stream: [int(rank) for rank in ranks.split(", ") if rank] for stream, ranks in self._members.items()}
        return {stream: (number, self._digests[stream], members[stream]) for stream, number in self._numbers.items()}

    def group(self, group: Any) -> tuple[str, str]:
        """Return what a group is called on all its ranks, and its members where they are not all."""
        if group not in self._groups:
            members = ", ".join(map(str, dist.get_process_group_ranks(group)))
            world = group is dist.group.WORLD
            self._groups[group] = (WORLD, "") if world else (f"group {group.group_name} of ranks {members}", members)
        return self._groups[group]


@functools.cache
def _whose(path: str) -> str:
    """Return nothing where a file is neither torch's nor ours."""
    return _C10D if path.endswith(_C10D) else "torch" if path.startswith(_TORCH) or path.endswith(_WRAPPERS) else ""


@functools.lru_cache(4096)
def _line(code: Any, number: int) -> str:
    return f"{Path(code.co_filename).name}:{number}"


@contextlib.contextmanager
def journaled(path: Path) -> Iterator[None]:
    """Note each collective of this rank and each new group."""
    journal = _Journal.current = _Journal(path)
    journal.switch(True)
    try:
        yield
        write_atomically(digests_path(path), json.dumps(journal.digests()))
    finally:
        journal.flush()  # on a disk of several hosts
        journal.switch(False)
        _Journal.current = None


@contextlib.contextmanager
def unnoted(calls: str) -> Iterator[None]:
    """Note what is called in a block that is timed as one call."""
    journal = _Journal.current
    if not journal:
        yield
        return
    journal.note(*journal.group(dist.group.WORLD), calls, "timed")
    journal.switch(False)
    try:
        yield
    finally:
        journal.switch(True)


def _noting(journal: _Journal, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def journal_notes(*arguments: Any, **named: Any) -> Any:
        try:
            if name not in _WAITS:  # no call of a group; its stack says that the rank waits
                ranks = str(list((arguments[0] if arguments else named.get("ranks")) or range(dist.get_world_size())))
                alone = ranks[1:-1] if named.get("use_local_synchronization") else ""  # else all ranks call it
                journal.note(f"{NEW_GROUPS} of {alone}" if alone else NEW_GROUPS, alone, f"of ranks {ranks}")
        except Exception:  # what is noted must not end a program
            journal.note("what could not be noted", "", name)
        _Journal.waits = name in _WAITS
        result = function(*arguments, **named)
        _Journal.waits = name in _POLLS and not result
        return result

    return journal_notes


def _kernel(journal: _Journal, operator: Any) -> Callable[..., Any]:
    """Return a kernel that notes a call of one of c10d's operators and hands it on."""
    name = operator._schema.name.partition("::")[2].strip("_")
    name = functools.reduce(lambda name, short: name.replace(short, _NAMES[short]), _NAMES, name)
    parameters = [parameter.name for parameter in operator._schema.arguments]
    hand_on = operator._handle.redispatch_boxed

    def journal_notes(keys: Any, *arguments: Any, **named: Any) -> Any:
        try:
            passed = dict(zip(parameters, arguments, strict=False)) | named
            group = ProcessGroup.unbox(passed.pop("process_group"))
            if name in _TO_ONE:
                journal.note(*_message(group, *passed.values(), sends=name == "send"), name)
            else:
                journal.note(*journal.group(group), _passed(name, passed), name)
        except Exception:  # what is noted must not end a program
            journal.note("what could not be noted", "", name)
        return hand_on(keys & _BELOW, *arguments, **named)

    return journal_notes


def _message(group: Any, tensors: Sequence[torch.Tensor], *rest: int, sends: bool) -> tuple[str, str, str]:
    """Return the stream of a message, the two ranks, and what both must give alike: how many numbers of which dtype."""
    ranks = dist.get_process_group_ranks(group)
    mine, *peer = (ranks[place] for place in (group.rank(), *rest[:-1]))
    source, to = (str(rank) for rank in ((mine, *peer) if sends else ((peer or [ANY])[0], mine)))
    over = "" if group is dist.group.WORLD else f" in group {group.group_name}"
    stream = f"{TO_ONE} {'' if source == ANY else 'rank '}{source} to rank {to}{over}{f', tag {rest[-1]}' if rest[-1] else ''}"
    words = _words(tuple((tensor.numel(),) for tensor in tensors), tuple(tensor.dtype for tensor in tensors))
    return stream, ", ".join(sorted({source, to} - {ANY})), words


def _passed(name: str, passed: Mapping[str, Any]) -> str:
    """Say what all ranks of a collective must pass in alike: sizes (not those of all-to-all, which may differ), dtype, operator, root."""
    tensors = list[torch.Tensor]()
    for value in passed.values() if "barrier" not in name else ():
        tensors = [value] if isinstance(value, torch.Tensor) else value
        if isinstance(tensors, list) and tensors and isinstance(tensors[0], torch.Tensor):
            break
    else:
        tensors = []
    operator = _operator(passed["reduce_op"]) if "reduce_op" in passed else None
    shapes = () if "all_to_all" in name else tuple(tensor.shape for tensor in tensors)
    return _words(shapes, tuple(tensor.dtype for tensor in tensors), operator, passed.get("root_rank"))


def _operator(boxed: Any) -> Any:
    if hasattr(ReduceOp, "unbox"):
        return ReduceOp.unbox(boxed).op
    frame = sys._getframe(3)  # before torch 2.7 only what Python's function was given tells
    given = frame.f_locals.get("op") if _whose(frame.f_code.co_filename) == _C10D else None
    return getattr(given, "op", given)


@functools.lru_cache(4096)
def _words(
    shapes: tuple[Any, ...], dtypes: tuple[torch.dtype, ...], operator: Any = None, root: int | None = None
) -> str:
    sizes = ["x".join(map(str, shape)) or "1" for shape in shapes] or [""] * len(dtypes)
    words = [f"{size} {dtype}".replace("torch.", "").strip() for size, dtype in zip(sizes, dtypes, strict=True)]
    words += [str(operator).rpartition(".")[2]] if operator is not None else []
    words += [f"root {root}"] if root is not None else []
    return f"of {', '.join(words)}" if words else ""


def take_part(spec: Spec, place: Placement, run: Callable[[], dict[str, Any]]) -> None:
    """Run the rank with its stacks dumped at the deadline; leave its result, or what it raised, in the folder."""
    faulthandler.enable()
    faulthandler.register(SHOW_STACKS)
    faulthandler.dump_traceback_later(spec.remaining_s)
    for name, value in spec.environment.items():
        os.environ[name] = value.replace("{file}", str(spec.folder / f"library.rank{place.rank}.log"))
    try:
        result = run()
    except Exception as error:
        text = str(error).strip() or "no message"
        waited = "\nwhile it waited for other ranks" if _Journal.waits else ""
        words = f"{type(error).__name__}: {text}"[:8000] + waited
        (spec.folder / f"rank{place.rank}.error").write_text(words, encoding="utf-8", errors="backslashreplace")
        raise
    write_atomically(spec.folder / f"rank{place.rank}.json", json.dumps({} if result is None else result))


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
    # At once: the ranks leave the barrier together, which sets their clocks.
    with journaled(journal_path(folder, place.rank)):
        context.phase(FORMED)
        module, _, function = spec.program.partition(":")
        mount_suites()
        result: dict[str, Any] = getattr(importlib.import_module(module), function)(context)
    context.phase(LEAVING)
    # A rank that ends while another still receives breaks its connection: wait a moment for the others to come as far. The group
    # is not destroyed: the process ends at once after this, and torch 2.4.1 was seen to hang for ever in the destructor of gloo's groups.
    with contextlib.suppress(RuntimeError):
        store.set(f"parting/{place.rank}", "")
        store.wait([f"parting/{rank}" for rank in range(place.world_size)], timedelta(seconds=_PARTING_S))
    return result


def end(run: Callable[[], int]) -> None:
    """Run a rank and end at once, without Python's own shutdown: the evidence, or the error, is on disk by then.

    torch 2.8 and later keep the group alive after it was destroyed; its threads then race with the shutdown, and gloo sometimes aborts.
    https://github.com/pytorch/pytorch/pull/179291
    """
    left = False  # by sys.exit, whose code is the rank's; there is no result even where it is 0
    try:
        status = run()
    except BaseException as error:
        traceback.print_exc()
        code = (error.code or 0) if isinstance(error, SystemExit) else 1
        status, left = code if isinstance(code, int) else 1, True
    sys.stdout.flush()
    sys.stderr.flush()
    if status == 0 and not left and dist.is_initialized() and libraries.finalises(str(dist.get_backend())):
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
    got, expected = mine.cpu(), known(0, elements) * rank.world_size + 7 * sum(range(rank.world_size))
    over = "" if group is None else " over the second group"
    board, end = Board(f"{elements} known numbers{over}"), "right" if torch.equal(got, expected) else digest({"": got})
    board.put(f"end {rank.rank}", end)
    if end == "right":
        return
    ends = board.gather(rank, end, _PARTING_S)
    where = "the others differ too"
    if {*ends} == {end}:
        where = "all ranks got the same, so it was altered before it was summed"
    elif right := [other for other, one in enumerate(ends) if one == "right"]:
        first = next(other for other, one in enumerate(ends) if one != "right" and ends[other - 1] == "right")
        where = f"{named(right)} got it right; in a ring it was altered between rank {(first - 1) % len(ends)} and rank {first}"
    wrong = (got != expected).nonzero().flatten()
    raise RuntimeError(
        f"an all-reduce of known whole numbers is wrong{over}: {len(wrong)} of {elements}, first number {int(wrong[0])}, "
        f"{float(got[wrong[0]]):.9g} instead of {float(expected[wrong[0]]):.9g}; {where}"
    )


def mean_loss(rank: Rank, loss: torch.Tensor) -> float:
    """Return the loss of the global batch: the mean over equal shards."""
    total = loss.detach().clone()
    dist.all_reduce(total)
    return float(total) / rank.world_size


def digest(tensors: Mapping[str, torch.Tensor]) -> str:
    """Return one hash of all tensors' names and bits; ranks that drifted by one ulp differ."""
    hasher = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        hasher.update(name.encode())
        hasher.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return hasher.hexdigest()


def timed(rank: Rank, action: Callable[[], object]) -> float:
    """Return this rank's seconds for an action that all ranks begin together.

    The barrier's own work is waited for before the clock starts, so that no action pays for it.
    """
    dist.barrier()
    rank.device.synchronize()
    watch = rank.device.stopwatch()
    with unnoted("action"):
        watch.start()
        action()
        watch.stop()
    return watch.seconds()

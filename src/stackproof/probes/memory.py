"""Memory that is what it says: allocations that count, steps that leave nothing behind, over-commitment that is refused.

Sizes are bytes. On a card the allocator counts exactly; of a process on the CPU only the resident set can be seen, which the C library
rounds and keeps a little of, so that each comparison has a slack. A block that is taken beside torch's allocator is in none of its
counters; the driver, or the C library, has it all the same.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import resource
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

from stackproof.base.text import first_line
from stackproof.device.devices import HOST, visible
from stackproof.device.kinds import Device, kilobytes
from stackproof.probes import children
from stackproof.record.checks import CheckFailed, CheckInconclusive, require

KIB, MIB = 1 << 10, 1 << 20
_KNOWN = 1 << 30
_PIECES = 12
_PROBE = 64 * MIB
_PROBES = 5
_SLOWEST = 0.5
"""Full memory must be at least half as fast as empty memory; behind a PCIe link it is a tenth (docs/users-reports.md A5)."""
_SLOWEST_HOST = 0.05
"""The CPU's caches and neighbours move its rates by a lot; only a swapping host is slower than this."""

_REFUSALS = ("out of memory", "can't allocate memory", "not enough memory", "out_of_device_memory")

Taken = Callable[[int], torch.Tensor]


def known_size(free: int) -> int:
    """Return 1 GiB, as the first users tried (docs/users-reports.md A4), or a quarter of what is free, in whole 2 MiB."""
    return min(_KNOWN, free // 4 // (2 * MIB) * (2 * MIB))


def filled(device: Device) -> Taken:
    """Return a function that takes bytes on the device and writes to all of them, so that they are really there."""
    return lambda size: torch.ones(size, dtype=torch.uint8, device=device.torch)


def follow(device: Device, size: int, take: Taken, slack: int = 0) -> dict[str, int]:
    """Take a block and give it back; each counter must follow, to within `slack`. Returns what was counted."""
    device.empty_cache()
    device.reset_peak()
    before = device.memory()
    block = take(size)
    device.synchronize()
    during = device.memory()
    appeared, peak = during.allocated - before.allocated, during.peak - before.allocated
    near = size - slack <= appeared <= size + slack
    require(near, f"{device}: a tensor of {size} bytes appeared in 'allocated' as {appeared}")
    most = sys.maxsize if slack else size  # the kernel may forbid resetting a process's peak: it is from earlier then
    require(size - slack <= peak <= most, f"{device}: a tensor of {size} bytes moved the peak by {peak}")
    del block
    device.empty_cache()
    after = device.memory()
    left = after.allocated - before.allocated
    require(left <= slack, f"{device}: {left} bytes of {size} are still allocated after the tensor was released")
    require(after.peak - before.allocated >= size - slack, f"{device}: the peak forgot a tensor of {size} bytes")
    fell = before.free - during.free
    return {"bytes": size, "appeared": appeared, "peak": peak, "free fell by": fell, "left": left}


def follow_free(device: Device, size: int, take: Taken, slack: int) -> int:
    """The driver's free memory falls by a block and rises again when it is given back; returns by how much it fell."""
    device.empty_cache()
    before = device.memory().free
    block = take(size)
    device.synchronize()
    fell = before - device.memory().free
    near = size - slack <= fell <= size + slack
    require(near, f"{device}: a tensor of {size} bytes lowered the driver's free memory by {fell}")
    del block
    device.empty_cache()
    kept = before - device.memory().free
    require(kept <= slack, f"{device}: the driver still misses {kept} of {size} bytes after they were released")
    return fell


def idle(device: Device, imports: tuple[str, ...], seconds: float) -> dict[str, int]:
    """A process that has taken nothing must have nothing allocated, and then exactly what it took; returns what it counted.

    A counter that is off by a constant shows in no difference of two readings, only here.
    """
    words, what = (device.kind, str(device.index), *imports), f"{device}: a process that takes {MIB} bytes"
    counts: dict[str, int] = children.ask(f"{__name__}:report_idle", *words, what=what, seconds=seconds)
    require(counts["idle"] == 0, f"{device}: a process that has taken nothing has {counts['idle']} bytes allocated")
    require(counts["taken"] == MIB, f"{device}: a process that has taken {MIB} bytes has {counts['taken']} allocated")
    return counts


def report_idle() -> None:
    """Be the child: say what is allocated before and after a block is taken."""
    kind, index, *imports = sys.argv[1:]
    for name in imports:
        __import__(name)
    device = visible(kind)[int(index)]
    before = device.memory().allocated
    block = filled(device)(MIB)
    device.synchronize()
    print(json.dumps({"idle": before, "taken": device.memory().allocated, "bytes": block.nbytes}))  # noqa: T201


@dataclass(frozen=True)
class Overcommitment:
    """How asking for too much ended: what was free and granted, and the rate of the first block in GB/s at three times."""

    free: int
    granted: int
    words: str
    before: float
    full: float
    after: float


def overcommit(
    device: Device, free: int, take: Taken, rate: Callable[[torch.Tensor], float], slowest: float = _SLOWEST
) -> Overcommitment:
    """Ask for 1.2 x `free` in one block and in pieces; both must be refused, and what is held must stay fast.

    A driver that evicts to the host's memory grants everything and gets slow instead: that fails, with the rates.
    """
    require(_refusal(take, int(free * 1.2)) is not None, f"{device}: one block of 1.2 x the free memory was granted")
    first = take(min(_PROBE, free // _PIECES))
    before = rate(first)
    blocks, words = [first], None
    while words is None and len(blocks) <= _PIECES:
        words = _refusal(lambda size: blocks.append(take(size)), free * 12 // 10 // _PIECES)
    full, granted = min(rate(first), rate(blocks[-1])), sum(block.nbytes for block in blocks)
    del blocks[1:]
    device.empty_cache()
    after = rate(first)
    rates = f"{before:.1f} GB/s before, {full:.1f} when full, {after:.1f} after"
    require(
        words is not None, f"{device}: {granted} bytes were granted where {free} were free, without an error: {rates}"
    )
    require(min(full, after) >= slowest * before, f"{device}: memory spilled in silence: {rates}")
    return Overcommitment(free, granted, words or "", before, full, after)


def _refusal(take: Callable[[int], object], size: int) -> str | None:
    """Return the first line of the out-of-memory error, or None where the block was granted (and is given back)."""
    try:
        take(size)
    except RuntimeError as error:  # OutOfMemoryError is one; the CPU's allocator raises no class of its own
        if not any(word in str(error).lower() for word in _REFUSALS):
            raise
        return first_line(error, 200)
    return None


def rate(device: Device) -> Callable[[torch.Tensor], float]:
    """Return a probe: the best of five rates, in GB/s, at which a block's bytes are changed in place (read and written)."""

    def probe(block: torch.Tensor) -> float:
        part, spent = block[:_PROBE], list[float]()
        for _ in range(_PROBES):
            device.synchronize()
            began = time.perf_counter()
            part.bitwise_xor_(1)
            device.synchronize()
            spent.append(time.perf_counter() - began)
        return 2 * part.nbytes / max(min(spent), 1e-9) / 1e9

    return probe


def still_usable(device: Device) -> None:
    """After the error a product of known whole numbers must still be right."""
    numbers = torch.arange(64, dtype=torch.float32, device=device.torch)
    value = float((numbers.reshape(1, 64) @ numbers.reshape(64, 1)).item())
    require(value == sum(n * n for n in range(64)), f"{device}: after the error a known product gave {value}")


_LIMIT = 768 * MIB


def overcommit_host(seconds: float) -> Overcommitment:
    """Over-commit the CPU's memory in a process of its own, whose address space is limited: no host is harmed.

    Linux grants what it does not have until it is written to, so only a limit (setrlimit(2), RLIMIT_AS) can refuse.
    """
    answer = children.ask(f"{__name__}:limited", what="the process that asked for too much memory", seconds=seconds)
    require("failed" not in answer, answer.get("failed", ""))
    return Overcommitment(**answer)


def limited() -> None:
    """Be the child: limit the address space to a little more than there is, ask for too much, say what happened."""
    torch.set_num_threads(1)
    still_usable(HOST)  # everything that is loaded late is loaded now
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[0]
    here = int(pages) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (here + _LIMIT, here + _LIMIT))
    try:
        fields = vars(overcommit(HOST, _LIMIT, filled(HOST), rate(HOST), _SLOWEST_HOST))
        still_usable(HOST)
    except Exception as error:
        fields = {"failed": f"{error}"[:400]}
    print(json.dumps(fields), flush=True)  # noqa: T201
    os._exit(0)  # nothing is left to do that memory could fail


Counts = dict[str, int]
"""Bytes in use, by who counts them."""
Read = Callable[[], Counts]

ROUNDS = 3
"""What the C library or a driver takes once is no leak: a leak shows in each round, and the smallest growth counts."""
_REST_S = (0.05, 0.5)
WARM_UP = 4
MOST_STEPS, LEAST_STEPS, SECONDS = 200, 12, 1.0
"""Steps of a round: as many as a second holds, within these."""

OF_CARD = {"torch's allocator": 0, "its cache": 0, "the card's driver": 0}
"""What a round may leave, by counter: identical steps need not one byte more."""
_FILES = "the open files"
OF_PROCESS = {"the C library": 64 * KIB, "the resident set": 2 * MIB, "the address space": 2 * MIB, _FILES: 2}
"""The C library was seen to move by 5 KiB and less; the kernel counts pages, and Python takes memory by the MiB. Files are a number."""
_SHARED = ("the card's driver",)
"""Counters that others on the card move too."""


def of_card(device: Device) -> Counts:
    """Return what the device's allocator has handed out, what it holds, and what the driver says is taken by everybody."""
    gc.collect()
    device.synchronize()
    memory = device.memory()
    return dict(zip(OF_CARD, (memory.allocated, memory.reserved, memory.total - memory.free), strict=True))


def of_process() -> Counts:
    """Return what this process has: bytes in use of malloc (glibc 2.33 and later), resident and mapped ones, and open files (proc(5))."""
    gc.collect()
    status, heap = kilobytes("/proc/self/status"), _heap()
    files = sum(1 for _ in Path("/proc/self/fd").iterdir())
    counts = {"the resident set": status["VmRSS"], "the address space": status["VmSize"], _FILES: files}
    return counts if heap is None else {"the C library": heap, **counts}


class _Mallinfo2(ctypes.Structure):
    """`struct mallinfo2` (mallinfo(3)), over all arenas: ten sizes, of which hblkhd is mapped and uordblks handed out."""

    _fields_ = [("arena", ctypes.c_size_t * 4), ("hblkhd", ctypes.c_size_t), ("small", ctypes.c_size_t * 2),
                ("uordblks", ctypes.c_size_t), ("free", ctypes.c_size_t * 2)]  # fmt: skip


def _heap() -> int | None:
    """Return the bytes that malloc has handed out and mapped; None where the C library cannot tell."""
    read = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if read is None:
        return None
    read.restype = _Mallinfo2
    value = read()
    return int(value.uordblks) + int(value.hblkhd)


def most_steps(step: Callable[[], object], warm_up: int = WARM_UP) -> int:
    """Warm up, and return how many steps make a round."""
    spent = []
    for _ in range(warm_up):
        began = time.perf_counter()
        step()
        spent.append(time.perf_counter() - began)
    return max(LEAST_STEPS, min(MOST_STEPS, int(SECONDS / max(min(spent), 1e-6))))


def steady(
    what: str, read: Read, allowed: Mapping[str, int], step: Callable[[], object], steps: int, others: Callable[[], str]
) -> Counts:
    """Run rounds of steps, and return the least growth of each counter; one beyond what is allowed is a leak.

    Between rounds nothing is done for a while. What only grows while steps run was taken by them; what moves in the rest as well may be
    somebody else's, whom `others` names.

    Raises:
        CheckFailed: a counter grew in each of three rounds by more than is allowed.
        CheckInconclusive: so it did, and it moved while nothing ran, too.
    """
    growths, rests = list[Counts](), list[Counts]()
    while len(growths) < ROUNDS:
        before, began = read(), time.perf_counter()
        for _ in range(steps):
            step()
        after = read()
        time.sleep(min(_REST_S[1], max(_REST_S[0], time.perf_counter() - began)))
        rested = read()
        growths.append({name: after[name] - before[name] for name in before})
        rests.append({name: rested[name] - after[name] for name in before})
        least = {name: min(grown[name] for grown in growths) for name in before}
        bad = {name: grown for name, grown in least.items() if grown > allowed[name]}
        if not bad:
            return least
    each = {
        name: f"{grown / steps:.2g}" if name == _FILES else f"{grown / steps / KIB:.1f} KiB"
        for name, grown in bad.items()
    }
    text = ", ".join(f"{grown} by {name} ({each[name]} a step)" for name, grown in bad.items())
    left = "files open" if list(bad) == [_FILES] else "bytes behind"
    sentence = f"{what}: {steps} training steps left {left} in each of {ROUNDS} rounds: {text}"
    if all(name in _SHARED and any(moved[name] for moved in rests) for name in bad):
        raise CheckInconclusive(f"{sentence}; but it moved while nothing ran, too: {others()}")
    limits = ", ".join(f"{allowed[name]} by {name}" for name in bad)
    raise CheckFailed(f"{sentence}; {limits} allowed")

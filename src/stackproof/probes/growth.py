"""What steps leave behind, by everybody who counts: torch's allocator, the card's driver, the C library, the kernel.

A block that is taken beside torch's allocator is in none of its counters; the driver, or the C library, has it all the same.
"""

from __future__ import annotations

import ctypes
import gc
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from stackproof.device.kinds import Device
from stackproof.record.checks import CheckFailed, CheckInconclusive

Counts = dict[str, int]
"""Bytes in use, by who counts them."""
Read = Callable[[], Counts]

ROUNDS = 3
"""What the C library or a driver takes once is no leak: a leak shows in each round, and the smallest growth counts."""
_REST_S = (0.05, 0.5)
WARM_UP = 4
MOST_STEPS, LEAST_STEPS, SECONDS = 200, 12, 1.0
"""Steps of a round: as many as a second holds, within these."""
_KIB, _MIB = 1 << 10, 1 << 20

OF_CARD = {"torch's allocator": 0, "its cache": 0, "the card's driver": 0}
"""What a round may leave, by counter: identical steps need not one byte more."""
_FILES = "the open files"
OF_PROCESS = {"the C library": 64 * _KIB, "the resident set": 2 * _MIB, "the address space": 2 * _MIB, _FILES: 2}
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
    status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    kib = {name: int(value) * _KIB for name, value in re.findall(r"^(VmRSS|VmSize):\s+(\d+) kB$", status, re.M)}
    heap = _heap()
    files = sum(1 for _ in Path("/proc/self/fd").iterdir())
    found = {"the resident set": kib["VmRSS"], "the address space": kib["VmSize"], _FILES: files}
    return found if heap is None else {"the C library": heap, **found}


class _Mallinfo2(ctypes.Structure):
    """`struct mallinfo2` (mallinfo(3)), over all arenas."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")
    ]  # fmt: skip


def _heap() -> int | None:
    """Return the bytes that malloc has handed out and mapped; None where the C library cannot tell."""
    read = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if read is None:
        return None
    read.restype = _Mallinfo2
    found = read()
    return int(found.uordblks) + int(found.hblkhd)


def most_steps(step: Callable[[], object], warm_up: int = WARM_UP) -> int:
    """Warm up, and return how many steps make a round."""
    spent = []
    for _ in range(warm_up):
        began = time.perf_counter()
        step()
        spent.append(time.perf_counter() - began)
    return max(LEAST_STEPS, min(MOST_STEPS, int(SECONDS / max(min(spent), 1e-6))))


@dataclass(frozen=True)
class Round:
    """By how many bytes each counter grew over the steps of a round, and moved over a rest of the same kind."""

    grown: Counts
    moved: Counts


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
    rounds: list[Round] = []
    while len(rounds) < ROUNDS:
        rounds.append(_round(read, step, steps))
        least = {name: min(one.grown[name] for one in rounds) for name in rounds[0].grown}
        bad = {name: grown for name, grown in least.items() if grown > allowed[name]}
        if not bad:
            return least
    each = {
        name: f"{grown / steps:.2g}" if name == _FILES else f"{grown / steps / _KIB:.1f} KiB"
        for name, grown in bad.items()
    }
    told = ", ".join(f"{grown} by {name} ({each[name]} a step)" for name, grown in bad.items())
    left = "files open" if list(bad) == [_FILES] else "bytes behind"
    sentence = f"{what}: {steps} training steps left {left} in each of {ROUNDS} rounds: {told}"
    if all(name in _SHARED and any(one.moved[name] for one in rounds) for name in bad):
        raise CheckInconclusive(f"{sentence}; but it moved while nothing ran, too: {others()}")
    limits = ", ".join(f"{allowed[name]} by {name}" for name in bad)
    raise CheckFailed(f"{sentence}; {limits} allowed")


def _round(read: Read, step: Callable[[], object], steps: int) -> Round:
    before, began = read(), time.perf_counter()
    for _ in range(steps):
        step()
    after = read()
    least, most = _REST_S
    time.sleep(min(most, max(least, time.perf_counter() - began)))
    rested = read()
    return Round(
        {name: after[name] - before[name] for name in before}, {name: rested[name] - after[name] for name in before}
    )

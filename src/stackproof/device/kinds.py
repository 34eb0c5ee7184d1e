"""What can be done with a device, the host or any card that torch has a module for, and time in its own order of work.

Nothing needs `torch.accelerator` (2.6), which DCU's torch 2.4 lacks and which raises on CPU-only builds.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from stackproof.base.files import kernel_value
from stackproof.stack.stacks import TOOLKITS


class HostStopwatch:
    """Seconds between `start` and `stop` on a device, read after it has finished: work on the CPU is done when its call returns."""

    def start(self) -> None:
        """Mark the beginning in the device's own order of work."""
        self._begin = time.perf_counter()

    def stop(self) -> None:
        """Mark the end in the device's own order of work."""
        self._end = time.perf_counter()

    def seconds(self) -> float:
        """Wait for the end mark and return the seconds between the two."""
        return self._end - self._begin


class EventStopwatch(HostStopwatch):
    """Two timing events on one card; `event` makes one, `current` makes the card current for a block."""

    def __init__(self, event: Callable[..., Any], current: Callable[[], AbstractContextManager[None]]) -> None:
        self._current = current
        with current():
            self._events = [event(enable_timing=True) for _ in range(2)]

    def start(self) -> None:
        self._record(0)

    def stop(self) -> None:
        self._record(1)

    def seconds(self) -> float:
        """Wait for the second event; torch's events tell milliseconds."""
        self._events[1].synchronize()
        return float(self._events[0].elapsed_time(self._events[1])) / 1000

    def _record(self, which: int) -> None:
        with self._current():
            self._events[which].record()


@dataclass(frozen=True)
class Memory:
    """Memory of one device in bytes. On the CPU: resident set of this process, and the host's free and total."""

    allocated: int
    reserved: int
    peak: int
    free: int
    total: int


@dataclass(frozen=True)
class Device:
    """One device of a type that torch knows; by default as the CPU, whose memory is the process's and the machine's."""

    kind: str
    index: int

    shareable = True
    """Whether two ranks of the stack's own backend may share it, as any processes share a CPU's cores."""

    @property
    def modelled(self) -> bool:
        """Whether its time is a model's, by which a mark may take none."""
        return False

    @property
    def torch(self) -> torch.device:
        """The `torch.device`; the CPU has no index that means anything."""
        return torch.device(self.kind)

    def __str__(self) -> str:
        return self.kind

    def has(self, tensor: Tensor) -> bool:
        return tensor.device.type == self.kind and self.torch.index in (None, tensor.device.index)

    def name(self) -> str:
        """Return the vendor's name of the device; of a processor, the model's where the host tells it."""
        match = re.search(r"^model name\s*:\s*(.+)$", kernel_value(Path("/proc/cpuinfo")), re.MULTILINE)
        return match.group(1) if match else os.uname().machine

    def synchronize(self) -> None:
        """Wait until all work queued on the device is done."""

    def stopwatch(self) -> HostStopwatch:
        """Return a stopwatch in the device's own time."""
        return HostStopwatch()

    def memory(self) -> Memory:
        """Return the memory counters in bytes: of the CPU, the process's resident set and the host's memory."""
        status, host = kilobytes("/proc/self/status"), kilobytes("/proc/meminfo")
        resident = status.get("VmRSS", 0)
        return Memory(
            resident, resident, status.get("VmHWM", resident), host.get("MemAvailable", 0), host.get("MemTotal", 0)
        )

    def allocations(self) -> int | None:
        """Return how many blocks the device's allocator has handed out so far; None where nobody counts them."""
        return None

    def kernels(self, run: Callable[[], object]) -> int | None:  # noqa: ARG002 - the host runs none
        """Return how many kernels and copies one run starts on the device; None where the host itself computes."""
        return None

    def spin(self, seconds: float) -> float:
        """Keep the device busy for at most so long, and return for how many seconds."""
        until = time.perf_counter() + seconds
        while time.perf_counter() < until:
            pass
        return seconds

    def reset_peak(self) -> None:
        """Let the peak counter start again from what is allocated now; a process's where the kernel allows it (proc(5), clear_refs)."""
        with suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")

    def empty_cache(self) -> None:
        """Give cached memory back to the driver."""

    def driver(self) -> dict[str, str]:
        """Return the driver and toolkit versions that torch knows, under each of their names; the kernel drives a CPU."""
        return {"kernel": os.uname().release}

    def current(self) -> AbstractContextManager[None]:
        """Make this the current device inside the block and restore the previous one after it, also after an error."""
        return nullcontext()

    def bind(self) -> None:
        """Make this the current device for the rest of the process (a rank does this before its group forms)."""

    def bus_id(self) -> str:
        """Return what tells this device from all others of the host, such as its PCI address; empty where torch does not know."""
        return ""

    def seed(self, seed: int) -> None:
        torch.manual_seed(seed)

    def group_options(self) -> dict[str, Any]:
        """Return what `init_process_group` should know of the device: its id, unless the host's memory is the device."""
        return {}


class Host(Device):
    """The CPU, of which there is one."""


class Accelerator(Device):
    """An accelerator, through the module that torch keeps for its type (`torch.cuda`, `torch.xpu` ...)."""

    shareable = False

    @property
    def torch(self) -> torch.device:
        """Always with its index, so that nothing falls back to a current device."""
        return torch.device(self.kind, self.index)

    def __str__(self) -> str:
        return f"{self.kind}:{self.index}"

    @property
    def module(self) -> Any:
        """`torch.cuda`, `torch.xpu` or the module of a registered device type."""
        return torch.get_device_module(self.kind)

    @property
    def modelled(self) -> bool:
        return bool(getattr(self.module, "modelled", False))

    def name(self) -> str:
        return str(self.module.get_device_properties(self.index).name)

    def synchronize(self) -> None:
        with self.current():
            self.module.synchronize()

    def stopwatch(self) -> HostStopwatch:
        return EventStopwatch(self.module.Event, self.current)

    def memory(self) -> Memory:
        allocated, reserved = self.module.memory_allocated(self.index), self.module.memory_reserved(self.index)
        if hasattr(self.module, "mem_get_info"):  # torch.xpu has it from 2.6
            free, total = map(int, self.module.mem_get_info(self.index))
        else:
            total = int(self.module.get_device_properties(self.index).total_memory)
            free = total - reserved
        return Memory(allocated, reserved, self.module.max_memory_allocated(self.index), free, total)

    def allocations(self) -> int | None:
        """Return the allocator's own count; a module without statistics has none."""
        read = getattr(self.module, "memory_stats", None)
        value = (read(self.index) or {}).get("allocation.all.allocated") if read else None
        return None if value is None else int(value)

    def kernels(self, run: Callable[[], object]) -> int | None:
        """Return what the profiler saw on the card: kernels, copies and fills."""
        activities = torch.profiler.supported_activities()  # type: ignore[no-untyped-call]
        with torch.profiler.profile(activities=activities) as profiler:
            run()
            self.synchronize()
        return sum(not str(event.device_type()).endswith("CPU") for event in raw_events(profiler))

    def spin(self, seconds: float) -> float:
        """Queue small products; where one takes longer than was asked for, which was measured once, none is queued."""
        factor, each = _spinner(self)
        count = int(seconds / each)
        with self.current():
            for _ in range(count):
                torch.mm(factor, factor)
        return count * each

    def reset_peak(self) -> None:
        self.module.reset_peak_memory_stats(self.index)

    def empty_cache(self) -> None:
        self.module.empty_cache()

    def driver(self) -> dict[str, str]:
        properties = self.module.get_device_properties(self.index)
        facts = {f"properties.{key}": getattr(properties, key, None) for key in _DRIVER_PROPERTIES}
        facts |= {f"torch.version.{key}": getattr(torch.version, key, None) for key in TOOLKITS}
        facts |= {name: quietly(partial(read, self.index)) for name, read in _DRIVER_CALLS.get(self.kind, {}).items()}
        return {name: str(value) for name, value in facts.items() if value not in (None, "")}

    def current(self) -> AbstractContextManager[None]:
        return self.module.device(self.index)  # type: ignore[no-any-return]

    def bind(self) -> None:
        self.module.set_device(self.index)

    def bus_id(self) -> str:
        """Return the PCI address as lspci writes it, else the card's UUID (torch 2.4 on HIP knows neither)."""
        properties = self.module.get_device_properties(self.index)
        domain, bus, place = (getattr(properties, f"pci_{part}_id", None) for part in ("domain", "bus", "device"))
        if isinstance(domain, int) and isinstance(bus, int) and isinstance(place, int):
            return f"{domain:04x}:{bus:02x}:{place:02x}.0"
        return str(getattr(properties, "uuid", ""))

    def group_options(self) -> dict[str, Any]:
        return {"device_id": self.torch}


_SPINS, _SPUN = 100, 1024
"""A product of this size is far longer than its launch, or a card would spin less than was asked."""


@cache
def _spinner(card: Device) -> tuple[torch.Tensor, float]:
    """Return the factor of a small product on a device, and the seconds that one takes there among many."""
    with card.current():
        factor, watch = torch.eye(_SPUN, device=card.torch), card.stopwatch()
        for _ in range(2):  # the first time loads libraries
            card.synchronize()
            watch.start()
            for _ in range(_SPINS):
                torch.mm(factor, factor)
            watch.stop()
            seconds = watch.seconds()
    return factor, seconds / _SPINS


_DRIVER_PROPERTIES = ("driver_version", "platform_name", "version", "gcnArchName",
                      "major", "minor", "pci_bus_id", "uuid")  # fmt: skip

# Versions that only a call of one vendor's gives, by the card's index; a build without the call has no such fact.
_TORCH: Any = torch
_DRIVER_CALLS: dict[str, dict[str, Callable[[int], Any]]] = {
    "cuda": {
        "driver api": lambda _: _TORCH._C._cuda_getDriverVersion(),
        "nccl": lambda _: ".".join(map(str, _TORCH.cuda.nccl.version())),
        "cudnn": lambda _: _TORCH.backends.cudnn.version(),
    },
    "xpu": {"level zero": lambda index: _TORCH.xpu.get_device_capability(index)["driver_version"]},
}


def quietly(read: Callable[[], Any]) -> Any:
    """Return what the call gives, or None: a build without a toolkit raises all sorts of things when asked for it."""
    try:
        return read()
    except Exception:
        return None


def raw_events(profiler: Any) -> Sequence[Any]:
    """Return what a profiler saw, without Python's tree of it, which takes minutes for a large step."""
    results = getattr(profiler.profiler, "kineto_results", None)
    return results.events() if results is not None else ()


def computes(device: torch.device) -> bool:
    """Whether a sum is still right: after a kernel's failed assertion nothing is, in this process (CUDA's sticky errors)."""
    try:
        return float(torch.ones(1, device=device).add_(1).item()) == 2
    except Exception:
        return False


def kilobytes(path: str) -> dict[str, int]:
    """Return the sizes, in bytes, that a file of proc(5) tells in kB."""
    return {
        key: int(value) * 1024
        for key, value in re.findall(r"^(\w+):\s+(\d+) kB$", kernel_value(Path(path)), re.MULTILINE)
    }

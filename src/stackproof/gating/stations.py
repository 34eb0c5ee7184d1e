"""Where a subject of a side works: in this very process, or in a group of ranks that waits between blocks."""

from __future__ import annotations

import gc
from typing import Any, Protocol

import torch

from ..device import Device
from ..measuring import Subject
from ..measuring.sampling import Sampler, freeze_collector, warm_up
from ..workloads import kinds
from ..workloads.work import Setting
from . import counting, drills
from .drills import Drill

Answer = dict[str, Any]
_THREADS = max(1, torch.get_num_threads() // 2)
"""The other side is live too: on the same cores, twice as many threads as cores wait for one another."""


class Station(Protocol):
    """A subject that was built and proved, and can be run."""

    proved: str
    worth: dict[str, float]
    """What one run is worth; of a group, of all ranks together."""

    def run(self) -> object:
        """Run once."""

    def warm(self, seconds: float) -> Answer:
        """Run until the time of a run settles; return whether it did, the seconds of one run and the peak of memory in bytes."""

    def block(self, runs: int) -> float:
        """Run so many times and return the seconds of one; of a group, the slowest rank's."""

    def count(self, captured: bool) -> Answer:
        """Return the exact counters of one run, and the seconds of handing the model to the compiler where that is asked for."""

    def conclude(self) -> dict[str, Any]:
        """Let the work say whether the timed runs did what was proved."""

    def close(self) -> None:
        """Let go of it."""


class Alone:
    """A subject in this process."""

    def __init__(self, subject: Subject, preset: str, device: Device, drill: Drill) -> None:
        torch.set_num_threads(1 if preset == "tiny" else _THREADS)
        self._device, self._drill = device, drill
        self._work = kinds()[subject.kind](Setting(device, preset, subject.table(preset)))
        drills.spoil(self._work, drill)
        self.proved = self._work.prove()
        self.worth = {"iteration": 1.0, **self._work.worth}
        self._run = self._work.run

    def run(self) -> object:
        """Run once."""
        return self._run()

    def warm(self, seconds: float) -> Answer:
        """Warm up and return what is known then; a drill begins here, after what it must be compared with was timed."""
        freeze_collector()
        self._device.synchronize()
        self._device.reset_peak()
        sampler = Sampler(self._device, self._work.run)
        warmth = warm_up(sampler, seconds)
        took = warmth.took
        plain, self._run = self._work.run, drills.burdened(self._work.run, self._drill, self._device, took)
        took = took if self._run == plain else min(Sampler(self._device, self._run).block(3))
        return {"settled": warmth.settled, "seconds": took, "peak-memory": self._device.memory().peak}

    def block(self, runs: int) -> float:
        """Run so many times back to back and return the mean seconds of one."""
        watch = self._device.stopwatch()
        self._device.synchronize()
        watch.start()
        for _ in range(runs):
            self._run()
        drills.end(self._drill)
        watch.stop()
        return watch.seconds() / runs

    def count(self, captured: bool) -> Answer:
        """Count one run, and hand the model to the compiler where that is asked for."""
        found: Answer = {"counters": counting.counts(self._run, self._device)}
        job = getattr(self._work, "job", None)
        if captured and job is not None:
            cut, found["capture"] = counting.capture(job)
            found["counters"] |= cut
        return found

    def conclude(self) -> dict[str, Any]:
        """Ask the work."""
        return dict(self._work.conclude())

    def close(self) -> None:
        """Let go of the work and of what the device keeps for it."""
        self._work.close()
        self._run = lambda: None
        gc.unfreeze()
        self._device.empty_cache()

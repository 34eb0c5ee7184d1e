"""One side of a duel: a process in a variant's own environment that proves, warms up and runs blocks when it is asked.

It reads one JSON request a line from standard input and answers on the pipe whose descriptor it was given, so that
whatever libraries print cannot be mistaken for an answer. Both sides run this same code; what differs is what it imports.
"""

from __future__ import annotations

import faulthandler
import json
import os
import sys
import time
from collections import Counter
from typing import IO, Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from .. import device as devices
from .. import stacks
from ..checks import CapabilityMissing, CheckEnded
from ..errors import Refusal
from ..measuring import Subject, subjects
from ..measuring.sampling import Sampler, warm_up
from ..processes import die_with_parent
from ..workloads import kinds
from ..workloads.work import Setting, Work

Request = dict[str, Any]
Answer = dict[str, Any]


class _Count(TorchDispatchMode):
    """Counts what reaches the backends."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen[str(func)] += 1
        return func(*args, **(kwargs or {}))


class Side:
    """What is open in this process: at most one subject at a time."""

    def __init__(self, stack: str, rehearsed: bool, profile: str, device: str) -> None:
        found = stacks.load(stack)
        self.stack = found.rehearse() if rehearsed else found
        self.device = devices.parse(device, self.stack.device) if device else devices.default(self.stack.device)
        self.subjects = {subject.name: subject for subject in subjects(profile, self.stack)}
        self.work: Work | None = None
        self.sampler: Sampler | None = None

    def hello(self) -> Answer:
        """Use the device once and say what this side is: facts that two sides must share to be comparable."""
        with self.device.current():
            torch.ones(1, device=self.device.torch).sum().item()
        return {
            "torch": torch.__version__,
            "device": str(self.device),
            "name": self.device.name(),
            "driver": self.device.driver(),
            "subjects": list(self.subjects),
        }

    def open(self, subject: str, preset: str, seconds: float) -> Answer:
        """Build a subject, prove it, warm it up; return what was proved, its peak memory in bytes and its counters."""
        self.close()
        if subject not in self.subjects:
            raise CapabilityMissing(f"this side has no subject '{subject}'")
        torch.set_num_threads(1 if preset == "tiny" else torch.get_num_threads())
        with self.device.current():
            self.work = self._build(self.subjects[subject], preset)
            proved = self.work.prove()
            counters = self._counters(self.work)
            self.device.synchronize()
            self.device.reset_peak()
            self.sampler = Sampler(self.device, self.work.run)
            warmth = warm_up(self.sampler, seconds)
            took = min(self.sampler.block(3))
            return {
                "proved": proved, "settled": warmth.settled, "seconds": took,
                "memory": self.device.memory().peak, "counters": counters,
            }  # fmt: skip

    def _build(self, subject: Subject, preset: str) -> Work:
        return kinds()[subject.kind](Setting(self.device, preset, subject.table(preset)))

    def _counters(self, work: Work) -> dict[str, int]:
        """Count one run: operators dispatched, and blocks the device's allocator handed out where it counts them."""
        before = self.device.allocations()
        with _Count() as count:
            work.run()
        self.device.synchronize()
        after = self.device.allocations()
        found = {"operators": sum(count.seen.values())}
        return found if before is None or after is None else {**found, "allocations": after - before}

    def block(self, runs: int) -> Answer:
        """Run so many times and return the seconds of one run: their mean, since a block is as long as it is."""
        if self.sampler is None:
            raise Refusal("no subject is open")
        with self.device.current():
            watch = self.device.stopwatch()
            self.device.synchronize()
            watch.start()
            for _ in range(runs):
                self.sampler.run()
            watch.stop()
            return {"seconds": watch.seconds() / runs}

    def close(self) -> Answer:
        """Let go of what is open."""
        if self.work is not None:
            self.work.close()
        self.work = self.sampler = None
        self.device.empty_cache()
        return {}


def serve(side: Side, requests: IO[str], answers: IO[str]) -> None:
    """Answer requests until there are no more; what goes wrong with one is its answer, with the verdict that it means."""
    for line in requests:
        request: Request = json.loads(line)
        faulthandler.dump_traceback_later(float(request.pop("deadline_s")))
        try:
            answer = getattr(side, request.pop("ask"))(**request)
        except CheckEnded as ended:
            answer = {"verdict": ended.verdict.value, "reason": str(ended)}
        except Exception as error:
            answer = {"verdict": "crashed", "reason": f"{type(error).__name__}: {str(error).splitlines()[0][:300]}"}
        faulthandler.cancel_dump_traceback_later()
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def main(arguments: list[str]) -> int:
    """`side STACK REHEARSED PROFILE DEVICE DESCRIPTOR BEGAN`: bring the stack up and serve."""
    die_with_parent()
    stack, rehearsed, profile, device, descriptor, began = arguments
    faulthandler.enable()
    side = Side(stack, rehearsed == "True", profile, device)
    with os.fdopen(int(descriptor), "w", encoding="utf-8") as answers:
        facts = side.hello()
        answers.write(json.dumps({**facts, "start_up": time.time() - float(began)}) + "\n")
        answers.flush()
        serve(side, sys.stdin, answers)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

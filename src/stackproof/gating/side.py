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
from collections.abc import Callable
from typing import IO, Any

import torch

from .. import device as devices
from .. import provenance, stacks
from ..checks import CapabilityMissing, CheckEnded
from ..errors import Refusal
from ..measuring import Subject, subjects
from ..measuring.engine import require_possible
from ..measuring.neighbours import others_on_card
from ..measuring.sampling import Sampler, warm_up
from ..measuring.telemetry import Telemetry
from ..processes import die_with_parent
from ..workloads import kinds
from ..workloads.work import Setting, Work
from . import counting, drills

Request = dict[str, Any]
Answer = dict[str, Any]


class Side:
    """What is open in this process: at most one subject at a time."""

    def __init__(self, stack: str, rehearsed: bool, profile: str, device: str, drill: str) -> None:
        found = stacks.load(stack)
        self.stack = found.rehearse() if rehearsed else found
        self.drill = drills.read(drill)
        self.device = devices.parse(device, self.stack.device) if device else devices.default(self.stack.device)
        known = {subject.name: subject for subject in subjects(profile, self.stack)}
        self.subjects = {
            name: one for name, one in known.items() if (self.drill.kind, self.drill.value) != ("drop", name)
        }
        self.work: Work | None = None
        self.run: Callable[[], object] = lambda: None

    def hello(self) -> Answer:
        """Use the device once and say what this side is: facts that two sides must share to be comparable."""
        with self.device.current():
            torch.ones(1, device=self.device.torch).sum().item()
        return {
            "facts": {"torch": torch.__version__, **provenance.torch_facts(self.stack)},
            "subjects": {
                name: {"kind": one.kind, "unit": one.unit, "version": one.version}
                for name, one in self.subjects.items()
            },
        }

    def open(self, subject: str, preset: str) -> Answer:
        """Build a subject and prove it; return what was proved, and what one run is worth."""
        self.close()
        if subject not in self.subjects:
            raise CapabilityMissing(f"this side has no subject '{subject}'")
        if self.drill.kind == "skip":
            raise CapabilityMissing("a drill skips everything on this side")
        require_possible(self.subjects[subject])
        torch.set_num_threads(1 if preset == "tiny" else torch.get_num_threads())
        with self.device.current():
            self.work = self._build(self.subjects[subject], preset)
            drills.spoil(self.work, self.drill)
            proved = self.work.prove()
        return {"proved": proved, "worth": {"iteration": 1.0, **self.work.worth}}

    def _build(self, subject: Subject, preset: str) -> Work:
        return kinds()[subject.kind](Setting(self.device, preset, subject.table(preset)))

    def warm(self, seconds: float) -> Answer:
        """Run until the time of a run settles; return the seconds of one run and the most memory that was in use, in bytes."""
        work = self._open()
        with self.device.current():
            self.device.synchronize()
            self.device.reset_peak()
            warmth = warm_up(Sampler(self.device, work.run), seconds)
            took = min(Sampler(self.device, work.run).block(3))
            self.run = drills.burdened(work.run, self.drill, self.device, took)
            took = took if self.run == work.run else min(Sampler(self.device, self.run).block(3))
            return self._told({"settled": warmth.settled, "seconds": took, "peak-memory": self.device.memory().peak})

    def block(self, runs: int) -> Answer:
        """Run so many times and return the seconds of one run: their mean, since a block is as long as it is."""
        self._open()
        with self.device.current():
            watch = self.device.stopwatch()
            self.device.synchronize()
            watch.start()
            for _ in range(runs):
                self.run()
            drills.end(self.drill)
            watch.stop()
            return {"seconds": watch.seconds() / runs}

    def conditions(self) -> Answer:
        """Return what the vendor's tool tells of the card while it works, what slows it, and who else uses it."""
        telemetry = Telemetry(self.device, self.stack)
        with self.device.current():
            telemetry.read(self.run)
        reading = telemetry.readings[0] if telemetry.readings else {}
        others = others_on_card(self.device, self.stack) or ()
        return {"reading": reading, "throttled": list(telemetry.throttled()), "others": list(others)}

    def count(self, captured: bool) -> Answer:
        """Count one run exactly; where it is asked for, also how a compiler cuts the model, and the seconds of that."""
        work = self._open()
        with self.device.current():
            work.run = self.run  # type: ignore[method-assign]
            found: Answer = {"counters": counting.counts(work, self.device)}
            job = getattr(work, "job", None)
            if captured and job is not None:
                cut, seconds = counting.capture(job)
                found["counters"] |= cut
                found["capture"] = seconds
        found["counters"] = self._told(found["counters"])
        return self._told(found)

    def conclude(self) -> Answer:
        """Let the work say whether the timed runs did what was proved, and let go of it."""
        found = dict(self._open().conclude())
        self.close()
        return {"figures": found}

    def close(self) -> Answer:
        """Let go of what is open."""
        if self.work is not None:
            self.work.close()
        self.work = None
        self.run = lambda: None
        self.device.empty_cache()
        return {}

    def _open(self) -> Work:
        if self.work is None:
            raise Refusal("no subject is open")
        return self.work

    def _told(self, answer: Answer) -> Answer:
        """Leave out what a drill says is missing."""
        return {
            name: value for name, value in answer.items() if (self.drill.kind, self.drill.value) != ("missing", name)
        }


def serve(side: Side, requests: IO[str], answers: IO[str]) -> None:
    """Answer requests until there are no more; what goes wrong with one is its answer, with the verdict that it means."""
    for line in requests:
        request: Request = json.loads(line)
        faulthandler.dump_traceback_later(float(request.pop("deadline_s")))
        try:
            answer = getattr(side, request.pop("ask"))(**request)
        except CheckEnded as ended:
            answer = {"verdict": ended.verdict.value, "reason": str(ended)}
        except Refusal as refusal:
            answer = {"verdict": "inconclusive", "reason": str(refusal)}
        except Exception as error:
            said = (str(error).splitlines() or [""])[0][:300]
            answer = {"verdict": "crashed", "reason": f"{type(error).__name__}: {said}"}
        faulthandler.cancel_dump_traceback_later()
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def main(arguments: list[str]) -> int:
    """`side DESCRIPTOR JSON`: bring the stack up, say what is there, and serve."""
    die_with_parent()
    told = json.loads(arguments[1])
    began = float(told.pop("began"))
    faulthandler.enable()
    with os.fdopen(int(arguments[0]), "w", encoding="utf-8") as answers:
        try:
            side = Side(**told)
            hello = {**side.hello(), "start_up": time.time() - began}
        except Refusal as refusal:
            answers.write(json.dumps({"refused": str(refusal), "exit_code": refusal.exit_code}) + "\n")
            return refusal.exit_code
        answers.write(json.dumps(hello) + "\n")
        answers.flush()
        serve(side, sys.stdin, answers)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

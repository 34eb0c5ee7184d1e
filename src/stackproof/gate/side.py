"""One side of a gate: a process in a variant's own environment that proves, warms up and runs blocks when it is asked.

It reads requests from standard input and answers on the pipe whose descriptor it was given, so that whatever libraries print cannot
be mistaken for an answer. Both sides run this same code; what differs is what it imports.
"""

from __future__ import annotations

import faulthandler
import gc
import importlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

from stackproof.base import files, rpc
from stackproof.base.errors import Refusal, StackUnavailableError
from stackproof.base.processes import die_with_parent
from stackproof.base.text import error_line
from stackproof.bench.engine import require_possible
from stackproof.bench.sampling import freeze_collector, warm_up
from stackproof.bench.subjects import Subject, subjects
from stackproof.bench.subjects import profile as profile_named
from stackproof.device import devices, threads
from stackproof.device.devices import torch_facts
from stackproof.device.kinds import Device
from stackproof.device.telemetry import Telemetry, others_on_card
from stackproof.gate import changed, computed, planted
from stackproof.gate.group import RankGroup, arranged, in_effect
from stackproof.gate.plan import RANKED
from stackproof.gate.planted import PlantedFault
from stackproof.probes.spans import Sampler
from stackproof.record.checks import CapabilityMissing, CheckEnded
from stackproof.stack import stacks
from stackproof.workloads.catalogue import kinds
from stackproof.workloads.work import Setting, Work

Answer = rpc.Message
_MICRO_BATCHES = 2
"""Of a step of full size that accumulates; a whole one takes seconds, and more of the same work tells nothing about its speed."""
_MOST_TIMED = 64
"""Runs of a block that are timed one by one: of more, their mean shows a step that is slow now and then."""


class InProcess:
    """A subject that was built and proved in this process, and can be run; `RankGroup` is one of several ranks that wait between blocks.

    `worth`: what one run is worth; of a group, of all ranks together.
    """

    def __init__(
        self, subject: Subject, preset: str, device: Device, drill: PlantedFault, earlier: Answer | None = None
    ) -> None:
        threads.choose(preset)
        self._device, self._drill = device, drill
        self._work = self._built(subject, preset)
        self._timed = computed.timed(self._work)
        known = earlier is not None and changed.timed_alike(earlier["timed"], self._timed["timed"], earlier["dtype"])
        self._proved_here = not known
        if earlier is not None and known:  # it computes what it did in the launch that proved it
            self.proved = str(earlier["proved"])
        else:  # from where it was built, and not from where the runs above have led
            self._work.close()
            del self._work  # a card may have no room for two
            device.empty_cache()
            self._work = self._built(subject, preset)
            self.proved = self._work.prove()
        self.worth = {"iteration": 1.0, **self._work.worth}
        self._sampler = Sampler(device, self._work.run, begin=self._work.begin)
        self._units: computed.UnitsDone | None = None

    def _built(self, subject: Subject, preset: str) -> Work:
        self._device.reset_peak()
        # The settings of an older commit have none.
        few = (
            {"micro_batches": _MICRO_BATCHES} if preset == "full" and "micro_batches" in Setting.__annotations__ else {}
        )
        work: Work = kinds()[subject.kind](Setting(self._device, preset, subject.table(preset), **few))
        planted.plant_before_proof(work, self._drill)
        return work

    def compute(self) -> Answer:
        """Return what it computes from equal seeds."""
        return computed.fingerprint(self._work, self._timed)

    def run(self) -> object:
        return self._sampler.run()

    def warm(self, seconds: float) -> Answer:
        """Warm up; return the seconds of one run and the most memory that was in use before, in bytes.

        A drill begins here, after what it must be compared with was timed.
        """
        freeze_collector()
        self._device.synchronize()
        opening = self._device.memory().peak
        self._device.reset_peak()
        self._sampler.run = plain = self._work.run
        took = warm_up(self._sampler, seconds).took
        self._sampler.run = planted.burdened(plain, self._drill, self._device, took)
        took = took if self._sampler.run == plain else min(self._sampler.block(3))
        return {"seconds": took, "opening-memory": opening}

    def block(self, runs: int) -> Answer:
        """Run so many times back to back and return the mean seconds of one, and where they are few the seconds of each."""
        self._units = self._units or computed.UnitsDone(getattr(self._work, "job", None))
        each = self._sampler.spans([1] * runs if runs <= _MOST_TIMED else [runs])
        return {"seconds": sum(each) / runs, "each": each if runs <= _MOST_TIMED else []}

    def done(self) -> Answer:
        """After the blocks: the most memory that was in use while they ran, in bytes, and the units of work that they did."""
        return {"peak-memory": self._device.memory().peak, "units": self._units.end() if self._units else {}}

    def count(self) -> Answer:
        return {"counters": computed.counts(self._sampler.run, self._device)}

    def conclude(self) -> Answer:
        """Prove the work once more, now that the timed runs are over, if this process proved it before."""
        return {"figures": dict(self._work.conclude()) if self._proved_here else {}}

    def close(self) -> None:
        """Let go of the work, of what counts it, and of what the device keeps for it."""
        if self._units:
            self._units.end()
        self._work.close()
        self._sampler.run = lambda: None
        gc.unfreeze()
        self._device.empty_cache()


class Side:
    """The process of one side of a gate; it has at most one subject open at a time."""

    def __init__(
        self, name: str, stack: str, rehearsed: bool, profile: str, device: str, drill: str, backend: str
    ) -> None:
        self.name, self.stack = name, stacks.load(stack, rehearsed=rehearsed)
        for module in self.stack.imports:  # torch's extensions, before the device is asked for
            try:
                importlib.import_module(module)
            except ImportError as error:
                raise StackUnavailableError(f"stack.toml, imports: '{module}' cannot be imported: {error}") from error
        threads.choose(profile_named(profile).preset)
        self.backend = backend
        self.drill = planted.read(drill)
        self.device = devices.parse(device, self.stack.device) if device else devices.default(self.stack.device)
        self.subjects = {subject.name: subject for subject in subjects(profile, self.stack)}
        self.subject: InProcess | RankGroup | None = None

    def hello(self) -> Answer:
        """Use the device once and say what this side is: facts that two sides must share to be comparable."""
        with self.device.current():
            torch.ones(1, device=self.device.torch).sum().item()
        card = self.device.memory().peak if self.device != devices.HOST else 0
        keys = ("kind", "unit", "version", "effect", "spared")
        rows = {name: {key: getattr(each, key) for key in keys} for name, each in self.subjects.items()}
        facts = {"torch": torch.__version__, **torch_facts(self.stack)}
        return {"memory": devices.HOST.memory().peak + card, "facts": facts, "subjects": rows}

    def open(self, subject: str, preset: str, earlier: Answer | None = None) -> Answer:
        """Build a subject and prove it; return what was proved, and what one run is worth.

        `earlier`: what an earlier launch proved; where the work computes the same, that is its proof.
        """
        self.close()
        if subject not in self.subjects:
            raise CapabilityMissing(f"this side has no subject '{subject}'")
        chosen = self.subjects[subject]
        require_possible(chosen)
        if chosen.kind in RANKED:
            self.subject = RankGroup(chosen, preset, self.device, self.backend)
        else:
            self.subject = InProcess(chosen, preset, self.device, self.drill, earlier)
        return {"proved": self.subject.proved, "worth": self.subject.worth}

    @contextmanager
    def within(self, ask: str, arguments: Answer) -> Iterator[None]:
        """Use the device in a request, write down where this process is when its deadline passes, and in its log how long it took."""
        faulthandler.dump_traceback_later(float(arguments.pop("deadline_s")))
        subject, began = arguments.get("subject", ""), time.monotonic()
        with self.device.current():
            yield
        faulthandler.cancel_dump_traceback_later()
        sys.stderr.write(f"{ask} {subject}: {time.monotonic() - began:.2f} s\n")

    def __getattr__(self, request: str) -> Callable[..., Answer]:
        """Hand what only the open subject can answer to it."""
        if request not in ("compute", "warm", "done", "count"):
            raise AttributeError(request)
        answer: Callable[..., Answer] = getattr(self._open(), request)
        return answer

    def block(self, runs: int, core: int | None = None) -> Answer:
        """Run so many times and return the mean seconds of one run; of several ranks, the slowest rank's.

        `core`: a number that both sides are given, so that work of one thread has the same core on both.
        """
        with threads.on_core(core):
            return self._open().block(runs=runs)

    def conditions(self) -> Answer:
        """Return what the vendor's tool tells of the card while it works, what slows it, and who else uses it."""
        telemetry = Telemetry(self.device, self.stack)
        telemetry.read(self._open().run)
        reading = telemetry.readings[0] if telemetry.readings else {}
        others = others_on_card(self.device, self.stack) or ()
        return {"reading": reading, "throttled": list(telemetry.throttled()), "others": list(others)}

    def conclude(self) -> Answer:
        """Let the work say whether the timed runs did what was proved, and let go of it."""
        answer: Answer = self._open().conclude()
        self.close()
        return answer

    def effect(self, subject: str, preset: str, asked: dict[str, str]) -> Answer:
        """Bring the ranks of a subject up and return what their library's log says of what was asked for."""
        return in_effect(self.stack, arranged(self.subjects[subject], preset, self.device, self.backend), asked)

    def close(self) -> Answer:
        """Let go of what is open."""
        if self.subject is not None:
            self.subject.close()
        self.subject = None
        return {}

    def _open(self) -> InProcess | RankGroup:
        if self.subject is None:
            raise Refusal("no subject is open")
        return self.subject


def failed(error: Exception) -> Answer:
    """What goes wrong with a request is its answer, with the verdict that it means."""
    if isinstance(error, CheckEnded):
        return {"verdict": error.verdict.value, "reason": str(error)}
    if isinstance(error, Refusal):
        return {"verdict": "inconclusive", "reason": str(error)}
    return {"verdict": "crashed", "reason": error_line(error)}


def main(arguments: list[str]) -> int:
    """`side DESCRIPTOR JSON`: bring the stack up, say what is there, and serve."""
    die_with_parent()
    words = files.parse_json(arguments[1], "the words of a side")
    began = float(words.pop("began"))
    faulthandler.enable()
    with os.fdopen(int(arguments[0]), "w", encoding="utf-8") as answers:
        try:
            side = Side(**words)
            hello = {**side.hello(), "start_up": time.time() - began}
        except Refusal as refusal:
            rpc.write(answers, {"refused": str(refusal), "exit_code": refusal.exit_code})
            return refusal.exit_code
        rpc.write(answers, hello)
        rpc.serve(side, sys.stdin, answers, failed, side.within)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

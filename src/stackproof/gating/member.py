"""One rank of a group that is a side of a gate: it answers requests on a socket until it is told to stop."""

from __future__ import annotations

import json
import socket
from typing import Any

import torch.distributed as dist

from ..checks import CheckEnded
from ..distributed.rank import Rank
from ..measuring.ranked import Parallel, Together, rest, setting_of
from ..measuring.sampling import freeze_collector, warm_up
from ..workloads.collectives import Collective
from ..workloads.work import Work
from . import counting

Answer = dict[str, Any]


class Member:
    """The work of one rank."""

    def __init__(self, rank: Rank) -> None:
        self._rank = rank
        self._work: Work = (
            Collective(setting_of(rank)) if rank.arguments["kind"] == "collective" else Parallel(setting_of(rank), rank)
        )

    def prove(self) -> Answer:
        """Verify the work together with the other ranks."""
        return {"proved": self._work.prove(), "worth": dict(self._work.worth)}

    def warm(self, seconds: float) -> Answer:
        """Warm up together; all ranks look at the slowest, so they stop together."""
        device = self._rank.device
        freeze_collector()
        device.reset_peak()
        sampler = Together(device, self._work.run)
        warmth = warm_up(sampler, seconds)
        took = min(sampler.block(3))
        return {"settled": warmth.settled, "seconds": took, "peak-memory": device.memory().peak}

    def block(self, runs: int) -> Answer:
        """Begin together and return this rank's mean seconds of a run."""
        watch = self._rank.device.stopwatch()
        dist.barrier()
        self._rank.device.synchronize()
        watch.start()
        for _ in range(runs):
            self._work.run()
        watch.stop()
        return {"seconds": watch.seconds() / runs}

    def count(self) -> Answer:
        """Count what one run dispatches on this rank."""
        found = {"operators": counting.operators(self._work.run)}
        self._rank.device.synchronize()
        return {"counters": found}

    def conclude(self) -> Answer:
        """Let the work say whether the timed runs did what was proved."""
        return {"figures": dict(self._work.conclude())}


def serve(rank: Rank) -> Answer:
    """Answer requests until there are no more; what goes wrong with one is its answer."""
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(rank.arguments["address"])
        member = Member(rank)
        with line.makefile("rw", encoding="utf-8") as stream:
            for text in stream:
                request = json.loads(text)
                name = request.pop("ask")
                if name == "stop":
                    break
                rank.phase(name)
                stream.write(json.dumps(_answer(member, name, request)) + "\n")
                stream.flush()
    rest()
    return {}


def _answer(member: Member, name: str, arguments: Answer) -> Answer:
    try:
        found: Answer = getattr(member, name)(**arguments)
    except CheckEnded as ended:
        return {"verdict": ended.verdict.value, "reason": str(ended)}
    return found

"""What communication costs: the rate of an all-reduce, and what a data-parallel step takes longer for having it.

`bench` times every collective by size; this is what suites look at on the way.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from statistics import median
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import debugging_hooks, default_hooks
from torch.nn.parallel import DistributedDataParallel

from stackproof import DATA
from stackproof.base.toml import Table
from stackproof.probes.spans import Sampler, Slope
from stackproof.ranks.rank import Board, Rank, digest, timed, unnoted
from stackproof.record.checks import CheckFailed
from stackproof.workloads.base import Job
from stackproof.workloads.catalogue import get
from stackproof.workloads.collectives import TimedCollective
from stackproof.workloads.work import Setting

_BLOCKS, _MOST = 4, 48


class Together(Sampler):
    """Samples that all ranks take at once: each is the slowest rank's, and so is the time that has passed.

    They last longer than one device's: ranks start together to some tens of microseconds, and each queues its calls by itself.
    """

    least_s = 2e-3
    _passed = 0.0

    def start_clock(self) -> None:
        super().start_clock()
        self._passed = 0.0

    def spans(self, lengths: Sequence[int], compared: bool = True) -> list[float]:
        """Return the slowest rank's seconds of each span."""
        with unnoted(f"{sum(lengths)} runs"):
            own = [*super().spans(lengths, compared), time.perf_counter() - self._began]
        slowest = torch.tensor(own, dtype=torch.float32).to(self.device.torch)  # some cards have no float64
        dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
        *seconds, self._passed = slowest.cpu().tolist()
        return seconds

    def start(self, runs: int, compared: bool) -> None:
        """Wait for the ranks whose block is ready later; devices wait too, so that all start their clocks together."""
        super().start(runs, compared)
        dist.barrier()
        dist.all_reduce(torch.zeros(1, device=self.device.torch))

    def spent(self) -> float:
        """Return the seconds that had passed on the slowest rank after the last block."""
        return self._passed


def all_reduce_rate(rank: Rank, mib: float) -> dict[str, Any]:
    """Time all-reduces of `mib` in float32 in a few blocks, as `bench` does in many; compare all that each block leaves.

    Returns `gb` (1e9 bytes of the whole tensor), `seconds` of a call of each span on the slowest rank, and `wrong`: what was wrong, or
    nothing. A wrong number ends no rank, because the others would wait for it.
    """
    row = Table(DATA / "benchmarks.toml", {"call": "all-reduce", "mib": mib, "dtype": "float32"})
    work = TimedCollective(Setting(rank.device, "tiny", row))
    sampler = Together(rank.device, work.run, begin=work.begin, most=min(_MOST, work.most_runs))
    slope, wrong = Slope(), ""
    for _ in range(2):
        sampler.fit(took := min(sampler.block(3)))
    for _ in range(_BLOCKS):
        slope.lengths += (lengths := sampler.lengths(took))
        slope.spans += sampler.spans(lengths)
        try:
            work.verify(sum(lengths))
        except CheckFailed as failure:
            wrong = wrong or str(failure)
    return {"gb": work.worth["GB"], "seconds": slope.seconds, "wrong": wrong}


def _decided(rank: Rank, what: str, value: int) -> int:
    """Return rank 0's number; the others learn it through the store."""
    board = Board(what)
    if rank.rank == 0:
        board.put("decided", str(value))
    return int(board.text("decided"))


MODES = ("on", "off", "more")
_WARM_UP_STEPS = 2
_BALLAST = 1 << 18
_MOST_REPEATS = 2000
_ROUNDS_S = 0.5
_MOST_ROUNDS = 40
"""Short steps are timed in more rounds, for half a second: a neighbour's few milliseconds are as long as the difference that must show."""


class Switch:
    """Data parallelism whose communication can be switched off; `add` is more of it, of `repeats` all-reduces of `ballast`."""

    def __init__(self, device: torch.device) -> None:
        self.mode = "on"
        self.ballast = torch.zeros(_BALLAST, device=device)
        self.repeats = 1

    def wrap(self, model: torch.nn.Module) -> DistributedDataParallel:
        self._parallel = DistributedDataParallel(model)
        self._parallel.register_comm_hook(self, lambda state, bucket: state.average(bucket))  # DDP compares annotations
        return self._parallel

    def turn(self, mode: str) -> None:
        """Switch; without communication, the forward does not send the model's buffers around either."""
        self.mode = mode
        self._parallel.broadcast_buffers = mode != "off"

    def average(self, bucket: Any) -> torch.futures.Future[torch.Tensor]:
        """Do with a bucket of gradients (`dist.GradBucket`) what the mode says."""
        if self.mode == "off":
            return debugging_hooks.noop_hook(None, bucket)
        everyone: Any = dist.group.WORLD
        return default_hooks.allreduce_hook(everyone, bucket)

    def add(self) -> None:
        for _ in range(self.repeats):
            dist.all_reduce(self.ballast)

    def run(self, job: Job) -> None:
        """Take a step. What is added comes after it: where the host is slower than the card, the card has time to spare within a step."""
        job.step()
        if self.mode == "more":
            self.add()


def cost(rank: Rank) -> dict[str, Any]:
    """Return seconds of each kind of step in each round, of the ballast alone, and digests of gradients.

    Exposed communication is what a step takes longer for having the all-reduce; what overlaps with compute costs nothing. A third kind
    of step proves the method: the time of all-reduces after it, which has nothing to hide behind, must show.

    Arguments (of the specification): workload, preset, seed, rounds (the fewest).
    """
    arguments, switch = rank.arguments, Switch(rank.device.torch)
    rank.phase("building the workload")
    job = get(arguments["workload"]).build(
        rank.device.torch, arguments["preset"], arguments["seed"], shard=(rank.rank, rank.world_size)
    )
    job.wrap(switch.wrap)
    digests = {mode: _gradients(job, switch, mode) for mode in ("on", "off")}
    rank.phase("weighing the ballast")
    seconds = _weigh(rank, job, switch)
    rounds = _decided(rank, "rounds", round(_ROUNDS_S / (seconds * (len(MODES) + 2))))
    rank.phase("timing steps")
    times: dict[str, list[float]] = {mode: [] for mode in (*MODES, "ballast")}
    for number in range(max(arguments["rounds"], min(_MOST_ROUNDS, rounds))):
        for mode in MODES if number % 2 == 0 else reversed(MODES):
            times[mode].append(_step(rank, job, switch, mode))
        times["ballast"].append(timed(rank, switch.add))
    recipe = job.recipe
    dtype = str(recipe.autocast or recipe.dtype).removeprefix("torch.")
    return {"rank": rank.rank, "dtype": dtype, "digests": digests, "seconds": times}


def _gradients(job: Job, switch: Switch, mode: str) -> str:
    """Return a hash of the gradients' bits after a step: equal on all ranks if they were averaged, and else not."""
    switch.turn(mode)
    job.step()
    return digest({name: param.grad for name, param in job.model.named_parameters() if param.grad is not None})


def _step(rank: Rank, job: Job, switch: Switch, mode: str) -> float:
    switch.turn(mode)
    return timed(rank, lambda: switch.run(job))


def _weigh(rank: Rank, job: Job, switch: Switch) -> float:
    """Warm up, and repeat the ballast until it takes about as long as a step; return the step's seconds."""
    for mode in ("on", "off") * _WARM_UP_STEPS:
        seconds = _step(rank, job, switch, mode)
    ballast_s = max(min(timed(rank, switch.add) for _ in range(3)), 1e-9)
    repeats = _decided(rank, "repeats", round(seconds / ballast_s))
    switch.repeats = max(1, min(_MOST_REPEATS, repeats))
    timed(rank, switch.add)
    return seconds


def split(ranks: list[dict[str, Any]]) -> dict[str, list[float]]:
    """Return the seconds of each round on the slowest rank: each kind of step, the ballast alone, and what each difference shows."""
    slowest = {
        kind: [max(times) for times in zip(*(rank["seconds"][kind] for rank in ranks), strict=True)]
        for kind in (*MODES, "ballast")
    }
    slowest["exposed"] = [on - off for on, off in zip(slowest["on"], slowest["off"], strict=True)]
    slowest["shown"] = [more - on for more, on in zip(slowest["more"], slowest["on"], strict=True)]
    return slowest


def quartiles(samples: list[float]) -> tuple[float, float, float]:
    ordered, count = sorted(samples), len(samples)
    return median(ordered), ordered[count // 4], ordered[count - 1 - count // 4]

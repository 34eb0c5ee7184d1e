"""What communication costs a data-parallel step: the step with the all-reduce, without it, and with more whose time is known.

Exposed communication is what the step takes longer for having it; what overlaps with compute costs nothing. The third kind of step proves
the method: the time of all-reduces after it, which has nothing to hide behind, must show. The profiler's share is beside it: how long
communication ran, and how long alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from statistics import median
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import debugging_hooks, default_hooks
from torch.nn.parallel import DistributedDataParallel

from stackproof.collectives.rank import Board
from stackproof.ranks.exact import digest, timed
from stackproof.ranks.rank import Rank
from stackproof.workloads.base import Job
from stackproof.workloads.catalogue import get

MODES = ("on", "off", "more")
_WARM_UP = 2
_BALLAST = 1 << 18
_LARGEST_BALLAST = 1 << 26
_MOST_REPEATS = 200
_PROFILED = 3
_ROUNDS_S = 0.5
_MOST_ROUNDS = 40
"""Short steps are timed in more rounds, for half a second: a neighbour's few milliseconds are as long as the difference that must show."""
# How backends name their work: kernels of NCCL, RCCL and oneCCL on a card, gloo's on the host.
_COMMUNICATION = re.compile(r"ccl|^gloo:", re.IGNORECASE)
_HOST_ALONE = re.compile(r"^gloo:")

Spans = list[tuple[float, float]]


class Switch:
    """Data parallelism whose communication can be switched off; `add` is more of it, of `repeats` all-reduces of `ballast`."""

    def __init__(self, device: torch.device) -> None:
        self.mode = "on"
        self.ballast = torch.zeros(_BALLAST, device=device)
        self.repeats = 1

    def wrap(self, model: torch.nn.Module) -> DistributedDataParallel:
        """Return the model in DDP with a hook for its buckets."""
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
        """Communicate for a time that is known."""
        for _ in range(self.repeats):
            dist.all_reduce(self.ballast)

    def run(self, job: Job) -> None:
        """Take a step. What is added comes after it: where the host is slower than the card, the card has time to spare within a step."""
        job.step()
        if self.mode == "more":
            self.add()


def measure(rank: Rank) -> dict[str, Any]:
    """Return seconds of each kind of step in each round, of the ballast alone, digests of gradients, and the profiler's seconds.

    Arguments (of the specification): workload, preset, seed, rounds (the fewest).
    """
    wanted, switch = rank.arguments, Switch(rank.device.torch)
    rank.phase("building the workload")
    job = get(wanted["workload"]).build(
        rank.device.torch, wanted["preset"], wanted["seed"], shard=(rank.rank, rank.world_size)
    )
    job.wrap(switch.wrap)
    digests = {mode: _gradients(job, switch, mode) for mode in ("on", "off")}
    rank.phase("weighing the ballast")
    seconds = _weigh(rank, job, switch)
    rounds = _agreed(rank, "rounds", _ROUNDS_S / (seconds * (len(MODES) + 2)))
    rank.phase("timing steps")
    times: dict[str, list[float]] = {mode: [] for mode in (*MODES, "ballast")}
    for number in range(max(wanted["rounds"], min(_MOST_ROUNDS, rounds))):
        for mode in MODES if number % 2 == 0 else reversed(MODES):
            times[mode].append(_step(rank, job, switch, mode))
        times["ballast"].append(timed(rank, switch.add))
    rank.phase("profiling steps")
    profiled = {mode: _profile(rank, job, switch, mode) for mode in ("on", "off")}
    recipe = job.recipe
    dtype = str(recipe.autocast or recipe.dtype).removeprefix("torch.")
    return {"rank": rank.rank, "dtype": dtype, "digests": digests, "seconds": times, "profiled": profiled}


def _gradients(job: Job, switch: Switch, mode: str) -> str:
    """Return a hash of the gradients' bits after a step: equal on all ranks if they were averaged, and else not."""
    switch.turn(mode)
    job.step()
    return digest({name: one.grad for name, one in job.model.named_parameters() if one.grad is not None})


def _step(rank: Rank, job: Job, switch: Switch, mode: str) -> float:
    switch.turn(mode)
    return timed(rank, lambda: switch.run(job))


def _weigh(rank: Rank, job: Job, switch: Switch) -> float:
    """Warm up, and make the ballast take about as long as a step, by its size and then by repeating it; return the step's seconds."""
    for mode in ("on", "off") * _WARM_UP:
        seconds = _step(rank, job, switch, mode)
    wanted = _agreed(rank, "size", _BALLAST * seconds / _once(rank, switch))
    switch.ballast = torch.zeros(max(_BALLAST, min(_LARGEST_BALLAST, wanted)), device=rank.device.torch)
    switch.repeats = max(1, min(_MOST_REPEATS, _agreed(rank, "repeats", seconds / _once(rank, switch))))
    timed(rank, switch.add)
    return seconds


def _once(rank: Rank, switch: Switch) -> float:
    """Return the seconds of the ballast, as the fastest of three says."""
    return max(min(timed(rank, switch.add) for _ in range(3)), 1e-9)


def _agreed(rank: Rank, what: str, value: float) -> int:
    """Return rank 0's number, rounded; the others learn it through the store."""
    board = Board(f"ballast {what}")
    if rank.rank == 0:
        board.tell(str(round(value)))
    return int(board.told())


def _profile(rank: Rank, job: Job, switch: Switch, mode: str) -> dict[str, float]:
    """Return per step: its seconds, those in which communication ran, and those in which nothing else did."""
    switch.turn(mode)
    job.step()
    rank.device.synchronize()
    activities = torch.profiler.supported_activities()  # type: ignore[no-untyped-call]
    with torch.profiler.profile(activities=activities) as profiler:
        watch = rank.device.stopwatch()
        watch.start()
        for _ in range(_PROFILED):
            job.step()
        watch.stop()
        whole = watch.seconds()
    return {name: seconds / _PROFILED for name, seconds in shares(profiler.events(), whole).items()}


def shares(events: Iterable[Any], whole: float) -> dict[str, float]:
    """Return `step`, `communication` and `alone` in seconds from the profiler's events (in microseconds).

    What ran on a card counts if anything did; otherwise the host's operators and the backend's threads. Gloo's are the host's anyway.
    """
    found = [(str(one.device_type), one.name, (one.time_range.start, one.time_range.end)) for one in events]
    on_card = any(not kind.endswith("CPU") for kind, _, _ in found)
    ours = [(name, span) for kind, name, span in found if kind.endswith("CPU") != on_card]
    hosts = [span for kind, name, span in found if kind.endswith("CPU") and _HOST_ALONE.search(name)]
    talk = merged(hosts or [span for name, span in ours if _COMMUNICATION.search(name)])
    work = merged(
        [span for name, span in ours if not _COMMUNICATION.search(name) and (on_card or name.startswith("aten::"))]
    )
    return {"step": whole, "communication": length(talk) / 1e6, "alone": (length(talk) - overlap(talk, work)) / 1e6}


def merged(spans: Spans) -> Spans:
    """Return the same time as spans that do not touch each other, in order."""
    found: Spans = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end)
        else:
            found.append((start, end))
    return found


def length(spans: Spans) -> float:
    """Return how long merged spans are together."""
    return sum(end - start for start, end in spans)


def overlap(some: Spans, others: Spans) -> float:
    """Return how long two lists of merged spans run at the same time."""
    return length(some) + length(others) - length(merged([*some, *others]))


def split(ranks: list[dict[str, Any]]) -> dict[str, list[float]]:
    """Return the seconds of each round on the slowest rank: each kind of step, the ballast alone, and what each difference shows."""
    slowest = {
        kind: [max(times) for times in zip(*(rank["seconds"][kind] for rank in ranks), strict=True)]
        for kind in (*MODES, "ballast")
    }
    slowest["exposed"] = [on - off for on, off in zip(slowest["on"], slowest["off"], strict=True)]
    slowest["shown"] = [more - on for more, on in zip(slowest["more"], slowest["on"], strict=True)]
    return slowest


def middle(samples: list[float]) -> tuple[float, float, float]:
    """Return the median and the quartiles around it."""
    ordered, count = sorted(samples), len(samples)
    return median(ordered), ordered[count // 4], ordered[count - 1 - count // 4]

"""What communication costs: the bandwidth of collectives by size, and what a data-parallel step takes longer for having them.

Stored are seconds per GB on the slowest rank, of buffers that are verified after every span of calls, and seconds of whole steps.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median
from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import debugging_hooks, default_hooks
from torch.nn.parallel import DistributedDataParallel

from stackproof.base.text import error_line
from stackproof.collectives.calls import (
    COLLECTIVES,
    GUARD,
    Collective,
    batch_isend_irecv,
    fold,
    play,
    values,
)
from stackproof.collectives.rank import Board
from stackproof.ranks.exact import digest, timed
from stackproof.ranks.rank import Rank
from stackproof.workloads.base import Job
from stackproof.workloads.catalogue import get

_KIB = 1024
SMALLEST = 4 * _KIB
LARGEST = {"tiny": 16 * _KIB**2, "full": 256 * _KIB**2}
_STEP = 4
_PERIOD = 65521  # a prime: no chunk of a backend's begins with the same numbers as the one before

_WARM_UP = 3
_SPAN_S = 5e-3
_BUDGET_S = 0.2
_SPANS = (5, 15)
_MOST_CALLS = 50


@dataclass(frozen=True)
class Transfer:
    """One collective that is timed; `whole`: each tensor has all of the size, not a rank's share of it."""

    collective: Collective
    whole: bool = False
    grows: bool = False
    """Whether each call multiplies by the world size."""

    @property
    def row(self) -> str:
        """The check of exactness that it builds on."""
        return f"{self.collective.name}-{'sum' if self.collective.reduces else 'copy'}"


TRANSFERS = {
    "all_reduce": Transfer(COLLECTIVES["all_reduce"], whole=True, grows=True),
    "all_gather": Transfer(COLLECTIVES["all_gather_into_tensor"]),
    "reduce_scatter": Transfer(COLLECTIVES["reduce_scatter_tensor"]),
    "all_to_all": Transfer(COLLECTIVES["all_to_all_single"]),
    "broadcast": Transfer(COLLECTIVES["broadcast"], whole=True),
    "send_recv": Transfer(Collective(batch_isend_irecv, "of the peer before", "one", "each", between=True), whole=True),
}


class Buffers:
    """Tensors of one size on one rank's device: what is passed in, where the result arrives, and what both must be."""

    def __init__(self, transfer: Transfer, rank: int, world: int, count: int, device: torch.device) -> None:
        """Make them; `count`: elements of a rank's share."""
        self.collective, everyone = transfer.collective, range(world)

        def sent(source: int, part: int) -> torch.Tensor:
            """Small whole numbers that a rank has for a peer, or for all of them behind one another."""
            few = [
                values("sum", torch.float32, _PERIOD, source, one, 0, world)
                for one in (everyone if transfer.whole else [part])
            ]
            return torch.cat([numbers.repeat(-(-count // _PERIOD))[:count] for numbers in few]).to(device)

        seen = SimpleNamespace(sent=sent, fold=partial(fold, "sum"), index=rank, root=0, peers=world)
        self.source = torch.cat([sent(rank, part) for part in (everyone if self.collective.gives == "joined" else [0])])
        self.expected = torch.cat(self.collective.expected(seen))
        self.mine, in_place = torch.empty_like(self.source), self.collective.takes == "in place"
        self.out = self.mine if in_place else torch.empty_like(self.expected)
        self.turn = SimpleNamespace(
            mine=[self.mine], out=[self.out], op=dist.ReduceOp.SUM, root=0, peers=tuple(everyone), index=rank, group=None,
            later=False, sizes=None,
        )  # fmt: skip

    def call(self) -> None:
        """Call the collective once."""
        play(self.turn, self.collective)

    def fill(self) -> None:
        """Set the buffers as they are before a span; the result holds nothing right."""
        self.out.fill_(GUARD)
        self.mine.copy_(self.source)

    def wrong(self, scale: float) -> int:
        """Return how many numbers of the result are not `scale` times what one call makes."""
        return int((self.out != self.expected * scale).sum())


def sizes(preset: str) -> list[int]:
    """Return the sizes in bytes, each four times the one before."""
    steps = round(math.log(LARGEST[preset] / SMALLEST, _STEP))
    return [SMALLEST * _STEP**power for power in range(steps + 1)]


def words(size: int) -> str:
    """Return a size as people say it."""
    return f"{size // _KIB**2} MiB" if size >= _KIB**2 else f"{size // _KIB} KiB"


def per_gb(spans: Sequence[float], size: int, factor: float = 1.0) -> list[float]:
    """Return seconds per 10^9 bytes for calls that moved `size` bytes: of algbw, which is size over time, or of busbw.

    busbw is scaled by a factor so that it can be held against the links whatever the number of ranks. Sizes and factors are those of
    nccl-tests (https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md).
    """
    return [one / (size * factor / 1e9) for one in spans]


def most_calls(world: int) -> int:
    """Return how many sums in place stay exact in float32: 24 bits for the odd factor of n^calls, 127 powers of two."""
    odd = world // (world & -world)
    digits = (24 - 3 - math.log2(world)) / math.log2(odd) if odd > 1 else math.inf
    powers = 120 / math.log2(world) if world > 1 else math.inf
    return max(1, int(min(digits, powers, _MOST_CALLS)))


def bandwidth(rank: Rank) -> dict[str, Any]:
    """Return for each transfer and size: bytes, calls in a span, seconds of one call in each span on this rank, and wrong numbers.

    A transfer that the backend refuses has one entry with `refused`, what it said; the others are measured all the same.
    Arguments (of the specification): transfers (names), sizes (bytes).
    """
    found: dict[str, list[dict[str, Any]]] = {}
    for name in rank.arguments["transfers"]:
        if refusal := _refusal(rank, name):
            found[name] = [{"refused": refusal}]
            continue
        found[name] = []
        for size in rank.arguments["sizes"]:
            rank.phase(f"{name}, {words(size)}")
            found[name].append(one_size(rank, name, size))
    return {"rank": rank.rank, "backend": rank.backend, "transfers": found}


def _refusal(rank: Rank, name: str) -> str:
    """Call once on a few bytes: what a backend does not offer it refuses on every rank, before anything is sent."""
    rank.phase(f"{name}, asked once")
    try:
        Buffers(TRANSFERS[name], rank.rank, rank.world_size, 1, rank.device.torch).call()
    except (RuntimeError, ValueError, IndexError, NotImplementedError) as error:
        return error_line(error)
    rank.device.synchronize()
    return ""


def one_size(rank: Rank, name: str, size: int) -> dict[str, Any]:
    """Time spans of calls back to back; a span's data are set before it and compared after it.

    Returns size and bytes (of the whole tensor), calls in a span, seconds of one call by span, and how many numbers were wrong.
    """
    transfer, world = TRANSFERS[name], rank.world_size
    count = size // 4 // world
    buffers = Buffers(transfer, rank.rank, world, count, rank.device.torch)

    def span(calls: int) -> tuple[float, int]:
        buffers.fill()
        spent = timed(rank, buffers.call, calls)
        return spent, buffers.wrong(float(world) ** (calls - 1) if transfer.grows else 1.0)

    single = [span(1) for _ in range(_WARM_UP)]
    shortest = max(min(seconds for seconds, _ in single), 1e-9)
    most = most_calls(world) if transfer.grows else _MOST_CALLS
    calls = _decided(rank, f"{name} {size} calls", max(1, min(most, math.ceil(_SPAN_S / shortest))))
    spans = int(max(_SPANS[0], min(_SPANS[1], _BUDGET_S / (calls * shortest))))
    found = [span(calls) for _ in range(_decided(rank, f"{name} {size} spans", spans))]
    wrong = max(bad for _, bad in (*single, *found))
    each = [seconds / calls for seconds, _ in found]
    return {"size": size, "bytes": 4 * count * world, "calls": calls, "seconds": each, "wrong": wrong}


def _decided(rank: Rank, what: str, value: int) -> int:
    """Return rank 0's number; the others learn it through the store."""
    board = Board(what)
    if rank.rank == 0:
        board.tell(str(value))
    return int(board.text())


MODES = ("on", "off", "more")
_WARM_UP_STEPS = 2
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


def cost(rank: Rank) -> dict[str, Any]:
    """Return seconds of each kind of step in each round, of the ballast alone, digests of gradients, and the profiler's seconds.

    Exposed communication is what a step takes longer for having the all-reduce; what overlaps with compute costs nothing. A third kind
    of step proves the method: the time of all-reduces after it, which has nothing to hide behind, must show.

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
    rounds = _decided(rank, "rounds", round(_ROUNDS_S / (seconds * (len(MODES) + 2))))
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
    for mode in ("on", "off") * _WARM_UP_STEPS:
        seconds = _step(rank, job, switch, mode)
    wanted = _decided(rank, "size", round(_BALLAST * seconds / _ballast_s(rank, switch)))
    switch.ballast = torch.zeros(max(_BALLAST, min(_LARGEST_BALLAST, wanted)), device=rank.device.torch)
    repeats = _decided(rank, "repeats", round(seconds / _ballast_s(rank, switch)))
    switch.repeats = max(1, min(_MOST_REPEATS, repeats))
    timed(rank, switch.add)
    return seconds


def _ballast_s(rank: Rank, switch: Switch) -> float:
    """Return the seconds of the ballast, as the fastest of three says."""
    return max(min(timed(rank, switch.add) for _ in range(3)), 1e-9)


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


def quartiles(samples: list[float]) -> tuple[float, float, float]:
    """Return the median and the quartiles around it."""
    ordered, count = sorted(samples), len(samples)
    return median(ordered), ordered[count // 4], ordered[count - 1 - count // 4]

"""The device's clock is proved before it is believed, once a process: k and 2k units of known work must scale.

Then work is warmed up, and sampled until it is known well enough.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import median

from stackproof.base.statistics import median_interval
from stackproof.bench.subjects import Budget
from stackproof.device.kinds import Device
from stackproof.probes import clock
from stackproof.probes.spans import LONG_S, Sampler, Slope
from stackproof.record.checks import CheckFailed, CheckInconclusive
from stackproof.record.records import Figure

_ATTEMPTS = 3
"""A busy host can stretch one comparison; a clock that does not tell the time fails every one."""


@cache
def calibrate(device: Device) -> dict[str, Figure]:
    """Return by what factor twice the work takes longer, and how much of it was left when synchronising returned.

    Raises:
        CheckFailed: the clock, or synchronising, does not do what it says; no figure of this device can be believed.
        CheckInconclusive: others use the host so much that nobody can say.
    """
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            spans = clock.measure(device, clock.products(device))
            return {
                "calibration.share": clock.agrees(spans),
                "calibration.factor": clock.scales(spans, lambda turn: turn.device, f"{device}: its own clock"),
                "calibration.left": clock.waits(spans),
            }
        except (CheckFailed, CheckInconclusive):
            if attempt == _ATTEMPTS:
                raise
    raise AssertionError("the last attempt returns or raises")


_WINDOW = 5
_WINDOW_OF_LONG = 2
_LEAST_WARM_S = 0.3
"""A card's clock takes some tenths of a second to rise from idle."""
_MOST_WARM = 2000
_TELLING_S = 0.02
"""What queueing and waiting take beside a block is far less, where that is so long by its work and not by a stall of the host."""
_TELLING, _WHOLE, _WAIT_S = 2, 0.992, 3e-4
"""On a busy host the gaps between samples may be long in some blocks, and never in all; and a block begins and ends with a wait."""
_GAPS = 2
"""Between spans two marks follow each other, as they do in a span of no runs (14 to 32 us on an H100): twice that may pass there."""


@dataclass(frozen=True)
class Warmth:
    """How warming up went: runs, seconds, and whether the time of a run had settled at the end.

    `change`: by what share the last window of runs differed from the one before; `took`: the seconds of its shortest run.
    """

    runs: int
    seconds: float
    settled: bool
    change: float
    took: float


def freeze_collector() -> None:
    """Let Python's collector leave alone all objects that stand now, such as all that were imported.

    A scan of them would fall into one side's block and not into the other's. Garbage that is made from now on is collected as ever.
    `gc.unfreeze` ends it.
    """
    gc.collect()
    gc.freeze()


def warm_up(sampler: Sampler, seconds: float) -> Warmth:
    """Run at least ten times, at least 0.3 s, and until two windows of five samples agree, or until the seconds have passed.

    They agree when their medians differ by less than 2 %, or by less than the runs within them do. Windows of runs that take more
    than a second have two samples, and there are at least five runs.
    """
    sampler.start_clock()
    taken, runs = sampler.block(1), 1
    while True:
        window = _WINDOW if min(taken) < LONG_S else _WINDOW_OF_LONG
        taken += sampler.block(window)
        runs += window * sampler.number
        sampler.fit(min(taken[-window:]))
        spent = sampler.spent()
        if len(taken) > 2 * window and spent >= _LEAST_WARM_S:
            before, after = taken[-2 * window : -window], taken[-window:]
            spread = max(median(abs(took - median(part)) for took in part) for part in (before, after))
            change = abs(median(after) / median(before) - 1)
            settled = change <= max(0.02, 2 * spread / median(after))
            if settled or spent > seconds or runs > _MOST_WARM * sampler.number:
                return Warmth(runs, spent, settled, change, min(after))


def sample(
    sampler: Sampler,
    budget: Budget,
    compares: Callable[[bool], bool] = lambda _: True,
    after: Callable[[int], object] = lambda _: None,
    took: float = 0.0,
) -> Slope:
    """Take spans until the noise target or the cap is reached, in blocks of one length of which the last is compared.

    `compares` tells before a block whether it will be; then `after` is called with its runs. `took`: the seconds of a run, if known.

    Raises:
        ClockWrongError: the host's clock went wrong meanwhile, or spans do not add up to the time that passed, or lack something each.
        CheckInconclusive: spans do not add up, on a host so busy that as much may have passed between them.
    """
    began = clock.at(clock.raw, time.perf_counter)
    lengths = sampler.lengths(took or median(sampler.block(1)))
    sampler.start_clock()
    sampler.blocks.clear()
    slope, done, compared = Slope(), False, False
    while not (done and compared):
        compared = compares(done)
        slope.spans += sampler.spans(lengths, compared)
        slope.lengths += lengths
        spent = sampler.spent()
        # One block alone says nothing of the clock.
        done = enough(slope.seconds, budget, spent) and (len(sampler.blocks) >= _TELLING or spent >= budget.seconds)
        if compared:
            after(sum(lengths))
    clock.require_kept(began)
    if len(sampler.blocks) >= _TELLING and median(whole for whole, *_ in sampler.blocks) >= _TELLING_S:
        _require_whole(sampler.blocks, _GAPS * max(slope.empty, 0.0))
    return slope


def _require_whole(blocks: Sequence[tuple[float, float, int, float]], gap: float) -> None:
    """In each half of the blocks, as a clock may go wrong after a while, the spans of one at least add up to the time that passed."""
    half = len(blocks) // 2
    halves = [
        [(inside / whole, (gap * count + _WAIT_S) / whole, idle / whole) for whole, inside, count, idle in part]
        for part in ([blocks[:half], blocks[half:]] if half >= _TELLING else [blocks])
    ]
    share, worst = min((max(inside + usual for inside, usual, _ in part), part) for part in halves)
    if share >= _WHOLE:
        return
    sentence = (
        f"samples one after the other, and what passes between them, add up to {share:.1%} of the time by the host's raw counter at best, "
        f"{_WHOLE:.1%} are expected"
    )
    if median(inside + max(usual, idle) for inside, usual, idle in worst) >= _WHOLE:
        idle = median(idle for *_, idle in worst)
        raise CheckInconclusive(
            f"{sentence}; but others used the host so much that {idle:.1%} may have passed between them: run it again when it is quiet"
        )
    raise clock.ClockWrongError(f"{sentence}: the clock that times them leaves something out of each")


def enough(taken: Sequence[float], budget: Budget, spent: float) -> bool:
    """Whether samples that took so many seconds reach the noise target, or the cap."""
    if len(taken) >= budget.most or (spent >= budget.seconds and len(taken) >= min(budget.least, 3)):
        return True
    return len(taken) >= budget.least and median_interval(taken).relative <= budget.noise

"""Was what was timed computed, or kept from the run before? A run whose inputs are new takes as long as one whose inputs are not.

Looks at timed runs change the inputs, and so find what is wrong; work that is kept while its inputs stay is right, and was not done.
Nor do they find a run that is left out now and then, which leaves what the one before it left: some runs are looked at one by one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import median

from stackproof.bench.sampling import Sampler
from stackproof.device.kinds import Device
from stackproof.record.checks import CheckFailed
from stackproof.record.records import Figure
from stackproof.workloads.work import Work

PROOF = 0.05
"""So much of the time budget all looks may take; what is left goes to runs that are looked at one by one, a few at least."""
SINGLE = 64
"""So many runs in a row are looked at one by one at most."""
_LEAST_SINGLE = 4
PAIRS = 3
FACTOR = 2.0
"""A run of new inputs takes so many times as long only if more than half of the work of the others was not done."""


def require_computed(work: Work, device: Device, samples: Sequence[float]) -> dict[str, Figure]:
    """Time runs of new inputs beside runs of the same ones, when all looks are over; return how much longer the first take.

    Raises:
        CheckFailed: they take longer in all pairs, and the shortest takes longer than the samples.
    """
    pairs = []
    for _ in range(PAIRS):
        if not work.fresh_inputs():
            return {}
        pairs.append((_timed(work, device), _timed(work, device)))
    longer = sum(new > FACTOR * same for new, same in pairs)
    shortest = min(new for new, _ in pairs)
    if longer == PAIRS and shortest > FACTOR * median(samples):
        raise CheckFailed(
            f"a run whose inputs are new takes {shortest:.3g} s at least, the timed ones took {median(samples):.3g} s: "
            "what they left was kept from a run before, and not computed"
        )
    return {"new inputs, times as long": median(new / max(same, 1e-9) for new, same in pairs)}


def require_single(
    work: Work, sampler: Sampler, seconds: float, agreed: Callable[[bool], bool] = bool
) -> tuple[int, list[float]]:
    """Look at runs one by one for so long, a few at least; return how many, and those that are samples like any other.

    Args:
        work: it was timed, and held in full.
        sampler: took its samples; where one of these is one run, each run that is looked at is a sample too.
        seconds: looks and their runs may take together.
        agreed: what ranks make of going on.

    Raises:
        CheckFailed: a run did nothing, or something else than was proved.
    """
    alone, samples, end = replace(sampler, number=1), list[float](), time.perf_counter() + seconds
    while len(samples) < SINGLE and agreed(len(samples) < _LEAST_SINGLE or time.perf_counter() < end):
        # A harness may be newer than the workloads that it asks.
        if not getattr(work, "begin_spot_check", bool)():
            break
        samples += alone.block(1)
        try:
            work.end_spot_check()
        except CheckFailed as failure:
            raise CheckFailed(f"run {len(samples)} of those that were looked at one by one: {failure}") from failure
    return len(samples), samples if sampler.number == 1 else []


def _timed(work: Work, device: Device) -> float:
    device.synchronize()
    return Sampler(device, work.run).block(1)[0]

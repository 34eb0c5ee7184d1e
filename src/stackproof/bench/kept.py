"""Was what was timed computed, or kept from the run before? A run whose inputs are new takes as long as one whose inputs are not.

Looks at timed runs change the inputs, and so find what is wrong; work that is kept while its inputs stay is right, and was not done.
Nor do they find a run that is left out now and then, which leaves what the one before it left: some runs are looked at one by one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from statistics import median

from stackproof.bench.sampling import Sampler
from stackproof.device.kinds import Device
from stackproof.operators.spoiling import Spoilt
from stackproof.record.checks import CheckFailed
from stackproof.record.records import Figure
from stackproof.workloads.work import Work

PROOF = 0.05
"""So much of the time budget all looks may take; what is left goes to runs that are looked at one by one, a few at least."""
SINGLE = 64
"""So many runs in a row are looked at one by one at most."""
_LEAST_SINGLE = 4
PAIRS = 7
_ODD = 1
"""So many pairs may say otherwise, because a neighbour held one of their runs up."""
FACTOR = 2.0
"""A run of new inputs takes so many times as long only if more than half of the work of the others was not done."""


def require_computed(work: Work, device: Device, samples: Sequence[float]) -> dict[str, Figure]:
    """Time runs of new inputs beside runs of the same ones, when all looks are over; return how much longer the first take.

    Raises:
        CheckFailed: they take longer in all pairs but one, and the shortest takes longer than the samples.
    """
    pairs = []
    for _ in range(PAIRS):
        if not work.renew():
            return {}
        pairs.append((_timed(work, device), _timed(work, device)))
    longer = sum(new > FACTOR * same for new, same in pairs)
    shortest = min(new for new, _ in pairs)
    if longer >= PAIRS - _ODD and shortest > FACTOR * median(samples):
        raise CheckFailed(
            f"a run whose inputs are new takes {shortest:.3g} s at least, the timed ones took {median(samples):.3g} s: "
            "what they left was kept from a run before, and not computed"
        )
    return {"new inputs, times as long": median(new / max(same, 1e-9) for new, same in pairs)}


def require_single(
    work: Work, device: Device, seconds: float, agreed: Callable[[bool], bool] = bool
) -> dict[str, Figure]:
    """Look at runs one by one, again and again for so long; return how many they were. `agreed`: what ranks make of going on.

    Of work that writes where the run before wrote, some of what stands there is spoilt, and must be written anew. Other work says itself
    what a single run must do.

    Raises:
        CheckFailed: a run did nothing, or something else than was proved.
    """
    runs, end = 0, time.perf_counter() + seconds
    while runs < SINGLE and agreed(runs < _LEAST_SINGLE or time.perf_counter() < end):
        try:
            if not _looked_at(work, device):
                return {}
        except CheckFailed as failure:
            raise CheckFailed(f"run {runs + 1} of those that were looked at one by one: {failure}") from failure
        runs += 1
    return {"runs looked at one by one": runs}


def _looked_at(work: Work, device: Device) -> bool:
    """Look at one run, where there is a way to."""
    work.ready(1)
    target = work.written()
    if target is None:
        # A harness may be newer than the workloads that it asks.
        return bool(getattr(work, "single", bool)())
    spoilt = Spoilt([target])
    work.run()
    device.synchronize()
    if spoilt.left([target]):
        raise CheckFailed("it did not write what it must: some of the timed ones did nothing")
    return True


def _timed(work: Work, device: Device) -> float:
    device.synchronize()
    return Sampler(device, work.run).block(1)[0]

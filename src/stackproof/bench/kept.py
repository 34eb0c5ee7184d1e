"""Was what was timed computed, or kept from the run before? A run whose inputs are new takes as long as one whose inputs are not.

Looks at timed runs change the inputs, and so find what is wrong; work that is kept while its inputs stay is right, and was not done.
Nor do they find a run that is left out now and then, which leaves what the one before it wrote: some runs are looked at one by one.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from statistics import median

import torch

from stackproof.bench.sampling import Sampler
from stackproof.device.kinds import Device
from stackproof.record.checks import CheckFailed
from stackproof.record.records import Figure
from stackproof.workloads.work import Work

SINGLE = 64
"""So many runs in a row are looked at one by one at most."""
_LEAST_SINGLE = 2
_PLACES = 64
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


def require_written(work: Work, device: Device, seconds: float) -> dict[str, Figure]:
    """Spoil some of what a run must write, let it run, and look there, again and again for so long; return how many runs were looked at.

    Raises:
        CheckFailed: a run did not write there.
    """
    target = work.written()
    if target is None:
        return {}
    runs, end = 0, time.perf_counter() + seconds
    while runs < SINGLE and (runs < _LEAST_SINGLE or time.perf_counter() < end):
        runs += 1
        if _idle(work, device, target.view(-1)):
            raise CheckFailed(
                f"run {runs} of those that were looked at one by one did not write what it must: some of the timed ones did nothing"
            )
    return {"runs looked at one by one": runs}


def _idle(work: Work, device: Device, written: torch.Tensor) -> bool:
    """Whether a run leaves some of a few numbers as something else has spoilt them."""
    places = torch.randint(written.numel(), (_PLACES,)).to(written.device)
    found = written[places]
    spoilt = torch.full_like(found, torch.nan) if found.is_floating_point() else ~found
    written[places] = spoilt
    work.ready(1)
    work.run()
    device.synchronize()
    left = written[places]
    return bool((left.isnan() if left.is_floating_point() else left == spoilt).any())


def _timed(work: Work, device: Device) -> float:
    device.synchronize()
    return Sampler(device, work.run).block(1)[0]

"""Was what was timed computed, or kept from the run before? A run whose inputs are new takes as long as one whose inputs are not.

Looks at timed runs change the inputs, and so find what is wrong; work that is kept while its inputs stay is right, and was not done.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from stackproof.bench.sampling import Sampler
from stackproof.device.kinds import Device
from stackproof.record.checks import CheckFailed
from stackproof.record.records import Figure
from stackproof.workloads.work import Work

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


def _timed(work: Work, device: Device) -> float:
    device.synchronize()
    return Sampler(device, work.run).block(1)[0]

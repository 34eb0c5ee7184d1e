"""The engine that takes figures which can be believed: verified first, warmed up, timed by the device's own clock.

`measure(subject, device, preset, budget)` returns a `Sampled`; `subjects(profile, stack)` says what there is to measure.
Nothing here imports torch until something is measured, so that a listing is cheap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stackproof.bench.rows import Sampled
from stackproof.bench.subjects import Budget, Subject

if TYPE_CHECKING:
    from stackproof.device.kinds import Device


def measure(subject: Subject, device: Device, preset: str, budget: Budget) -> Sampled:
    """Verify one run of the subject on the device, warm up until its time settles, and sample to the budget's noise target.

    A subject that computes wrong comes back with `verified` false, the reason, and no samples.

    Raises:
        CapabilityMissing: a rule in data says that this stack, or this environment, cannot run it.
        CheckFailed: the device's clock or its synchronisation cannot be believed.
        CheckInconclusive: other processes use the card, and the budget does not allow that.
    """
    from stackproof.bench.engine import run

    return run(subject, device, preset, budget)

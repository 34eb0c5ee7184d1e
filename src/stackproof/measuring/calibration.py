"""The device's clock is proved before it is believed, once a process: k and 2k units of known work must scale."""

from __future__ import annotations

from functools import cache

from ..checks import CheckFailed
from ..device import Device
from ..probes import timekeeping
from ..records import Figure

_ATTEMPTS = 3
"""A busy host can stretch one comparison; a clock that does not tell the time fails every one."""


@cache
def calibrate(device: Device) -> dict[str, Figure]:
    """Return by what factor twice the work takes longer, and how much of it was left when synchronising returned.

    Raises:
        CheckFailed: the clock, or synchronising, does not do what it says; no figure of this device can be believed.
    """
    for _ in range(_ATTEMPTS - 1):
        try:
            return _compared(device)
        except CheckFailed:
            continue
    return _compared(device)


def _compared(device: Device) -> dict[str, Figure]:
    spans = timekeeping.measure(device, timekeeping.products(device))
    return {
        "calibration.factor": timekeeping.scales(spans, lambda turn: turn.device, f"{device}: its own clock"),
        "calibration.left": timekeeping.waits(spans),
        "calibration.share": timekeeping.agrees(spans),
    }

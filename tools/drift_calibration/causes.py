"""Is the cause class right: code, driver and machine steps planted among nightly commits, other drivers and a machine that wanders."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path

import numpy as np

from stackproof.extras.nights.drift.nights import FigureKey, Measured, Night
from stackproof.extras.nights.drift.rules import Cause, SeriesKind
from stackproof.extras.nights.drift.series import trends
from stackproof.extras.nights.drift.suspicions import suspect
from stackproof.record.store import Place, State

PLANTED = (Cause.CODE, Cause.DRIVER, Cause.MACHINE)
_KEY = FigureKey("figure", "tiny", 1, "s", "1")
_PLACE = Place("host", "stack", False, "device", "0" * 64)
_BEGAN = datetime(2026, 1, 1, tzinfo=timezone.utc)
_OWN, _SHARED, _WALK, _DRIVER_EVERY = 0.005, 0.008, 0.0005, 45
_AFTER = 15


def nights(cause: Cause, size: float, step: int, dice: np.random.Generator) -> list[Night]:
    """Return nights with one step of a class. A commit lands every night; drivers that change nothing come every 45 nights or so."""
    count = step + _AFTER
    shared = dice.normal(0, _SHARED, count) + np.cumsum(dice.normal(0, _WALK, count))
    today, anchor = (shared + dice.normal(0, _OWN, count) for _ in range(2))
    today[step:] += size
    if cause is not Cause.CODE:
        anchor[step:] += size
    idle = np.cumsum(dice.random(count) < 1 / _DRIVER_EVERY)
    drivers = idle + (cause is Cause.DRIVER) * (np.arange(count) >= step)
    return [_night(day, float(today[day]), float(anchor[day]), int(drivers[day])) for day in range(count)]


def _night(day: int, today: float, anchor: float, driver: int) -> Night:
    state = State({"driver": {"driver.x": str(driver)}, "code": {"commit": f"{day:040x}"}})
    sides = {Measured.TODAY: (float(np.exp(today)),), Measured.ANCHOR: (float(np.exp(anchor)),)}
    return Night(Path(f"{day}.json"), _BEGAN + timedelta(days=day), _PLACE, state, "a", "", "", {_KEY: sides})


def blamed(cause: Cause, size: float, step: int, dice: np.random.Generator) -> Cause | None:
    """Return the first cause of the first suspicion after the step; None where nothing is suspected within 15 nights."""
    whole = nights(cause, size, step, dice)
    for until in range(step + 1, len(whole) + 1):
        drawn = trends(_PLACE, whole[:until])
        settled = [{kind: one.values[kind] for kind in SeriesKind} for one in drawn]
        if found := suspect(drawn, settled):
            return found[0].causes[0]
    return None

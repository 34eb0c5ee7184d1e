"""Relations of operators on points that no run has had before, a minute by each seed; `nox -s explore` draws the seeds.

Not seen: what both ways do wrong alike, layers and sizes, whose points are the same by every seed.
"""

from __future__ import annotations

import math

import pytest

from stackproof.device.kinds import Device
from stackproof.operators import explore
from stackproof.record.records import Figure
from stackproof.runner.request import Request

OPTIONS = Request.load().options
MINUTES = float(OPTIONS.get("minutes", "0.01"))
CASE = OPTIONS.get("case", "")
if CASE:
    explore.cases(CASE)  # which operators there are is known only here; what names none ends the run at once
SEEDS = [int(OPTIONS.get("seed", "1")) + number for number in range(math.ceil(MINUTES))]


@pytest.mark.deadline(300)
@pytest.mark.parametrize("seed", SEEDS)
def test_hold(seed: int, device: Device, figures: dict[str, Figure], capfd: pytest.CaptureFixture[str]) -> None:
    """No relation fails at the points of this seed that no row knows; the figures have code and a row for each cause of failures."""
    with capfd.disabled():  # the log ends with what was asked last
        explore.check(seed, min(1.0, MINUTES / len(SEEDS)), device, figures, CASE)

"""Relations that hold for any operator, on points that a pinned seed draws: no case is written for any.

Not seen: what both ways do wrong alike. Known exceptions are rows of data/relations.toml, each with a link and an end.
"""

from __future__ import annotations

import pytest

from stackproof.device.kinds import Device
from stackproof.operators import engine
from stackproof.record.records import Figure

CASES = {f"{judge}-{name}": (judge, name) for judge, name in engine.cases() if judge != "sizes"}


@pytest.mark.deadline(120)
@pytest.mark.parametrize("case", CASES)
def test_holds(case: str, device: Device, figures: dict[str, Figure]) -> None:
    """Two ways to the same results agree as far as rounding lets them, or a row with a link says since when they do not."""
    engine.check(*CASES[case], device, figures)

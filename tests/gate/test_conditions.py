"""What else changed is said when it is worth a word, and not before."""

from __future__ import annotations

from typing import Any

import pytest

from stackproof.gate import plan
from stackproof.gate.conditions import Conditions


def _said(*launches: dict[str, Any], load: float = 0.0) -> str:
    found = Conditions(plan.load().conditions)
    for launch in launches:
        found.add([{"reading": {}, "throttled": [], "others": [], **launch}], load)
    return "; ".join(found.said())


def _reading(**values: float) -> dict[str, Any]:
    return {"reading": values}


@pytest.mark.parametrize(
    ("first", "last", "said"),
    [
        ({"sm_mhz": 1980.0}, {"sm_mhz": 1950.0}, ""),
        ({"sm_mhz": 1980.0}, {"sm_mhz": 1500.0}, "clock (sm_mhz) moved between 1500 and 1980"),
        ({"celsius": 50.0}, {"celsius": 58.0}, ""),
        ({"celsius": 50.0}, {"celsius": 70.0}, "temperature (celsius) moved between 50 and 70"),
    ],
)
def test_clocks_and_temperature_are_said_from_their_rows_on(
    first: dict[str, float], last: dict[str, float], said: str
) -> None:
    found = _said(_reading(**first), _reading(**last))
    assert said in found
    assert bool(said) == bool(found)


def test_others_are_counted_by_launch() -> None:
    found = _said({"others": ["python (7)"], "throttled": ["software power cap"]}, {}, load=0.4)
    assert "python (7) used the card in 1 of 2 launches" in found
    assert "throttled in 1 of 2 launches: software power cap" in found
    assert "others used up to 40% of the host's cores, in 2 of 2 launches" in found


def test_a_quiet_run_has_nothing_to_say() -> None:
    assert _said({}, {}) == ""

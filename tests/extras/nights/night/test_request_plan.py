"""Which nights are left out: by what others did and by what slowed the card."""

from __future__ import annotations

import pytest

from stackproof.extras.nights.night import request
from stackproof.extras.nights.night.request import disturbances
from stackproof.gate.interleave import Conditions

RULES = request.load_plan().admission


def seen(load: float = 0.01, throttled: str = "", other: str = "") -> Conditions:
    """Return what three launches were told; the last is as asked for."""
    found = Conditions(())
    for number in range(3):
        last = number == 2
        told = {
            "reading": {},
            "throttled": [throttled] if throttled and last else [],
            "others": [other] if other and last else [],
        }
        found.add([told], load if last else 0.01)
    return found


def test_a_quiet_night_is_admitted() -> None:
    assert disturbances(seen(), RULES, "cpu") == []


def test_foreign_load_counts_by_device() -> None:
    assert disturbances(seen(load=0.4), RULES, "cpu") == [
        "others used 40% of the host's cores in 1 of 3 launches (25% are allowed)"
    ]
    assert disturbances(seen(load=0.4), RULES, "cuda") == []


@pytest.mark.parametrize(
    "reason", ["software thermal slowdown", "hardware thermal slowdown", "hardware slowdown", "hardware power brake"]
)
def test_heat_and_brakes_disturb(reason: str) -> None:
    assert disturbances(seen(throttled=reason), RULES, "cuda") == [f"the card was slowed in 1 of 3 launches: {reason}"]


def test_a_card_at_its_power_limit_is_as_it_always_is() -> None:
    assert disturbances(seen(throttled="software power cap"), RULES, "cuda") == []


def test_somebody_on_the_card_is_named() -> None:
    assert disturbances(seen(other="python (42)"), RULES, "cuda") == ["python (42) used the card in 1 of 3 launches"]

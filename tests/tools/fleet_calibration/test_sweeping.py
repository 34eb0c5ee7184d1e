"""The laboratory of fleets: what is planted is there, other rules are what they say, and ours is the product's own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tools.fleet_calibration import __main__ as calibration
from tools.fleet_calibration import small, speed, sweeping, worlds
from tools.fleet_calibration.rivals import RIVALS
from tools.fleet_calibration.worlds import FleetWorld


def test_a_world_has_what_is_planted() -> None:
    made = worlds.made(FleetWorld(2000), np.random.default_rng(1))
    assert len(made.planted) == 4
    assert np.mean([made.true[at] for at in made.planted.items()]) == pytest.approx(np.log(1.03), abs=0.01)
    healthy = np.delete(made.true, list(made.planted), axis=0)
    assert healthy.std() == pytest.approx(0.004, rel=0.05)


@pytest.mark.parametrize("name", RIVALS)
def test_rivals_see_what_nobody_could_miss(name: str) -> None:
    seen = np.random.default_rng(2).normal(0, 1e-4, (100, 5))
    seen = np.clip(seen, -2e-4, 2e-4)
    seen[3, 2] = np.log(1.25)
    assert np.argwhere(RIVALS[name](seen)).tolist() == [[3, 2]]


def test_equal_hosts_are_drained_by_nobody() -> None:
    found = sweeping.sweep(FleetWorld(64, slow=0.08), 10, 3)
    ours = found.tallies[sweeping.OURS]
    assert (ours.false, ours.found, ours.planted) == (0, 10, 10)


def test_the_table_and_the_speed(tmp_path: Path) -> None:
    took = speed.measured(20, tmp_path)
    text = calibration.tables([sweeping.sweep(FleetWorld(64), 2, 4)], took)
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert len(rows) == 2 + len(RIVALS) + 2 and rows[-1].startswith(f"| **{sweeping.OURS}**")
    assert took.seconds > 0 and "20 records" in text


def test_small_groups_have_a_row_each() -> None:
    rows = [line for line in small.table(3, 1).splitlines() if line.startswith("| ")]
    assert [row.split(" | ")[0] for row in rows[1:]] == [f"| {size}" for size in small.SIZES]
    assert rows[1].count("0.0 % slow") == 3 and rows[1].count("100.0 % undecided") == 3

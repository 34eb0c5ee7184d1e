"""The laboratory of nights: what happens is found, what does not is not, and what is left out is what the product leaves out."""

from __future__ import annotations

import numpy as np
import pytest

from tools.drift_calibration import worlds
from tools.drift_calibration.watching import alarms, gate, watch, within
from tools.drift_calibration.worlds import World


def world(rows: int, nights: int, name: str = "white", seed: int = 1) -> World:
    """Return a small synthetic world."""
    return worlds.synthetic(name, rows, nights, np.random.default_rng(seed))


def test_a_planted_step_is_told_once() -> None:
    quiet = world(40, 80)
    seen = watch(quiet, worlds.truth((40, 80), 0.1, 50), 30, np.random.default_rng(2))
    found = within(seen.told, 50)
    assert len(found) == 40 and np.median(found) == 1
    assert np.mean([len(row) for row in seen.told]) < 1.1


def test_nothing_that_is_not_there_is_told() -> None:
    quiet = world(60, 80, "bad nights")
    seen = watch(quiet, np.zeros((60, 80)), 30, np.random.default_rng(2))
    assert sum(map(len, seen.suspected)) > 10 and sum(map(len, seen.told)) <= 1 and seen.gates > 10


def test_a_gate_sees_what_is_planted() -> None:
    low, high = gate(world(1, 10), 0.05, np.random.default_rng(3))
    assert 0 < low < 0.05 < high


@pytest.mark.parametrize("name", worlds.SYNTHETIC)
def test_every_world_has_its_noise(name: str) -> None:
    assert 0.005 < float(np.nanstd(world(50, 100, name).quiet)) < 0.03


@pytest.mark.parametrize("name", worlds.REAL)
def test_real_launches_make_series(name: str) -> None:
    found = worlds.real(name, 6, 50, np.random.default_rng(1))
    assert found.quiet.shape == (6, 50) and (found.quiet.std(axis=1) > 0).all() and abs(np.median(found.quiet)) < 0.01


def test_a_ramp_grows_by_equal_parts() -> None:
    assert np.allclose(worlds.truth((1, 20), 0.1, 5, 10)[0, [4, 5, 14, 19]], [0, 0.01, 0.1, 0.1])


def test_a_rival_is_counted_once_a_step() -> None:
    assert alarms(lambda values: [len(values) - 1] if len(values) < 14 else [10], np.zeros((1, 20)), 9) == [[9]]
    assert alarms(lambda values: [len(values) - 1], np.zeros((1, 30)), 9) == [[9, 15, 21, 27]]

"""Gates drawn from launches that ran: the gate's own judgement, no process, the same for the same pool."""

from __future__ import annotations

import math
import random

import pytest

from stackproof.gate import plan
from tools.gate_calibration import drawing
from tools.gate_calibration.calibrate import Trial
from tools.gate_calibration.drawing import Launch


def _pool(noise: float, count: int = 120) -> list[Launch]:
    dice = random.Random(3)
    return [{name: dice.gauss(0, noise) for name in ("gemm-float32", "copy-within")} for _ in range(count)]


def test_equal_sides_hardly_ever_fail_and_a_large_loss_always_does() -> None:
    equal, large = (drawing.draw(_pool(0.01), worse, plan.load(), "cpu", 300) for worse in (0.0, 0.12))
    assert equal.failed <= 0.01
    assert equal.unsure <= 0.05
    assert large.failed >= 0.99


def test_power_rises_with_the_loss() -> None:
    found = [drawing.draw(_pool(0.02), worse, plan.load(), "cpu", 200).failed for worse in (0.025, 0.05, 0.10)]
    assert found[0] < found[1] < found[2]


def test_noise_is_no_failure() -> None:
    blind = drawing.draw(_pool(0.5), 0.05, plan.load(), "cpu", 100)
    assert blind.failed <= 0.03
    assert blind.unsure >= 0.9


def test_the_pool_is_the_first_launches_of_each_gate() -> None:
    blocks = {"base": [[1.0, 1.0]] * 9, "head": [[1.1, 1.1]] * 9}
    trial = Trial("equal sides", 0, "passed", 1.0, 9, {}, {}, {}, {"gemm-float32": blocks}, {})
    launches = drawing.pool([trial, trial], 6)
    assert len(launches) == 12
    assert launches[0]["gemm-float32"] == pytest.approx(math.log(1.1))


def test_the_same_pool_gives_the_same_gates() -> None:
    assert drawing.draw(_pool(0.02), 0.05, plan.load(), "cpu", 50) == drawing.draw(
        _pool(0.02), 0.05, plan.load(), "cpu", 50
    )

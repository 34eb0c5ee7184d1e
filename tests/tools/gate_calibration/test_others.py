"""Other people's tools judge the same seconds by their own code: each is seen to call a loss, and to be calm without one."""

from __future__ import annotations

import importlib.util
import random

import pytest

from stackproof.base.errors import Refusal
from tools.gate_calibration import others

DICE = random.Random(3)
BASE = [1 + DICE.gauss(0, 0.005) for _ in range(10)]
SAME = [1 + DICE.gauss(0, 0.005) for _ in range(10)]


def _worse(share: float) -> list[float]:
    return [(1 + share) * second for second in SAME]


@pytest.mark.parametrize("name", others.JUDGES)
def test_each_calls_twenty_per_cent(name: str) -> None:
    assert others.JUDGES[name](BASE, _worse(0.2))


@pytest.mark.parametrize("name", others.JUDGES)
def test_none_calls_a_gain(name: str) -> None:
    assert not others.JUDGES[name](BASE, _worse(-0.2))


def test_thresholds_are_their_own() -> None:
    assert not others.asv_compare(BASE, _worse(0.07))
    assert others.pytest_benchmark(BASE, _worse(0.07))
    assert others.pyperf(BASE, _worse(0.07))
    assert not others.pyperf(BASE, _worse(0.01), least=2.0)


def test_a_tool_that_is_absent_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "pyperf" else object())
    with pytest.raises(Refusal, match="pyperf are not installed"):
        others.require()

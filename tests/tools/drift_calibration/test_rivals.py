"""The other detectors: each sees a large step where it is, and none in a constant."""

from __future__ import annotations

import numpy as np
import pytest

from tools.drift_calibration.rivals import RIVALS


@pytest.mark.parametrize("name", RIVALS)
def test_a_large_step_is_seen_where_it_is(name: str) -> None:
    if name.startswith("asv"):
        pytest.importorskip("asv")
    values = 1 + np.random.default_rng(1).normal(0, 0.01, 42)
    values[30:] *= 1.2
    seen = RIVALS[name](values[:31] if name.startswith("neighbours") else values)
    assert any(abs(place - 30) <= 1 for place in seen)

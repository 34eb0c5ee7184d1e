"""Causes in the laboratory: a large step of each class is blamed on it."""

from __future__ import annotations

import numpy as np
import pytest

from stackproof.extras.nights.drift.rules import Cause
from tools.drift_calibration import causes


@pytest.mark.parametrize("cause", causes.PLANTED)
def test_a_large_step_is_blamed_on_its_class(cause: Cause) -> None:
    found = [causes.blamed(cause, 0.08, 40, np.random.default_rng(seed)) for seed in range(10)]
    assert found.count(cause) >= 9

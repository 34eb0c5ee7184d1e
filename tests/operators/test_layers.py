"""Layers by their definitions, on numbers that can be done by hand."""

from __future__ import annotations

import numpy as np
import pytest

from stackproof.operators import layers


def test_batch_statistics_by_hand() -> None:
    pictures = np.array([0.0, 2.0]).reshape(2, 1, 1, 1)
    found = layers.batch_norm(pictures, np.zeros(1), np.ones(1), training=True, momentum=0.1, eps=0.0)
    assert found["output"].reshape(-1).tolist() == [-1, 1]
    assert (found["running_mean"][0], found["running_var"][0]) == pytest.approx((0.1, 1.1))

"""Closed forms of optimisers do what their papers say, in cases that are known without them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from stackproof.operators import recurrences
from stackproof.operators.forms import State

ONE: State = {"parameter": np.array([2.0])}
BETAS = {"lr": 0.1, "betas": (0.9, 0.99), "eps": 1e-8, "weight_decay": 0.0}


def test_each_is_an_optimiser_of_torch() -> None:
    assert [name for name in recurrences.RECURRENCES if not hasattr(torch.optim, name)] in ([], ["Adafactor"])


def test_steps_by_sign_shrink_where_the_sign_turns() -> None:
    options = {"lr": 0.1, "etas": (0.5, 1.2), "step_sizes": (1e-6, 50.0)}
    first = recurrences.rprop(ONE, np.array([3.0]), options)
    assert first["parameter"] == pytest.approx(1.9)
    second = recurrences.rprop(first, np.array([-3.0]), options)
    assert (second["parameter"], second["step_size"], second["prev"]) == pytest.approx((1.9, 0.05, 0.0))


@pytest.mark.parametrize("slope", [1e-3, 1e3])
@pytest.mark.parametrize("name", ["NAdam", "Adamax", "Adagrad", "Adam"])
def test_adaptive_first_steps_do_not_know_the_gradients_size(name: str, slope: float) -> None:
    options = {**BETAS, "momentum_decay": 0.004, "lr_decay": 0.0, "initial_accumulator_value": 0.0}
    moved = 2.0 - recurrences.RECURRENCES[name](ONE, np.array([slope]), options)["parameter"]
    assert moved == pytest.approx(0.1, rel=0.2)


def test_the_rectified_rate_waits() -> None:
    first = recurrences.radam(ONE, np.array([1e-3]), BETAS)
    assert first["parameter"] == pytest.approx(2.0 - 0.1 * 1e-3)


def test_an_average_is_that_of_what_came_after_t0() -> None:
    options = {"lr": 0.5, "lambd": 0.0, "alpha": 0.75, "t0": 1, "weight_decay": 0.0}
    state, seen = ONE, []
    for _ in range(4):
        state = recurrences.asgd(state, np.array([1.0]), options)
        seen.append(float(state["parameter"][0]))
    assert seen == pytest.approx([1.5, 1.0, 0.5, 0.0])
    assert state["ax"] == pytest.approx(np.mean(seen[2:]))


def test_a_quasi_newton_method_finds_the_bottom_of_a_bowl() -> None:
    matrix = np.diag([1.0, 2.0, 5.0])
    end = recurrences.quasi_newton(lambda place: matrix @ place, np.array([3.0, -1.0, 2.0]), 1.0, 5, 25)
    assert np.abs(end).max() < 1e-6

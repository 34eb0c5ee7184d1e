"""What a run's own figures say is odd or wrong; each finding has a run in which it is absent."""

from __future__ import annotations

from typing import Any

import pytest

from stackproof.triage.figures import Training, oddities


def found(series: dict[str, list[float]] | None = None, **figures: float) -> dict[str, bool]:
    """Return the oddities of such a run, and whether they are called wrong."""
    training = Training(("transformers",), dict(figures), {}, dict(series or {}))
    return {oddity.id: oddity.wrong for oddity in oddities(training)}


FALLING = [3.0, 2.5, 2.2, 2.0, 1.9, 1.8, 1.7, 1.65, 1.6, 1.58, 1.55, 1.5]


def test_a_policy_has_no_loss_where_answers_are_equally_good() -> None:
    assert found({"loss": [0.0, 0.0, 0.0], "reward": [0.1, 0.2, 0.3], "kl": [0.0, 0.0, 0.0]}) == {}


@pytest.mark.parametrize(
    ("losses", "names"),
    [
        (FALLING, {}),
        ([0.0, 0.0, 0.0], {"loss-zero": True}),
        ([2.0, 1.0, 0.0, 0.0], {"loss-zero": True}),
        ([2.0, 1.0, 0.0], {}),
        ([2.0, 0.1, 0.004, 0.0003, 0.0001, 0.0, 0.0], {}),
        ([2.0, 0.1, 0.004, 0.0, 0.0], {"loss-zero": True}),
        ([2.0, float("nan"), float("nan")], {"loss-nan": True}),
        ([2.0, float("inf")], {"loss-nan": True}),
        (list(reversed(FALLING)), {"loss-rises": False}),
        ([], {}),
    ],
)
def test_losses(losses: list[float], names: dict[str, bool]) -> None:
    assert found({"loss": losses}) == names


@pytest.mark.parametrize(
    ("rates", "names"),
    [
        ([0.0, 0.0], {"rate-zero": True}),
        ([0.0, 1e-5], {}),
        ([n * 1e-6 for n in range(10)], {}),
        ([*(n * 1e-6 for n in range(10)), 5e-6], {}),
    ],
)
def test_learning_rates(rates: list[float], names: dict[str, bool]) -> None:
    assert found({"learning_rate": rates}) == names


def test_steps_that_were_all_skipped() -> None:
    assert found({"skipped": [10, 20], "global_step": [10, 20]}) == {"all-steps-skipped": True}
    assert found({"skipped": [4, 4], "global_step": [10, 20]}) == {}


@pytest.mark.parametrize(
    ("figures", "names"),
    [
        ({"global_batch": 16, "device_batch": 1, "accumulation": 8, "world_size": 2}, {}),
        ({"global_batch": 8, "device_batch": 1, "accumulation": 8, "world_size": 2}, {"batch": True}),
    ],
)
def test_figures_that_do_not_add_up(figures: dict[str, Any], names: dict[str, bool]) -> None:
    assert found(**figures) == names

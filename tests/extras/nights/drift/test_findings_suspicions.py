"""Suspicions: the cause of planted steps, their night, and the command that confirms them."""

from __future__ import annotations

import pytest

from stackproof.extras.nights.drift.scan import SeriesKind
from tests.extras.nights.drift.nightly import Story, commit, judged, steps, told

CASES = {
    "code": Story(code=(50, 0.03)),
    "wheels": Story(lock=(50, 0.03)),
    "driver": Story(driver=(50, 0.04)),
    "machine": Story(machine=(50, 0.04)),
}


@pytest.mark.parametrize("cause", CASES)
@pytest.mark.parametrize("seed", range(5))
def test_a_planted_step_is_blamed_on_its_cause(cause: str, seed: int) -> None:
    from dataclasses import replace

    found = steps(told(replace(CASES[cause], seed=seed)))
    assert [step.causes[0].value for step in found] == [cause]
    assert found[0].slower and found[0].between[0] <= "2026-02-20" <= found[0].between[1]


def test_a_new_driver_without_a_step_starts_no_blind_line() -> None:
    found = judged(told(Story(driver=(48, 0.0), code=(50, 0.05), count=52))).suspicions
    assert [(step.kind, step.causes[0].value) for step in found] == [(SeriesKind.RATIO, "code")]


def test_two_things_at_once_are_two_suspicions() -> None:
    found = steps(told(Story(code=(52, 0.04), machine=(40, -0.05))))
    assert [(step.kind, step.causes[0].value) for step in found] == [
        (SeriesKind.RATIO, "code"),
        (SeriesKind.ANCHOR, "machine"),
    ]


def test_quiet_nights_are_quiet() -> None:
    assert sum(len(steps(told(Story(seed=seed)))) for seed in range(30)) <= 2


def test_the_command_measures_both_states() -> None:
    (code,) = judged(told(Story(code=(50, 0.05)))).suspicions
    assert code.interleaved
    assert code.command == f"nox -s cuda-gate -- --base {commit(49)} --head {commit(50)} --only gemm-float32"
    (machine,) = judged(told(Story(machine=(50, 0.08), count=54))).suspicions
    assert not machine.interleaved and machine.command == "nox -s cuda-night"


@pytest.mark.parametrize(("size", "slowdowns"), [(0.08, 1), (-0.08, 0)])
def test_what_no_gate_can_show_is_confirmed_when_it_has_lasted_five_nights(size: float, slowdowns: int) -> None:
    early, late = (judged(told(Story(machine=(50, size), count=count))) for count in (54, 55))
    assert len(early.suspicions) == 1 and not early.confirmed
    assert len(late.confirmed) == 1 and not late.suspicions and len(late.slowdowns) == slowdowns


def test_a_commit_that_nobody_can_go_back_to_is_not_asked_for() -> None:
    dirty = f"{commit(7)} (with local changes)"
    (step,) = steps(told(Story(code=(50, 0.05), facts={"commit": dirty})))
    assert not step.interleaved and step.command == "nox -s cuda-night" and step.causes[0].value == "unknown"

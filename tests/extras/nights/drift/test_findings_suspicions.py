"""Suspicions: the cause of planted steps, their night, and the command that confirms them."""

from __future__ import annotations

import pytest

from stackproof.extras.nights.drift.scan import SeriesKind
from tests.extras.nights.drift.nightly import Story, commit, judged, told

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

    found = judged(told(replace(CASES[cause], seed=seed))).suspicions
    assert [step.causes[0].value for step in found] == [cause]
    assert found[0].slower and found[0].between[0] <= "2026-02-20" <= found[0].between[1]


def test_a_new_driver_without_a_step_starts_no_blind_line() -> None:
    found = judged(told(Story(driver=(48, 0.0), code=(50, 0.05), count=52))).suspicions
    assert [(step.kind, step.causes[0].value) for step in found] == [(SeriesKind.RATIO, "code")]


def test_two_things_at_once_are_two_suspicions() -> None:
    found = judged(told(Story(code=(52, 0.04), machine=(40, -0.05)))).suspicions
    assert [(step.kind, step.causes[0].value) for step in found] == [
        (SeriesKind.RATIO, "code"),
        (SeriesKind.ANCHOR, "machine"),
    ]


def test_quiet_nights_are_quiet() -> None:
    assert sum(len(judged(told(Story(seed=seed))).suspicions) for seed in range(30)) <= 2


def test_the_command_measures_both_states() -> None:
    (code,) = judged(told(Story(code=(50, 0.05)))).suspicions
    assert code.interleaved
    assert code.command == f"nox -s cuda-gate -- --base {commit(49)} --head {commit(50)} --only gemm-float32"
    (machine,) = judged(told(Story(machine=(50, 0.08)))).suspicions
    assert not machine.interleaved
    assert machine.command == "nox -s cuda-gate -- --base-record n049.record.json --unlike --only gemm-float32"


def test_a_commit_that_nobody_can_go_back_to_is_not_asked_for() -> None:
    dirty = f"{commit(7)} (with local changes)"
    (step,) = judged(told(Story(code=(50, 0.05), facts={"commit": dirty}))).suspicions
    assert not step.interleaved and "--base-record" in step.command and step.causes[0].value == "unknown"

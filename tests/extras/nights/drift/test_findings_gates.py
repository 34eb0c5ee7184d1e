"""What gates make of suspicions: confirmed, refuted, or still open."""

from __future__ import annotations

import pytest

from stackproof.record.records import Record
from tests.extras.nights.drift.nightly import Story, commit, gate, judged, told


def slower(count: int = 53) -> list[Record]:
    """Return nights in which the code got 4 % slower on the 50th."""
    return told(Story(code=(50, 0.04), count=count))


def test_a_gate_that_sees_it_confirms() -> None:
    found = judged(slower(), [gate(52, commit(49), commit(50), 1.04)])
    assert [one.causes[0].value for one in found.slowdowns] == ["code"]
    assert found.suspicions == () and found.refuted == []


def test_a_gate_that_surely_sees_less_than_half_refutes() -> None:
    found = judged(slower(), [gate(52, commit(49), commit(50), 1.0)])
    assert len(found.refuted) == 1 and found.slowdowns == [] and found.suspicions == ()


def test_a_gate_that_cannot_say_leaves_it_open() -> None:
    found = judged(slower(), [gate(52, commit(49), commit(50), 1.02, 0.03)])
    assert len(found.suspicions) == 1 and not found.refuted and not found.confirmed


@pytest.mark.parametrize(
    ("base", "head", "host"),
    [
        (commit(12), commit(50), "box"),
        (commit(49), commit(12), "box"),
        (commit(49), commit(50), "other"),
        ("", commit(50), "box"),
    ],
)
def test_a_gate_of_something_else_says_nothing(base: str, head: str, host: str) -> None:
    found = judged(slower(), [gate(52, base, head, 1.04, host=host)])
    assert len(found.suspicions) == 1 and not found.confirmed


def test_a_gate_of_the_time_to_come_says_nothing_of_the_past() -> None:
    found = judged(slower(), [gate(20, commit(49), commit(50), 1.04)])
    assert len(found.suspicions) == 1 and not found.confirmed


def both_moved() -> list[Record]:
    """Return nights in which code and driver got slower on the same one, so that the curves blame the driver."""
    return told(Story(code=(50, 0.05), driver=(50, 0.05), count=53))


def test_the_driver_is_put_to_more_nights() -> None:
    (step,) = judged(both_moved()).suspicions
    assert (step.kind.value, step.causes[0].value, step.interleaved) == ("ratio", "driver", False)
    assert step.command == "nox -s cuda-night"


def test_two_commits_refute_no_driver() -> None:
    nights = both_moved()
    found = judged(nights, [gate(52, commit(49), commit(50), 1.0)])
    assert not found.refuted and not found.confirmed and len(found.suspicions) == 1


def test_what_two_commits_confirm_is_the_codes() -> None:
    (found,) = judged(both_moved(), [gate(52, commit(49), commit(50), 1.05)]).slowdowns
    assert [cause.value for cause in found.causes] == ["code"] and "side by side" in found.why
    assert found.interleaved and f"--base {commit(49)} --head {commit(50)}" in found.command


def test_a_confirmed_step_is_the_new_level() -> None:
    nights = told(Story(code=(30, 0.04), lock=(55, 0.05), count=58))
    gates = [gate(33, commit(29), commit(30), 1.04)]
    found = judged(nights, gates)
    assert [step.causes[0].value for step in found.suspicions] == ["wheels"]
    assert found.suspicions[0].size == pytest.approx(0.05, abs=0.02)


def test_what_is_refuted_night_after_night_is_a_new_level() -> None:
    nights = slower(75)
    found = judged(nights, [gate(55, commit(49), commit(50), 1.0)])
    assert len(found.refuted) == 1 and found.suspicions == ()


def test_a_slowdown_is_told_until_it_is_mended_or_old() -> None:
    slow = gate(33, commit(29), commit(30), 1.04)
    nights = told(Story(code=(30, 0.04), lock=(50, -0.04), count=53))
    assert len(judged(nights[:35], [slow]).slowdowns) == 1
    assert judged(nights, [slow, gate(52, commit(49), commit(50), 0.96)]).slowdowns == []
    assert judged(told(Story(code=(30, 0.04), count=80)), [slow]).slowdowns == []


def test_a_gate_where_no_series_moved_settles_nothing() -> None:
    quiet = told(Story(count=60))
    found = judged(quiet, [gate(59, commit(39), commit(40), 1.0, 0.001)])
    assert not found.refuted and not found.confirmed and found.suspicions == judged(quiet).suspicions

"""What a side says is read in one place: types, ranges, the turn that was asked, and our own clock."""

from __future__ import annotations

import math

import pytest

from stackproof.extras.fleet import spoken
from stackproof.extras.fleet.answers import Replayed
from stackproof.extras.fleet.spoken import UnbelievedError

RIGHT = "0123456789abcdef"


@pytest.mark.parametrize(
    "told",
    [
        0,
        -0.0,
        -1,
        math.nan,
        math.inf,
        -math.inf,
        True,
        None,
        "0.003",
        [0.003],
        {},
        5e-324,
        1e-9,
        61.0,
        1e300,
        10**400,
        0.02,
    ],
)
def test_seconds_that_cannot_be(told: object) -> None:
    with pytest.raises(UnbelievedError, match="says that"):
        spoken.seconds({"seconds": told}, 10, 0.1)


def test_seconds_that_can_be() -> None:
    assert spoken.seconds({"seconds": 0.01}, 10, 0.1) == 0.01
    assert spoken.seconds({"seconds": 1}, 1, 1.0) == 1.0
    with pytest.raises(UnbelievedError, match="nothing seconds"):
        spoken.seconds({}, 1, 1.0)


@pytest.mark.parametrize("told", [None, 2, 4, True, 3.0, "3", [3], 10**30])
def test_an_answer_to_another_turn(told: object) -> None:
    with pytest.raises(UnbelievedError, match="turn 3 was asked"):
        spoken.turn({"turn": told}, 3)
    spoken.turn({"turn": 3}, 3)


@pytest.mark.parametrize(
    "told",
    [
        {"digest": None}, {"digest": 1}, {"digest": "0" * 15}, {"digest": "0" * 17}, {"digest": "G" * 16}, {"digest": "A" * 16},
        {"digest": ["0"] * 16},
        {"products": 0}, {"products": 9}, {"products": -10}, {"products": 10.0}, {"products": True}, {"products": "10"}, {"products": None},
        {"products": 1e999}, {"products": 10**16}, {"odd": -1}, {"odd": 11}, {"odd": 0.0}, {"odd": False}, {"odd": None},
        {"odd": "0"}, {"odd": math.nan},
    ],
)  # fmt: skip
def test_replays_that_cannot_be(told: dict[str, object]) -> None:
    with pytest.raises(UnbelievedError):
        spoken.replayed({"digest": RIGHT, "products": 10, "odd": 0, **told}, 10)
    assert spoken.replayed({"digest": RIGHT, "products": 12, "odd": 1}, 10) == Replayed(RIGHT, 12, 1)


@pytest.mark.parametrize(
    "told",
    [
        {}, {"facts": None}, {"facts": []}, {"facts": {}}, {"facts": {"torch": None}}, {"facts": {"torch": "2", "x": []}},
        {"facts": {"torch": "2", **{str(number): 1 for number in range(5000)}}}, {"refused": "no"}, {"refused": 1, "exit_code": 2},
        {"refused": "no", "exit_code": True}, {"refused": "no", "exit_code": 0}, {"refused": "no", "exit_code": 1e9},
    ],
)  # fmt: skip
def test_what_is_no_first_word(told: dict[str, object]) -> None:
    assert spoken.hello(told) is None


def test_states_that_must_be_equal() -> None:
    one, other = (
        spoken.hello({"facts": {"torch": torch, "host": torch, "commit": torch, "driver.x": torch}})
        for torch in ("1", "2")
    )
    assert one and other and one.state and other.state
    assert spoken.differing(one.state, other.state) == "x: 1 -> 2; torch: 1 -> 2"
    assert spoken.differing(one.state, one.state) == ""

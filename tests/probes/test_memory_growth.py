"""Growth over steps: what every counter says, what repeats, and what somebody else may have taken."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from stackproof.probes import memory
from stackproof.record.checks import CheckFailed, CheckInconclusive


def counter(book: dict[str, int]) -> memory.Read:
    return lambda: dict(book)


def hold(read: memory.Read, step: Callable[[], object], allowed: int = 0) -> memory.Counts:
    return memory.steady("work", read, dict.fromkeys(read(), allowed), step, 10, lambda: "somebody (1)")


def test_steps_that_leave_nothing_pass() -> None:
    assert hold(counter({"torch's allocator": 5}), lambda: None) == {"torch's allocator": 0}


def test_what_is_taken_once_is_no_leak() -> None:
    book, calls = {"the C library": 0}, []

    def step() -> None:
        calls.append(1)
        book["the C library"] = 1 << 20 if len(calls) > 3 else 0

    assert hold(counter(book), step)["the C library"] == 0


@pytest.mark.parametrize("every", [1, 5])
def test_what_each_round_leaves_is_a_leak(every: int) -> None:
    book, calls = {"torch's allocator": 0, "the card's driver": 0}, []

    def step() -> None:
        calls.append(1)
        book["the card's driver"] += 2048 * (len(calls) % every == 0)

    with pytest.raises(CheckFailed, match=f"{20480 // every} by the card's driver"):
        hold(counter(book), step)


def test_a_file_that_each_step_leaves_open_is_a_leak() -> None:
    kept: list[int] = []
    with pytest.raises(CheckFailed, match=r"left files open in each of 3 rounds: 10 by the open files \(1 a step\)"):
        hold(
            lambda: {"the open files": memory.of_process()["the open files"]}, lambda: kept.append(os.dup(0)), allowed=2
        )
    for one in kept:
        os.close(one)


def test_memory_that_also_moves_at_rest_may_be_a_neighbours() -> None:
    reads = iter(range(0, 1000, 7))
    with pytest.raises(CheckInconclusive, match=r"moved while nothing ran, too: somebody \(1\)"):
        hold(lambda: {"the card's driver": next(reads)}, lambda: None)

"""A live side: it answers, or it is ended in time and named; whatever it prints is no answer."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from stackproof.base import processes
from stackproof.base.errors import StackUnavailableError
from stackproof.gate.interleave import LiveSide, OutOfTimeError, SideEndedError
from stackproof.record.records import Verdict

from .sham import spec


def _side(folder: Path, what: str = "", scale: float = 1.0) -> LiveSide:
    return LiveSide(spec(folder, "head", what), folder / "head.log", processes.new_mark(), scale)


def test_a_side_answers_until_it_is_let_go(tmp_path: Path) -> None:
    with _side(tmp_path) as side:
        assert side.receive()["facts"]["torch"] == "2.15.0"
        assert side.ask("open", 60, subject="one", preset="tiny")["proved"] == "sound"
        mark = side._mark
    assert processes.with_mark(mark) == []
    assert "noise" in (tmp_path / "head.log").read_text()


def test_a_side_that_refuses_ends_the_verb_with_its_code(tmp_path: Path) -> None:
    with _side(tmp_path, "refuse") as side, pytest.raises(StackUnavailableError, match="head: there is no such device"):
        side.receive()


def test_a_wrong_result_is_told_and_the_side_lives_on(tmp_path: Path) -> None:
    with _side(tmp_path, "wrong") as side:
        side.receive()
        with pytest.raises(SideEndedError, match="head: the gradient is off") as ended:
            side.ask("open", 60, subject="one", preset="tiny")
        assert ended.value.verdict is Verdict.FAILED
        assert not ended.value.gone
        assert side.ask("open", 60, subject="two", preset="tiny")["proved"] == "sound"


def test_a_crash_has_its_signal_and_last_words(tmp_path: Path) -> None:
    with _side(tmp_path, "crash") as side:
        side.receive()
        side.ask("open", 60, subject="one", preset="tiny")
        with pytest.raises(SideEndedError, match="SIGKILL in 'block'.*last words") as ended:
            side.ask("block", 3600, runs=1)
        assert ended.value.gone


def test_a_hang_ends_at_its_deadline(tmp_path: Path) -> None:
    with _side(tmp_path, "hang", scale=0.1) as side:
        side._waits = ("start-up", 120.0)
        side.receive()
        side.ask("open", 600, subject="one", preset="tiny")
        with pytest.raises(SideEndedError, match=r"hung in 'block' for 1 s; it was in File") as ended:
            side.ask("block", 10, runs=1)
        assert ended.value.verdict is Verdict.HUNG
        assert processes.with_mark(side._mark) == []


def test_a_side_ends_when_the_time_of_all_is_over(tmp_path: Path) -> None:
    with LiveSide(spec(tmp_path, "head", "hang"), tmp_path / "head.log", "", until=time.monotonic() + 8) as side:
        side.receive()
        side.ask("open", 600, subject="one", preset="tiny")
        with pytest.raises(OutOfTimeError, match="'block' of the head"):
            side.ask("block", 3600, runs=1)
        assert processes.with_mark(side._mark) == []


def test_both_sides_carry_the_mark_of_the_gate(tmp_path: Path) -> None:
    run = processes.new_mark()
    with (
        LiveSide(spec(tmp_path, "base"), tmp_path / "base.log", run) as base,
        LiveSide(spec(tmp_path, "head"), tmp_path / "head.log", run) as head,
    ):
        base.receive()
        head.receive()
        assert len(processes.with_mark(run)) == 2

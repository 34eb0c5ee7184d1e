"""Ranks as a side: launched once, they answer until they are let go, and one that dies is named."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from stackproof.base.errors import Refusal
from stackproof.base.processes import with_mark
from stackproof.bench.subjects import Subject, subjects
from stackproof.device.devices import HOST
from stackproof.gate import group
from stackproof.record.checks import CheckEnded
from stackproof.stack import stacks

SUBJECT = "all-reduce-4-mib-2-ranks"


def _subject() -> Subject:
    return next(one for one in subjects("fast", stacks.load("cpu")) if one.name == SUBJECT)


@pytest.mark.slow
def test_ranks_prove_run_and_end() -> None:
    station = group.RankGroup(_subject(), "tiny", HOST, "")
    try:
        assert "exact on 2 ranks" in station.proved
        assert station.worth["GB"] == pytest.approx(4 * 2**20 / 1e9)
        told = station.warm(seconds=0.5)
        assert told["seconds"] > 0
        assert station.block(runs=3)["seconds"] > 0
        assert station.done()["peak-memory"] > 0
        assert station.count()["counters"]["operators"] >= 1
        assert station.conclude()["figures"] == {"call": "all-reduce"}
    finally:
        station.close()
    assert not station._thread.is_alive()


@pytest.mark.slow
def test_a_rank_that_dies_is_a_crash_and_no_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group, "_LAST_S", 120.0)
    station = group.RankGroup(_subject(), "tiny", HOST, "")
    mark = (station._folder / "mark").read_text(encoding="ascii")
    victims = [pid for pid in with_mark(mark) if b"ranks.joined" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    os.kill(victims[-1], signal.SIGKILL)
    with pytest.raises(CheckEnded, match="SIGKILL|rank"):
        station.block(runs=1)
    station.close()


def test_an_unknown_backend_is_refused_before_anything_starts() -> None:
    with pytest.raises(Refusal, match="did you mean 'gloo'"):
        group.arranged(_subject(), "tiny", HOST, "glo")


def test_a_library_without_a_log_says_so() -> None:
    arranged = group.arranged(_subject(), "tiny", HOST, "")
    assert group.in_effect(stacks.load("cpu"), arranged, {"GLOO_SOCKET_IFNAME": "lo"})["silent"]

"""Others on the card are told from our own processes."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from stackproof.base import processes
from stackproof.device import telemetry
from stackproof.device.telemetry import family, others_on_card, require_alone
from stackproof.record.checks import CheckInconclusive
from stackproof.stack.stacks import Stack

from .test_telemetry import CARD

SPIN = "import time; began = time.time()\nwhile time.time() < began + 30: pass"
SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]


def listing(monkeypatch: pytest.MonkeyPatch, *pids: int) -> None:
    monkeypatch.setattr(telemetry, "tool_for", lambda _: telemetry.tools()[0])
    monkeypatch.setattr(telemetry, "answer", lambda *_: "".join(f"{pid}, somebody\n" for pid in pids))


def test_our_own_processes_are_no_neighbours(cpu: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    child = subprocess.Popen(SLEEP)
    try:
        listing(monkeypatch, os.getpid(), os.getppid(), child.pid)
        assert {os.getpid(), os.getppid(), child.pid} <= family()
        assert others_on_card(CARD, cpu) == ()
    finally:
        child.kill()
        child.wait()


def test_processes_of_this_run_are_no_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    mark = processes.new_mark()
    monkeypatch.setenv(processes.MARK, mark)
    rank = subprocess.Popen(SLEEP, start_new_session=True)
    try:
        assert rank.pid in family()
    finally:
        rank.kill()
        rank.wait()


def test_a_stranger_is_named_and_ends_the_measurement(cpu: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    listing(monkeypatch, os.getpid(), 1)
    assert others_on_card(CARD, cpu) == ("somebody (1)",)
    with pytest.raises(CheckInconclusive, match=r"1 other process\(es\) on cuda: somebody \(1\); end them"):
        require_alone(CARD, cpu, allowed=False)
    assert require_alone(CARD, cpu, allowed=True) == ("1 other process(es) on cuda: somebody (1)",)


def test_ids_of_another_namespace_say_nothing(cpu: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    listing(monkeypatch, 99_999_999)
    assert others_on_card(CARD, cpu) is None
    assert require_alone(CARD, cpu, allowed=False) == ()


def test_a_process_that_has_ended_since_counts_beside_our_own(cpu: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    listing(monkeypatch, os.getpid(), 99_999_999)
    assert others_on_card(CARD, cpu) == ("somebody (99999999)",)

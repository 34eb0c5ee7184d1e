"""Every check of the timer suite is seen to fail: a slow clock, work that does not scale, a result that is not there yet."""

from __future__ import annotations

import pytest

from stackproof.record.records import Check, Verdict

from ..planting import run_planted

FAULTS = """
import sys, time, types

if "pytest" in sys.orig_argv:
    from stackproof.probes import clock
    from stackproof.probes.clock import Products

    submit, read = Products.submit, Products.read
    slow = lambda: time.perf_counter() * 0.5
    clock.time = types.SimpleNamespace(perf_counter=slow, monotonic=time.monotonic, sleep=time.sleep)
    Products.submit = lambda self, units: submit(self, 1)
    Products.read = lambda self: time.sleep(0.06) or read(self)
"""


@pytest.fixture(scope="module")
def checks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Check]:
    """One run of the suite with all the faults planted; each breaks what others leave alone."""
    return run_planted("timer", FAULTS, tmp_path_factory.mktemp("timer"))


@pytest.mark.parametrize(
    ("check", "words"),
    [
        ("timer/timer::clock", "s a second; 0.9 to 1.1 were expected"),
        ("timer/timer::wall_time_scales", "wall clock: "),
        ("timer/timer::device_time_scales", "times as long; 1.5 to 2.7 were expected"),
        ("timer/timer::synchronize_waits", "synchronising does not wait"),
        ("timer/timer::events_agree", "of the wall clock's for the same work"),
    ],
)
def test_the_fault_is_caught_by_name(checks: dict[str, Check], check: str, words: str) -> None:
    """The check that is meant to see the fault fails, for that reason."""
    assert (checks[check].verdict, True) == (Verdict.FAILED, words in checks[check].reason), checks[check].reason

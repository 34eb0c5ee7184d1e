"""Entries: which figures of a record have a history, and what is pooled."""

from __future__ import annotations

import math
from pathlib import Path

from stackproof.history.timeline import SeriesKey, entries, entry, pooled
from stackproof.record.records import Verdict

from . import making

KEY = SeriesKey("gemm-float32", "tiny", "s/TFLOP")


def test_only_figures_with_a_version_have_a_history() -> None:
    assert entry(making.record(0, making.figure(version=""))) is None
    found = entry(making.record(0, making.figure(), making.figure(workload="other", version="")))
    assert found is not None
    assert list(found.figures) == [KEY]


def test_a_subject_told_in_several_units_counts_once() -> None:
    rows = [making.figure(unit=unit) for unit in ("s/sample", "s/iteration", "s/token")]
    found = entry(making.record(0, *rows))
    assert found is not None
    assert [key.unit for key in found.figures] == ["s/sample"]


def test_presets_are_different_work() -> None:
    found = entry(making.record(0, making.figure(), making.figure(preset="full")))
    assert found is not None
    assert [key.preset for key in found.figures] == ["tiny", "full"]


def test_what_is_no_number_is_no_point() -> None:
    for bad in (math.nan, math.inf, 0.0, -1.0):
        assert entry(making.record(0, making.figure(samples=[1e-3, bad]))) is None


def test_a_commit_that_nobody_can_go_back_to_is_none() -> None:
    for commit, expected in (("a" * 40, "a" * 40), ("a" * 40 + " (with local changes)", ""), ("unknown", "")):
        found = entry(making.record(0, commit=commit))
        assert found is not None
        assert found.commit == expected


def test_entries_come_in_order_of_time() -> None:
    made = {
        Path("a"): making.record(2),
        Path("b"): making.record(1),
        Path("c"): making.record(3, verdict=Verdict.MISMATCHED),
        Path("d"): making.record(4, verdict=Verdict.FAILED),
    }
    assert [one.started.day for one in entries(made)] == [2, 3, 5]


def test_runs_of_one_state_are_pooled() -> None:
    later, earlier = making.figure(samples=[3.0]), making.figure(samples=[1.0, 2.0])
    found = entries({Path("a"): making.record(1, later), Path("b"): making.record(0, earlier)})
    (one,) = pooled(found)
    assert (one.key, one.samples, one.started) == (KEY, (1.0, 2.0, 3.0), found[-1].started)


def test_versions_are_not_pooled() -> None:
    older, newer = making.figure(samples=[9.0]), making.figure(samples=[1.0], version="2")
    (one,) = pooled(entries({Path("a"): making.record(0, older), Path("b"): making.record(1, newer)}))
    assert (one.version, one.samples) == ("2", (1.0,))

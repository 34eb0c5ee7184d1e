"""The grid, what a library ignored, and the ranking; live sides are stood in for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stackproof.base.errors import Refusal
from stackproof.gate import gate, sweep
from stackproof.gate.cells import Results
from stackproof.gate.interleave import SideEndedError
from stackproof.gate.sweep import SweptSetting
from stackproof.record.records import CellWord, Record, Verdict

from .standins import SILENT, Sides, comparison

QUIET = {"facts": {"version": "2.28"}, "denied": [], "warned": [], "echoed": [], "silent": ""}


def test_a_grid_is_every_combination() -> None:
    found = sweep.grid({"A": "1,2", "B": "x"}, ["gloo", "nccl"])
    assert [one.label for one in found] == ["gloo A=1 B=x", "gloo A=2 B=x", "nccl A=1 B=x", "nccl A=2 B=x"]


def test_what_there_was_no_time_for_is_inconclusive(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def compare(asked: Any, place: Path, watcher: Any) -> Any:
        assert asked.request.go_on
        if asked.specs[1].environment["A"] == "2":
            raise SideEndedError("both", Verdict.INCONCLUSIVE, "the minutes were over")
        results = Results(asked.plan, "cpu", ended="the minutes were over in 'open' of the head")
        return gate.GateRun(asked, results, {"gemm": {"unit": "s"}}, {"base": {}})

    monkeypatch.setattr(sweep, "compare", compare)
    monkeypatch.setattr(sweep, "_effect", lambda *arguments: QUIET)
    record = Record("sweep", "cpu", "2026-01-01T00:00:00.000+00:00")
    sweep.conclude(*sweep.sweep(comparison(), sweep.grid({"A": "1,2"}, []), tmp_path, SILENT), record)
    late = {check.id for check in record.checks if check.verdict is Verdict.INCONCLUSIVE}
    assert record.verdict is Verdict.INCONCLUSIVE and late == {"sweep/A=1/gemm::runs", "sweep/A=2::runs"}


@pytest.mark.parametrize(
    ("named", "sentence"),
    [
        ({"A": "1,2,1"}, "a value twice"),
        ({}, "what is swept"),
        ({name: ",".join(map(str, range(99))) for name in "AB"}, "9801 settings"),
    ],
)
def test_a_grid_that_cannot_be_swept_is_refused(named: dict[str, str], sentence: str) -> None:
    with pytest.raises(Refusal, match=sentence):
        sweep.grid(named, [])


@pytest.mark.parametrize(
    ("effect", "said"),
    [
        ({"denied": ["A=1 was asked for, 4 is in effect"]}, "4 is in effect"),
        ({}, "does not name A"),
        ({"echoed": ["A"]}, ""),
        ({"facts": {"version": "2.28", "algorithm": "Ring"}}, ""),
        ({"silent": "gloo has no log"}, ""),
    ],
)
def test_what_the_library_ignored_is_called_out(effect: dict[str, Any], said: str) -> None:
    found = sweep.ignored(SweptSetting({"A": "1"}, effect={**QUIET, **effect}), QUIET)
    assert (said in found) if said else not found


def _swept(monkeypatch: pytest.MonkeyPatch, folder: Path, slower: dict[str, float], **effects: Any) -> Record:
    """Sweep A=1,2,3 over stand-ins whose head is slower by the table."""

    def compare(asked: Any, place: Path, watcher: Any) -> Any:
        value = asked.specs[1].environment["A"]
        if value == "3":
            raise SideEndedError("head", Verdict.HUNG, "head: hung in 'block'")
        sides = Sides(slower=slower[value])
        monkeypatch.setattr(gate, "launch", sides.launch)
        monkeypatch.setattr(gate, "handshake", sides.handshake)
        return gate.compare(asked, place, watcher)

    monkeypatch.setattr(sweep, "compare", compare)
    monkeypatch.setattr(sweep, "_effect", lambda *arguments: {**QUIET, **effects.get(str(arguments[2].get("A")), {})})
    results, defaults = sweep.sweep(comparison(), sweep.grid({"A": "1,2,3"}, []), folder, SILENT)
    record = Record("sweep", "cpu", "2026-01-01T00:00:00.000+00:00")
    sweep.conclude(results, defaults, record)
    return record


def test_settings_are_ranked_and_slower_is_an_answer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    record = _swept(monkeypatch, tmp_path, {"1": 0.1, "2": -0.1})
    rows = [(check.subject, check.group) for check in sweep.ranked(record)]
    assert rows == [("gemm", "A=2"), ("gemm", "A=1"), ("lora", "A=2"), ("lora", "A=1")]
    assert record.verdict is Verdict.HUNG
    words = {check.id: check.outcome for check in sweep.ranked(record)}
    assert words["sweep/A=1/gemm::time"] is CellWord.SLOWER
    assert next(check for check in record.checks if check.id == "sweep/A=1/gemm::time").verdict is Verdict.PASSED


def test_the_page_marks_what_was_ignored(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    text = sweep.markdown(_swept(monkeypatch, tmp_path, {"1": 0.1, "2": -0.1}, **{"1": {"echoed": ["A"]}}))
    assert "IGNORED: the log does not name A" in text
    assert "A=2 (IGNORED)" in text
    assert "A=1 (IGNORED)" not in text


def test_the_defaults_lack_what_is_swept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seen: list[tuple[set[str], set[str]]] = []

    def compare(asked: Any, place: Path, watcher: Any) -> Any:
        base, head = asked.specs
        seen.append((set(base.unset), set(head.unset)))
        raise SideEndedError("head", Verdict.HUNG, "head: hung in 'block'")

    monkeypatch.setattr(sweep, "compare", compare)
    monkeypatch.setattr(sweep, "_effect", lambda *arguments: QUIET)
    sweep.sweep(comparison(), [SweptSetting({"A": "1"}), SweptSetting({"B": "1"})], tmp_path, SILENT)
    assert seen == [({"A", "B"}, {"B"}), ({"A", "B"}, {"A"})]

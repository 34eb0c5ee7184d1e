"""A gate from sides to verdict, with sides that behave as a table says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stackproof.base.errors import Refusal
from stackproof.gate import gate, plan
from stackproof.record.records import Verdict

from .standins import SUBJECTS, Sides, judged, red


def test_equal_sides_pass_at_the_first_look(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    sides = Sides()
    assert judged(sides, monkeypatch, tmp_path).verdict is Verdict.PASSED
    assert len(sides.asked) == plan.load().design.looks[0]


def test_a_slower_head_fails_and_names_the_cells(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    record = judged(Sides(slower=0.08), monkeypatch, tmp_path)
    assert record.verdict.exit_code == 1
    assert sorted(red(record)) == ["gate/gemm::time", "gate/lora::time"]
    assert all(reason.startswith("SLOWER") for reason in red(record).values())


def test_a_subject_that_is_decided_is_not_launched_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    sides = Sides()
    noisy = sides._seen
    monkeypatch.setattr(sides, "launch", _noisy_lora(sides, noisy))
    judged(sides, monkeypatch, tmp_path)
    assert sides.asked[0] == SUBJECTS
    assert sides.asked[-1] == ("lora",)


def _noisy_lora(sides: Sides, _: Any) -> Any:
    plain = Sides.launch

    def launch(*arguments: Any) -> Any:
        found, lost = plain(sides, *arguments)
        wild = 1 + 0.05 * (len(sides.asked) % 2)
        found.seen["lora"]["head"].blocks = [wild * block for block in found.seen["lora"]["head"].blocks]
        return found, lost

    return launch


def test_the_minutes_end_a_gate_with_what_it_has(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    sides = Sides()
    assert judged(sides, monkeypatch, tmp_path, minutes=0.0).verdict is Verdict.INCONCLUSIVE
    assert len(sides.asked) == 1


def test_ctrl_c_keeps_what_was_seen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    sides = Sides()
    plain = sides.launch

    def impatient(*arguments: Any) -> Any:
        if len(sides.asked) == 3:
            raise KeyboardInterrupt
        return plain(*arguments)

    monkeypatch.setattr(sides, "launch", impatient)
    record = judged(sides, monkeypatch, tmp_path)
    assert record.verdict is Verdict.INTERRUPTED
    assert next(check for check in record.checks if check.id == "gate/gemm::time").figures["launches"] == 3


@pytest.mark.parametrize(
    ("facts", "what"),
    [({"cpu.name": "Another CPU"}, "devices"), ({"cuda:0.driver api": "13000"}, "driver")],
)
def test_unlike_devices_and_drivers_are_refused_unless_asked_for(
    facts: dict[str, Any], what: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sides = Sides(facts=facts)
    with pytest.raises(Refusal, match=f"unlike {what}.*--unlike"):
        judged(sides, monkeypatch, tmp_path)
    assert sides.asked == []
    assert judged(sides, monkeypatch, tmp_path, unlike=True).verdict is Verdict.PASSED


def test_only_names_a_subject_that_exists(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="did you mean 'gemm'"):
        judged(Sides(), monkeypatch, tmp_path, only=("gem",))


def test_what_only_the_head_has_is_no_failure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    record = judged(Sides(has=(("gemm",), SUBJECTS)), monkeypatch, tmp_path)
    assert record.verdict is Verdict.PASSED
    reason = next(check.reason for check in record.checks if check.id == "gate/lora::runs")
    assert "nothing to compare" in reason


def test_a_subject_that_its_workload_spares_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    name, asks = "wide", {"wide": {"spared": ["cpu"]}}
    both = ((*SUBJECTS, name), (*SUBJECTS, name))
    sides = Sides(has=both, asks=asks)
    judged(sides, monkeypatch, tmp_path)
    assert name not in sides.asked[0]
    asked = Sides(has=both, asks=asks)
    judged(asked, monkeypatch, tmp_path, only=(name,))
    assert asked.asked[0] == (name,)


def test_a_launch_carries_its_number(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seen = list[int]()
    sides = Sides()
    plain = sides.launch

    def numbered(specs: Any, subjects: Any, terms: Any, number: int, *rest: Any) -> Any:
        seen.append(number)
        return plain(specs, subjects, terms, number, *rest)

    monkeypatch.setattr(sides, "launch", numbered)
    judged(sides, monkeypatch, tmp_path)
    assert seen == list(range(plan.load().design.looks[0]))
    assert gate.PROCESS == "process"

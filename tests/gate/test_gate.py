"""A gate from sides to verdict, with sides that behave as a table says."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from stackproof.base.errors import Refusal
from stackproof.gate import gate, plan
from stackproof.gate.cells import Cell
from stackproof.gate.report import headline, markdown
from stackproof.gate.statistics import Estimate, Ruling
from stackproof.gate.variants import GateRequest
from stackproof.record.records import CellWord, Verdict
from stackproof.record.writer import Outputs

from .standins import SUBJECTS, Sides, comparison, judged, red


def test_equal_sides_pass_at_the_first_look(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    sides = Sides()
    assert judged(sides, monkeypatch, tmp_path).verdict is Verdict.PASSED
    assert len(sides.asked) == plan.load().design.looks[0]


_NO_TIME = "no time was measured, so nothing was compared"
_CANNOT_SAY = "0 of 2 times decided"
_SKIPPED = ("both", Verdict.SKIPPED, "a rule says so")


@pytest.mark.parametrize(
    ("sides", "code", "reasons"),
    [
        ({"slower": 0.08}, 1, {"gemm::time": "SLOWER", "lora::time": "SLOWER"}),
        ({"memory": 1.1}, 1, {"gemm::peak-memory": "SLOWER", "lora::peak-memory": "SLOWER"}),
        ({"operators": 11}, 1, {"gemm::operators": "SLOWER 10 -> 11", "lora::operators": "SLOWER 10 -> 11"}),
        ({"operators": 9}, 0, {}),
        ({"has": (SUBJECTS, ("gemm",))}, 1, {"lora::runs": "head: 'lora' was dropped"}),
        ({"lost": {"lora": ("head", Verdict.SKIPPED, "no peft")}}, 1, {"lora::runs": "no peft; the base runs it"}),
        ({"lost": {"lora": _SKIPPED}}, 0, {}),
        ({"lost": dict.fromkeys(SUBJECTS, _SKIPPED)}, 1, {"run::speed": _NO_TIME}),
        ({"noise": 0.8}, 6, {"run::speed": _CANNOT_SAY}),
        ({"noise": 0.8, "exact": False}, 6, {"run::speed": _CANNOT_SAY}),
        ({"drops": ("peak-memory",)}, 1, {f"{name}::peak-memory": "is missing" for name in SUBJECTS}),
        ({"drops": ("operators",)}, 1, {f"{name}::operators": "is missing" for name in SUBJECTS}),
    ],
)
def test_what_is_wrong_with_a_change_is_named_and_decides(
    sides: dict[str, Any], code: int, reasons: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    record = judged(Sides(**sides), monkeypatch, tmp_path)
    found = red(record)
    assert record.verdict.exit_code == code and set(found) == {f"gate/{cell}" for cell in reasons}
    assert all(found[f"gate/{cell}"].startswith(reason) for cell, reason in reasons.items())


@pytest.mark.parametrize(("operators", "launches", "code"), [(10, 1, 0), (11, 2, 1)])
def test_exact_times_nothing(
    operators: int, launches: int, code: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sides = Sides(slower=0.5, memory=2.0, operators=operators)
    record = judged(sides, monkeypatch, tmp_path, exact=True)
    assert (len(sides.asked), record.verdict.exit_code) == (launches, code)
    assert {check.aspect for check in record.checks if check.outcome} == {
        "allocations",
        "computes",
        "operators",
        "units",
    }
    assert judged(Sides(exact=False), monkeypatch, tmp_path, exact=True).verdict is Verdict.INCONCLUSIVE


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
    ("facts", "what"), [({"cpu.name": "Another CPU"}, "devices"), ({"cuda:0.driver api": "13000"}, "driver")]
)
def test_unlike_devices_and_drivers_are_refused(
    facts: dict[str, Any], what: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sides = Sides(facts=facts)
    with pytest.raises(Refusal, match=f"unlike {what} "):
        judged(sides, monkeypatch, tmp_path)
    assert sides.asked == []


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


def test_counters_of_two_torches_do_not_gate(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    record = judged(Sides(operators=11, facts={"torch": "2.16.0"}), monkeypatch, tmp_path)
    assert record.verdict is Verdict.PASSED
    assert "but with different torch" in next(
        check.reason for check in record.checks if check.id == "gate/gemm::operators"
    )


@pytest.mark.parametrize(
    ("verdict", "reason", "code"),
    [
        (Verdict.FAILED, "head: the gradient is wrong", 1),
        (Verdict.CRASHED, "head: ended with signal SIGSEGV", 1),
        (Verdict.HUNG, "head: hung in 'block'", 5),
        (Verdict.INCONCLUSIVE, "head: two processes use the card", 6),
    ],
)
def test_a_side_that_is_wrong_or_gone_decides_whatever_its_speed(
    verdict: Verdict, reason: str, code: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sides = Sides(lost={"lora": ("head", verdict, reason)})
    record = judged(sides, monkeypatch, tmp_path, go_on=True)
    assert record.verdict.exit_code == code
    assert list(red(record).values()) == [reason]
    assert sides.asked[1] == ("gemm",)


def _noisy(names: tuple[str, ...], noise: float, monkeypatch: pytest.MonkeyPatch, **rest: Any) -> Sides:
    """Return sides over these subjects of which `gemm` has noise of its own."""
    sides = Sides(has=(names, names), **rest)
    plain = sides.launch

    def launch(*arguments: Any) -> Any:
        found, lost = plain(*arguments)
        for one in found.seen.get("gemm", {}).values():
            factor = math.exp(sides.dice.gauss(0, noise))
            one.blocks = [factor * block for block in one.blocks]
        return found, lost

    monkeypatch.setattr(sides, "launch", launch)
    return sides


def test_the_first_line_says_how_many_times_were_judged_and_fewer_than_half_cannot_say(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    blind = judged(Sides(noise=0.8), monkeypatch, tmp_path)
    assert blind.verdict is Verdict.INCONCLUSIVE
    first = headline(blind).text
    assert first.startswith("CANNOT SAY of speed; results and counts are the same (")
    assert "0 of 2 times decided; they would show a change of " in first
    assert "in these both sides ran the same operators and kernels" in first
    assert judged(Sides(noise=0.8, operators=11), monkeypatch, tmp_path).verdict.exit_code == 1
    most = judged(_noisy(("gemm", "lora", "yolo"), 0.8, monkeypatch), monkeypatch, tmp_path)
    assert most.verdict is Verdict.PASSED
    assert (
        "2 of 3 times decided, where a change of 5 % counts; the others would show a change of " in headline(most).text
    )
    assert (
        "2 of 2 times decided, where a change of 5 % counts -" in headline(judged(Sides(), monkeypatch, tmp_path)).text
    )


@pytest.mark.parametrize(
    ("centre", "verdict"), [(0.03, Verdict.INCONCLUSIVE), (0.01, Verdict.SKIPPED), (-0.04, Verdict.SKIPPED)]
)
def test_an_open_time_gates_only_where_it_looks_worse(centre: float, verdict: Verdict) -> None:
    known = Estimate(centre, centre - 0.045, centre + 0.045, 0.1, 0.1, 0.049, 14)
    cell = Cell("gemm", "time", 0.05, ruling=Ruling(CellWord.INCONCLUSIVE, known, 0.05, "open"))
    assert gate.check_of(cell).verdict is verdict


def test_a_subject_that_was_asked_for_by_name_must_be_judged(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    record = judged(_noisy(SUBJECTS, 0.8, monkeypatch), monkeypatch, tmp_path, only=SUBJECTS)
    assert red(record) == {"gate/run::speed": str(record.provenance["times"])}
    assert record.verdict is Verdict.INCONCLUSIVE


def test_what_launched_the_same_and_shows_nothing_is_not_asked_long(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    few, many = (
        len(judged_sides.asked)
        for judged_sides in (_quiet(monkeypatch, tmp_path), _quiet(monkeypatch, tmp_path, facts={"lock": "other"}))
    )
    assert few < many


def _quiet(monkeypatch: pytest.MonkeyPatch, folder: Path, **rest: Any) -> Sides:
    sides = _noisy(("gemm", "lora", "yolo"), 0.045, monkeypatch, **rest)
    judged(sides, monkeypatch, folder)
    return sides


@pytest.mark.parametrize("change", [{"loss": 2.02}, {"steps": 50}, {"drops": ("operators",)}])
def test_what_is_exact_ends_a_gate_at_once(
    change: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sides, patient = Sides(**change), Sides(**change)
    record = judged(sides, monkeypatch, tmp_path)
    assert (record.verdict.exit_code, len(sides.asked)) == (1, 1)
    assert "ended at once, since gemm, lora is worse" in headline(record).text
    judged(patient, monkeypatch, tmp_path, go_on=True)
    assert len(patient.asked) == plan.load().design.looks[0]


def test_a_counter_is_asked_twice_before_it_ends_a_gate(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    sides = Sides(operators=11)
    assert judged(sides, monkeypatch, tmp_path).verdict is Verdict.FAILED
    assert len(sides.asked) == 2


def test_a_counter_that_only_one_launch_saw_is_no_verdict(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    sides = Sides(operators=11)
    monkeypatch.setattr("stackproof.gate.gate.time.monotonic", lambda: 60.0 * len(sides.asked))
    record = judged(sides, monkeypatch, tmp_path, minutes=0.5)
    assert (len(sides.asked), record.verdict) == (1, Verdict.INCONCLUSIVE)
    assert "another launch would show" in red(record)["gate/gemm::operators"]
    assert headline(record).text.startswith("CANNOT SAY (")


def test_too_few_launches_are_no_noise(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    sides = Sides(noise=0.8)
    monkeypatch.setattr("stackproof.gate.gate.time.monotonic", lambda: 60.0 * len(sides.asked))
    record = judged(sides, monkeypatch, tmp_path, minutes=2.5)
    assert len(sides.asked) == 3
    assert record.verdict.exit_code == 6
    assert red(record)["gate/run::speed"].startswith(_CANNOT_SAY)


def test_what_disturbed_the_run_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    readings = [{"sm_mhz": 1980.0 if number < 3 else 1200.0, "celsius": 60.0} for number in range(4)]
    record = judged(Sides(readings=readings), monkeypatch, tmp_path)
    said = next(check.reason for check in record.checks if check.id == "gate/run::conditions")
    assert "clock (sm_mhz) moved between 1200 and 1980" in said
    assert "temperature" not in said
    assert record.verdict is Verdict.PASSED


def test_the_record_keeps_both_sides_for_later(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    record = judged(Sides(), monkeypatch, tmp_path)
    rows = {(row.workload, row.figures["side"]): row for row in record.measurements}
    assert set(rows) == {(name, side) for name in SUBJECTS for side in ("base", "head")}
    assert all(len(row.samples) == plan.load().design.looks[0] and row.unit == "s/iteration" for row in rows.values())
    assert rows["gemm", "head"].figures["counter operators"] == 10


@pytest.mark.parametrize(("change", "cell"), [({"loss": 2.02}, "computes"), ({"steps": 50}, "units")])
def test_sides_that_compute_different_things_fail_by_a_word_of_their_own(
    change: dict[str, Any], cell: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = judged(Sides(**change), monkeypatch, tmp_path)
    assert record.verdict is Verdict.FAILED
    assert set(red(record)) == {f"gate/gemm::{cell}", f"gate/lora::{cell}"}
    assert all(reason.startswith("CHANGED ") for reason in red(record).values())
    assert "CHANGED: the sides do not compute the same (2 CHANGED" in headline(record).text
    meant = judged(Sides(**change), monkeypatch, tmp_path, accept_changed=True)
    assert meant.verdict is Verdict.PASSED
    assert "CHANGED, which was accepted (2 CHANGED" in headline(meant).text
    assert "accepted by --accept-changed" in markdown(meant)


def test_the_minutes_count_what_building_a_project_takes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    sides, clock = Sides(), [0.0]

    def vet(*_: object) -> Any:
        clock[0] += 200.0
        return SimpleNamespace(facts=lambda: {"project": "mine"})

    monkeypatch.setattr("stackproof.gate.gate.time.monotonic", lambda: clock[0])
    for name, stand_in in (("vet", vet), ("launch", sides.launch), ("handshake", sides.handshake)):
        monkeypatch.setattr(gate, name, stand_in)
    monkeypatch.setattr(gate, "make_comparison", lambda *_: comparison())
    assert gate.run_gate(GateRequest(stack="cpu", same=True, outputs=Outputs(results=tmp_path))) == 6
    assert len(sides.asked) == 1

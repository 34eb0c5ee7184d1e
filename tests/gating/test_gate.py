"""A gate from sides to verdict, with sides that behave as a table says."""

from __future__ import annotations

import dataclasses
import random
from pathlib import Path

import pytest

pytest.importorskip("scipy", reason="the gate's statistics run in an environment with scipy")

from stackproof.errors import Refusal
from stackproof.gating import gate, plan, showing
from stackproof.gating.cells import Board
from stackproof.gating.duel import Launch, Lost
from stackproof.gating.live import Seat
from stackproof.records import Record, Verdict

SUBJECTS = ("gemm", "lora")
FACTS = {"torch": "2.15.0", "name": "CPU", "driver": {}, "subjects": list(SUBJECTS), "start_up": 5.0}


class Silent:
    """Is told and says nothing."""

    def launched(self, number: int, most: int, subject: str) -> None:
        """Hear of a launch."""

    def looked(self, board: Board) -> None:
        """Hear of a look."""


class Sides:
    """Stands in for two processes: noise of one per cent, and what the head is worse by."""

    def __init__(self, slower: float = 0.0, memory: float = 1.0, **rest: object) -> None:
        self.slower, self.memory, self.rest, self.dice = slower, memory, rest, random.Random(4)
        self.asked: list[tuple[str, ...]] = []

    def launch(self, _seats: object, subjects: tuple[str, ...], *_: object) -> tuple[Launch, list[Lost]]:
        """Return what a launch of these sides sees."""
        self.asked.append(tuple(subjects))
        found, lost = Launch(facts=(dict(FACTS), {**FACTS, **self.rest.get("facts", {})})), []  # type: ignore[dict-item]
        found.start_up = (5.0, 5.0 * (1 + self.dice.gauss(0, 0.01)))
        for subject in subjects:
            ended = self.rest.get("lost", {}).get(subject)  # type: ignore[attr-defined]
            if ended:
                lost.append(Lost(subject, "head", *ended))
                continue
            found.base[subject] = [1 + self.dice.gauss(0, 0.01) for _ in range(8)]
            found.head[subject] = [(1 + self.slower) * (1 + self.dice.gauss(0, 0.01)) for _ in range(8)]
            found.memory[subject] = (1000, round(1000 * self.memory))
            found.counters[subject] = ({"operators": 10}, {"operators": self.rest.get("operators", 10)})  # type: ignore[dict-item]
        return found, lost


def _gate(sides: Sides, monkeypatch: pytest.MonkeyPatch, folder: Path, **changes: object) -> Record:
    monkeypatch.setattr(gate, "launch", sides.launch)
    nobody = Seat("x", Path(), Path(), {}, "cpu", False, "fast", "")
    contest = gate.Contest((nobody, nobody), SUBJECTS, "tiny", "cpu", plan.load(), 5.0)
    contest = dataclasses.replace(contest, **changes)  # type: ignore[arg-type]
    board = gate.contend(contest, folder, Silent())
    record = Record("gate", "cpu", "2026-01-01T00:00:00+00:00", provenance={"base": "main", "head": "x", "method": "m"})
    gate.conclude(board, record, board.same_torch)
    return record


def _red(record: Record) -> dict[str, str]:
    return {check.id: check.reason for check in record.checks if check.verdict.exit_code}


def test_equal_sides_pass_at_the_first_look(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing is worse, and no launch is spent beyond what was needed to say so."""
    sides = Sides()
    assert _gate(sides, monkeypatch, tmp_path).verdict is Verdict.PASSED
    assert len(sides.asked) == plan.load().looks[0]


def test_a_slower_head_fails_and_names_the_cells(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Eight per cent of time: exit code 1, and only the times are red."""
    record = _gate(Sides(slower=0.08), monkeypatch, tmp_path)
    assert record.verdict.exit_code == 1
    assert sorted(_red(record)) == ["gate/gemm::time", "gate/lora::time"]
    assert all("SLOWER" in reason for reason in _red(record).values())


def test_ten_per_cent_more_memory_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Though the time is the same."""
    record = _gate(Sides(memory=1.1), monkeypatch, tmp_path)
    assert sorted(_red(record)) == ["gate/gemm::peak-memory", "gate/lora::peak-memory"]


def test_one_operator_more_fails_exactly(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Counters have no noise."""
    record = _gate(Sides(operators=11), monkeypatch, tmp_path)
    assert _red(record)["gate/gemm::operators"].startswith("SLOWER 10 -> 11")


def test_counters_of_two_torches_do_not_gate(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Another torch dispatches other operators; that is a fact and no failure."""
    record = _gate(Sides(operators=11, facts={"torch": "2.16.0"}), monkeypatch, tmp_path)
    assert record.verdict is Verdict.PASSED
    assert "different torch" in next(check.reason for check in record.checks if check.id == "gate/gemm::operators")


@pytest.mark.parametrize(
    ("ended", "code"),
    [
        ((Verdict.FAILED, "head: the gradient is wrong"), 1),
        ((Verdict.CRASHED, "head: ended with signal SIGSEGV"), 1),
        ((Verdict.HUNG, "head: hung in 'block'"), 5),
    ],
)
def test_a_side_that_is_wrong_or_gone_fails_whatever_its_speed(
    ended: tuple[Verdict, str], code: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The other subject is still judged; the lost one is not tried again."""
    sides = Sides(lost={"lora": ended})
    record = _gate(sides, monkeypatch, tmp_path)
    assert record.verdict.exit_code == code
    assert list(_red(record).values()) == [ended[1]]
    assert sides.asked[1] == ("gemm",)


def test_a_dropped_subject_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What the base has and the head has not is not skipped."""
    missing = {"lora": (Verdict.SKIPPED, "this side has no subject 'lora'")}
    record = _gate(Sides(lost=missing, facts={"subjects": ["gemm"]}), monkeypatch, tmp_path)
    assert record.verdict.exit_code == 1
    assert "was dropped" in _red(record)["gate/lora::runs"]


def test_a_gate_that_judged_nothing_is_inconclusive(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """All subjects skipped on both sides must not look green."""
    missing = dict.fromkeys(SUBJECTS, (Verdict.SKIPPED, "a rule says so"))
    assert _gate(Sides(lost=missing), monkeypatch, tmp_path).verdict is Verdict.INCONCLUSIVE


def test_unlike_drivers_are_refused_unless_asked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The difference would be the driver's."""
    sides = Sides(facts={"driver": {"driver": "2"}})
    with pytest.raises(Refusal, match="--allow-unlike"):
        _gate(sides, monkeypatch, tmp_path)
    assert _gate(sides, monkeypatch, tmp_path, allow_unlike=True).verdict is Verdict.PASSED


def test_the_minutes_end_a_gate_with_what_it_has(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One launch always happens; too few launches are inconclusive, not passed."""
    sides = Sides()
    assert _gate(sides, monkeypatch, tmp_path, minutes=0.0).verdict is Verdict.INCONCLUSIVE
    assert len(sides.asked) == 1


def test_the_markdown_says_the_verdict_first_and_holds_no_markup_of_others(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A subject's or a branch's name from a fork is text."""
    record = _gate(Sides(slower=0.08), monkeypatch, tmp_path)
    record.provenance["head"] = "<img src=x> @team | [x](y)"
    text = showing.markdown(record)
    assert text.splitlines()[0].startswith("### stackproof gate: DO NOT MERGE")
    assert "<img" not in text
    assert "@team" not in text
    assert "[x](y)" not in text
    showing.picture(record, tmp_path / "gate.svg")
    assert (tmp_path / "gate.svg").read_text().count("<circle") > 2 * plan.load().looks[0]

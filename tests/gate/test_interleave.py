"""One launch over real processes that take no time: turns, what is lost, and that one crash hides nothing else."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stackproof.gate import interleave, plan
from stackproof.gate.interleave import PROCESS, Answer, Conditions, Launch, LaunchTerms, LiveSide, Lost
from stackproof.record.records import Verdict

from .sham import spec

TERMS = LaunchTerms("tiny", plan.load(), 10.0)


def _launch(folder: Path, base: str = "", head: str = "", number: int = 0) -> tuple[Launch, list[Lost]]:
    specs = (spec(folder, "base", base), spec(folder, "head", head))
    return interleave.launch(specs, ("one", "two"), TERMS, number, folder / "launch", lambda _: None)


def test_both_sides_take_turns_over_every_subject(tmp_path: Path) -> None:
    found, lost = _launch(tmp_path)
    assert not lost
    for subject in ("one", "two"):
        base, head = found.seen[subject]["base"], found.seen[subject]["head"]
        assert len(base.blocks) == len(head.blocks)
        assert len(base.blocks) % 2 == 0
        assert set(head.blocks) == {0.02}
        assert base.counters == {"operators": 3}
        assert head.quantities["peak-memory"] == 1000
    assert found.seen[PROCESS]["head"].quantities == {"start-up": 1.0, "start-up-memory": 1000.0}


def test_every_second_launch_is_the_mirror_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    ask = LiveSide.ask

    def noting(side: LiveSide, request: str, deadline: float, **arguments: object) -> Answer:
        if request == "block":
            order.append(side.spec.name)
        return ask(side, request, deadline, **arguments)

    monkeypatch.setattr(LiveSide, "ask", noting)
    _launch(tmp_path / "even", number=0)
    even = order.copy()
    order.clear()
    _launch(tmp_path / "odd", number=1)
    other = {"base": "head", "head": "base"}
    assert even
    assert order == [other[name] for name in even]


def test_both_sides_have_the_same_core_and_warm_up_at_once_unless_one_is_drilled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, object]] = []
    send = LiveSide.send

    def noting(side: LiveSide, request: str, deadline: float, **arguments: object) -> None:
        asked.append((request, arguments.get("core")))
        send(side, request, deadline, **arguments)

    monkeypatch.setattr(LiveSide, "send", noting)
    _launch(tmp_path / "plain", number=3)
    assert {core for request, core in asked if request == "block"} == {3}
    warm = [number for number, (request, _) in enumerate(asked) if request == "warm"]
    assert warm[1] == warm[0] + 1


def test_ranks_warm_up_one_side_after_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = {name: {"kind": "collective"} for name in ("one", "two")}
    ranked = replace(TERMS, plan=replace(TERMS.plan, asked=kinds, design=replace(TERMS.plan.design, left_out=())))
    steps: list[str] = []
    for name in ("send", "receive"):
        plain = getattr(LiveSide, name)

        def noting(side: LiveSide, *given: object, step: str = name, call: Any = plain, **more: object) -> Any:
            steps.append(f"{step} {side.spec.name} {given[0] if given else ''}".strip())
            return call(side, *given, **more)

        monkeypatch.setattr(LiveSide, name, noting)
    specs = (spec(tmp_path, "base"), spec(tmp_path, "head"))
    interleave.launch(specs, ("one",), ranked, 0, tmp_path / "launch", lambda _: None)
    first = steps.index("send base warm")
    assert steps[first : first + 4] == ["send base warm", "receive base", "send head warm", "receive head"]


def test_later_launches_count_nothing_and_miss_nothing(tmp_path: Path) -> None:
    found, lost = _launch(tmp_path, number=TERMS.plan.count.launches)
    assert (lost, found.counted) == ([], False)
    for side in ("base", "head"):
        assert found.seen["one"][side].counters == {}
        assert found.seen["one"][side].blocks


def test_a_subject_is_proved_once_by_each_side_and_says_where_its_time_went(tmp_path: Path) -> None:
    terms = replace(TERMS, proofs={}, equal_counts=set())
    sides = (spec(tmp_path, "base"), spec(tmp_path, "head"))
    said = list[str]()
    found = [
        interleave.launch(sides, ("one",), terms, number, tmp_path / "launch", said.append)[0] for number in (0, 1)
    ]
    assert [line.split(",")[0] for line in said] == [PROCESS, "one", PROCESS, "one"]
    for line in said:
        whole, *parts = (float(word) for word in re.findall(r"[0-9]+\.[0-9]", line))
        assert whole == pytest.approx(sum(parts), abs=0.3), line
    assert [one.seen["one"]["head"].proved for one in found] == ["sound", "as before"]
    assert {"proof", "comparison", "warm-up", "blocks", "counters"} <= found[0].phases["one"].keys()
    assert not {"comparison", "counters"} & found[1].phases["one"].keys()


def test_when_the_time_is_over_what_was_seen_counts_and_nothing_is_lost(tmp_path: Path) -> None:
    terms = replace(TERMS, until=time.monotonic() + 8)
    sides = (spec(tmp_path, "base"), spec(tmp_path, "head", "hang"))
    found, lost = interleave.launch(sides, ("two", "one"), terms, 0, tmp_path / "launch", lambda _: None)
    assert (found.late, lost) == ("'block' of the head", [])
    assert found.seen["two"]["head"].blocks
    assert found.seen["one"]["head"].computed and not found.seen["one"]["head"].blocks
    terms.took["two"] = 10.0
    assert not terms.fits(["two"])


def test_a_crash_of_one_subject_leaves_the_other(tmp_path: Path) -> None:
    found, lost = _launch(tmp_path, head="crash")
    assert [(one.subject, one.side, one.verdict) for one in lost] == [("one", "head", Verdict.CRASHED)]
    assert set(found.seen) == {PROCESS, "two"}


def test_a_wrong_base_is_lost_too(tmp_path: Path) -> None:
    found, lost = _launch(tmp_path, base="wrong")
    assert [(one.side, one.verdict) for one in lost] == [("base", Verdict.FAILED)]
    assert "one" not in found.seen


def test_what_both_skip_is_told_from_what_one_skips(tmp_path: Path) -> None:
    assert [one.side for one in _launch(tmp_path, head="skip")[1]] == ["head"]
    assert [one.side for one in _launch(tmp_path, base="skip", head="skip")[1]] == ["both"]


def test_wrong_is_graver_than_skipped(tmp_path: Path) -> None:
    (lost,) = _launch(tmp_path, base="skip", head="wrong")[1]
    assert lost.verdict is Verdict.FAILED


def test_a_single_side_is_measured_alone(tmp_path: Path) -> None:
    found, _ = interleave.launch((spec(tmp_path, "head"),), ("one",), TERMS, 0, tmp_path / "launch", lambda _: None)
    assert set(found.seen["one"]) == {"head"}
    assert found.seen["one"]["head"].blocks


def test_the_greeting_says_what_there_is(tmp_path: Path) -> None:
    told = interleave.handshake((spec(tmp_path, "base"), spec(tmp_path, "head")), TERMS, tmp_path / "handshake")
    assert set(told) == {"base", "head"}
    assert set(told["head"]["subjects"]) == {"one", "two"}


def test_a_step_that_is_slow_each_third_time_is_uneven() -> None:
    even, uneven = [1.0, 1.01, 0.99] * 4, [1.0, 1.3, 1.0] * 4
    assert interleave.unevenness(even)["slow-steps"] < 1.02
    assert interleave.unevenness(uneven)["slow-steps"] == pytest.approx(1.3)
    assert interleave.unevenness([1.0] * 5) == {}


def test_what_is_computed_is_asked_for_once(tmp_path: Path) -> None:
    first, later = (_launch(tmp_path / str(number), number=number)[0].seen["one"] for number in (0, 1))
    assert {name: side.units for name, side in later.items()} == {
        key: {"optimiser steps": 7} for key in ("base", "head")
    }
    assert all(side.computed for side in first.values())
    assert not any(side.computed for side in later.values())


def _sentences(*launches: dict[str, Any], load: float = 0.0) -> str:
    found = Conditions(plan.load().conditions)
    for launch in launches:
        found.add([{"reading": {}, "throttled": [], "others": [], **launch}], load)
    return "; ".join(found.sentences())


def _reading(**values: float) -> dict[str, Any]:
    return {"reading": values}


@pytest.mark.parametrize(
    ("first", "last", "said"),
    [
        ({"sm_mhz": 1980.0}, {"sm_mhz": 1950.0}, ""),
        ({"sm_mhz": 1980.0}, {"sm_mhz": 1500.0}, "clock (sm_mhz) moved between 1500 and 1980"),
        ({"celsius": 50.0}, {"celsius": 58.0}, ""),
        ({"celsius": 50.0}, {"celsius": 70.0}, "temperature (celsius) moved between 50 and 70"),
    ],
)
def test_clocks_and_temperature_are_said_from_their_rows_on(
    first: dict[str, float], last: dict[str, float], said: str
) -> None:
    found = _sentences(_reading(**first), _reading(**last))
    assert said in found
    assert bool(said) == bool(found)


def test_others_are_counted_by_launch() -> None:
    found = _sentences({"others": ["python (7)"], "throttled": ["software power cap"]}, {}, load=0.4)
    assert "python (7) used the card in 1 of 2 launches" in found
    assert "throttled in 1 of 2 launches: software power cap" in found
    assert "others used up to 40% of the host's cores, in 2 of 2 launches" in found


def test_a_quiet_run_has_nothing_to_say() -> None:
    assert _sentences({}, {}) == ""


def test_a_short_time_is_spent_on_what_can_be_judged_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stackproof.gate.interleave.time.monotonic", lambda: 40.0)
    took = {"process": 2.0, "gemm": 1.0, "yolo": 9.0, "lora": 4.0}
    terms = LaunchTerms("tiny", plan.load(), until=61.0, took=took)
    assert terms.affordable(["yolo", "lora", "gemm"], 3) == ["lora", "gemm"]
    assert terms.affordable(["yolo", "lora"], 1) == ["yolo", "lora"]
    assert terms.affordable(["yolo"], 3) == ["yolo"]

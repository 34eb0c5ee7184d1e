"""What a night measures of which side, what is left of it when a side cannot run something, and how its rows read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stackproof.extras.nights.drift.series import Measured
from stackproof.extras.nights.night import measure
from stackproof.extras.nights.night.measure import MeasuredNight, Measuring
from stackproof.gate import plan
from stackproof.gate.interleave import LaunchTerms, Lost
from stackproof.record.records import Verdict

from .fakes_of_sides import ROW, FakeSides, specs

BOTH = (Measured.TODAY, Measured.ANCHOR)


def measured(
    fake: FakeSides, monkeypatch: pytest.MonkeyPatch, sides: tuple[Measured, ...] = BOTH, **changes: Any
) -> MeasuredNight:
    """Measure the stand-ins."""
    monkeypatch.setattr(measure.interleave, "launch", fake.launch)
    monkeypatch.setattr(measure.interleave, "handshake", fake.handshake)
    asked = Measuring(specs(*sides), LaunchTerms("tiny", plan.load()), 2, "cpu", **changes)
    return measure.launch_all(asked, Path(), lambda text: None)


def has(*names: str, **rows: Any) -> dict[str, Any]:
    """Return what a side says of its subjects."""
    return dict.fromkeys(names, ROW) | rows


def test_a_sample_is_a_round(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeSides({"today": has("gemm"), "anchor": has("gemm")}, {"today": 3.0})
    rows = measured(fake, monkeypatch).rows("tiny")
    assert [(row.figures["side"], row.samples) for row in rows] == [("today", [3.0] * 4), ("anchor", [1.0] * 4)]
    assert [row.version for row in rows] == ["1", ""] and rows[0].figures["verified"] == "a proof"
    assert {row.metric for row in rows} == {"night"} and rows[0].value == 3.0


def test_today_s_facts_are_the_night_s(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeSides({"today": has("gemm"), "anchor": has("gemm")})
    assert measured(fake, monkeypatch).facts == {"torch": "of today"}


@pytest.mark.parametrize("other", [{}, {"gemm": {**ROW, "version": "0"}}, {"gemm": {**ROW, "unit": "s/GB"}}])
def test_what_the_anchor_has_not_is_measured_of_today_alone(
    monkeypatch: pytest.MonkeyPatch, other: dict[str, Any]
) -> None:
    fake = FakeSides({"today": has("gemm", "copy"), "anchor": {**other, "copy": ROW}})
    found = measured(fake, monkeypatch)
    assert set(found.seen["gemm"]) == {Measured.TODAY} and set(found.seen["copy"]) == set(BOTH)
    assert list(found.alone) == ["gemm"]


def test_what_the_anchor_cannot_run_any_more_goes_on_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    lost = Lost("gemm", "anchor", Verdict.CRASHED, "anchor: no kernel image")
    fake = FakeSides({"today": has("gemm"), "anchor": has("gemm")}, lost={"gemm": lost})
    found = measured(fake, monkeypatch)
    assert fake.launches == [(("today", "anchor"), ("gemm",)), (("today",), ("gemm",)), (("today",), ("gemm",))]
    assert found.alone == {"gemm": "anchor: no kernel image"} and not found.lost
    assert len(found.seen["gemm"][Measured.TODAY]) == 2


@pytest.mark.parametrize("side", ["today", "both"])
def test_what_today_cannot_run_is_lost(monkeypatch: pytest.MonkeyPatch, side: str) -> None:
    lost = Lost("gemm", side, Verdict.FAILED, "the gradient is off")
    fake = FakeSides({name: has("gemm", "copy") for name in ("today", "anchor")}, lost={"gemm": lost})
    found = measured(fake, monkeypatch)
    assert found.lost == {"gemm": lost} and set(found.seen) == {"copy"}
    assert fake.launches[1] == (("today", "anchor"), ("copy",))


def test_only_what_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = has("gemm", "copy", spared={**ROW, "spared": ["cpu"]}, ranks={**ROW, "kind": "collective"})
    fake = FakeSides({"today": rows, "anchor": rows})
    assert set(measured(fake, monkeypatch).seen) == {"gemm", "copy"}
    assert set(measured(fake, monkeypatch, only=("copy",)).seen) == {"copy"}

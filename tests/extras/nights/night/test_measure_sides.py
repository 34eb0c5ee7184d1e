"""The measuring stage: a disturbed measurement is taken once more, a frozen side that is gone is said, a lost subject fails."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stackproof.base.errors import EnvironmentMismatchError, Refusal
from stackproof.extras.nights.drift.series import Measured, nights
from stackproof.extras.nights.night import measure
from stackproof.extras.nights.night.request import NightRun
from stackproof.gate.interleave import Lost, SideEndedError
from stackproof.gate.variants import Variant
from stackproof.record import store
from stackproof.record.records import Check, Verdict

from .fake_night import ledger_in, request
from .fakes_of_sides import ROW, FakeSides, specs

HEAT = {"reading": {}, "throttled": ["hardware thermal slowdown"], "others": []}
HAS: dict[str, Any] = {"today": {"gemm": ROW}, "anchor": {"gemm": ROW}}


def held(
    folder: Path, fake: FakeSides, monkeypatch: pytest.MonkeyPatch, *, broken: str = "", pause: float = 0.0
) -> NightRun:
    """Run the stage with these sides; the environment of the `broken` one cannot be built."""
    known = {side.value: spec for side, spec in specs(*Measured).items()}

    def spec(run: NightRun, variant: Variant) -> Any:
        if variant.name == broken:
            raise EnvironmentMismatchError(f"{variant.name}: its wheels are gone")
        return known[variant.name]

    monkeypatch.setattr(measure, "_spec", spec)
    monkeypatch.setattr(measure.time, "sleep", waits.append)
    monkeypatch.setattr(measure.interleave, "launch", fake.launch)
    monkeypatch.setattr(measure.interleave, "handshake", fake.handshake)
    monkeypatch.setattr(measure.processes, "HostLoad", lambda: type("Quiet", (), {"share": lambda self: 0.0})())
    run = NightRun(request(folder, launches=2, pause=pause), ledger_in(folder))
    measure.measured(run)
    return run


waits: list[float] = []


@pytest.fixture(autouse=True)
def _nobody_waits() -> None:
    waits.clear()


def checks(run: NightRun) -> dict[str, Check]:
    """Return the checks by name."""
    return {check.id: check for check in run.ledger.record.checks}


def test_a_measured_night_is_a_night_for_the_scan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = held(tmp_path, FakeSides(HAS, {"today": 2.0}), monkeypatch)
    assert {name: check.verdict for name, check in checks(run).items()} == {
        "admission": Verdict.PASSED,
        "figures": Verdict.PASSED,
    }
    (night,) = nights(store.read([run.ledger.path]))
    assert not night.disturbed and night.anchor == request(tmp_path).anchor
    ((_, both),) = night.figures.items()
    assert both == {Measured.TODAY: (2.0,) * 4, Measured.ANCHOR: (1.0,) * 4}
    assert night.state.fact("wheels", "torch") == "of today"


def test_a_disturbed_night_is_measured_once_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeSides(HAS, readings=[HEAT])
    run = held(tmp_path, fake, monkeypatch, pause=7.0)
    assert len(fake.launches) == 4 and waits == [7.0]
    assert checks(run)["admission"].verdict is Verdict.PASSED and "disturbed" not in run.ledger.record.provenance


def test_one_that_is_disturbed_twice_is_left_out_and_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeSides(HAS, readings=[HEAT, HEAT, HEAT, HEAT])
    run = held(tmp_path, fake, monkeypatch)
    assert len(fake.launches) == 4
    admission = checks(run)["admission"]
    assert admission.verdict is Verdict.INCONCLUSIVE and "the night does not count" in admission.reason
    (night,) = nights(store.read([run.ledger.path]))
    assert "hardware thermal slowdown" in night.disturbed and night.figures


def test_an_anchor_that_cannot_be_built_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = held(tmp_path, FakeSides(HAS), monkeypatch, broken="anchor")
    found = checks(run)
    assert (
        found["anchor"].verdict is Verdict.INCONCLUSIVE
        and "its wheels are gone; choose a new one" in found["anchor"].reason
    )
    assert found["figures"].verdict is Verdict.PASSED
    assert [row.figures["side"] for row in run.ledger.record.measurements] == ["today"]


def test_an_anchor_that_does_not_come_up_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeSides(HAS)
    first = fake.handshake

    def handshake(chosen: Any, *words: Any) -> Any:
        if any(spec.name == "anchor" for spec in chosen):
            raise SideEndedError("anchor", Verdict.CRASHED, "anchor: ended with signal SIGSEGV in 'start-up'")
        return first(chosen, *words)

    fake.handshake = handshake  # type: ignore[method-assign, assignment]
    found = checks(held(tmp_path, fake, monkeypatch))
    assert "SIGSEGV" in found["anchor"].reason and found["figures"].verdict is Verdict.PASSED


@pytest.mark.parametrize(
    ("error", "verdict"),
    [(EnvironmentMismatchError("today: torch is another"), Verdict.MISMATCHED), (Refusal("no"), Verdict.FAILED)],
)
def test_today_s_side_that_does_not_come_up_fails_the_night(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Refusal, verdict: Verdict
) -> None:
    fake = FakeSides(HAS)

    def handshake(*_: Any) -> Any:
        raise error

    fake.handshake = handshake  # type: ignore[method-assign, assignment]
    assert checks(held(tmp_path, fake, monkeypatch))["figures"].verdict is verdict


def test_a_subject_that_computes_wrong_fails_the_night(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeSides(HAS, lost={"gemm": Lost("gemm", "today", Verdict.FAILED, "today: the gradient is off")})
    found = checks(held(tmp_path, fake, monkeypatch))
    assert found["runs::gemm"].verdict is Verdict.FAILED
    assert found["figures"].verdict is Verdict.FAILED and "the gradient is off" in found["figures"].reason

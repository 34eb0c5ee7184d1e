"""The drill: each fault is planted in a live side, and the gate finds it. One launch shows what needs no statistics, three what does.

The sides run under the Python that `STACKPROOF_SIDE` names (`nox -s gate-tests` sets it to the cpu stack's), else under this one,
which then needs torch.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import os
import sys
from pathlib import Path

import pytest

from stackproof import cli
from stackproof.base.errors import Refusal
from stackproof.gate import plan, planted
from stackproof.record import reading
from stackproof.record.records import Record

PYTHON = os.environ.get("STACKPROOF_SIDE", sys.executable)
GEMM, ATTENTION, MODEL = "gemm-float32", "attention-forward-float32", "training-llama3-8b-lora"


@pytest.fixture(autouse=True)
def _a_side_has_torch() -> None:
    """Without one nothing here would run, and that is no pass."""
    if "STACKPROOF_SIDE" not in os.environ and importlib.util.find_spec("torch") is None:
        pytest.fail("no Python with torch: run `nox -s gate-tests`, or set STACKPROOF_SIDE to the Python of a stack")


def _gate(
    folder: Path, monkeypatch: pytest.MonkeyPatch, *flags: str, alpha: float = 0.2, subjects: tuple[str, ...] = (GEMM,)
) -> tuple[int, Record]:
    """Run the verb as a user does, over few launches and with a promise to match; return its exit code and its record."""
    declared = plan.load()
    design = dataclasses.replace(declared.design, looks=(3,), alpha=alpha, rounds=2, block_seconds=0.02)
    short = dataclasses.replace(declared, design=design)
    monkeypatch.setattr(plan, "load", lambda: short)
    path = folder / "gate.json"
    only = [word for subject in subjects for word in ("--only", subject)]
    common = ["gate", "--stack", "cpu", "--unpinned", PYTHON, "--results", str(folder), "--json", str(path)]
    code = cli.main([*common, "--deadline-scale", "10", *only, *flags])
    return code, reading.read(path)


def _reason(record: Record, check: str) -> str:
    return next(one.reason for one in record.checks if one.id == f"gate/{check}")


@pytest.mark.live
def test_a_spin_is_found_and_called_slower(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From a live process to exit code 1.

    Twenty times the step, because this is no test of the host: how little is found on a quiet one is for the calibration to say.
    """
    code, record = _gate(tmp_path, monkeypatch, "--head-drill", "spin=20")
    assert code == 1
    assert _reason(record, f"{GEMM}::time").startswith("SLOWER")
    assert "DRILL" in str(record.provenance["method"])


@pytest.mark.live
def test_more_memory_is_worse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, record = _gate(tmp_path, monkeypatch, "--head-drill", "memory=0.10")
    assert code == 1
    assert _reason(record, f"{GEMM}::peak-memory").startswith("SLOWER +")  # 9.8 % to 10.2 % of 10 planted


def test_a_wrong_gradient_fails_before_anything_is_timed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, record = _gate(tmp_path, monkeypatch, "--head-drill", "gradient=0.05", subjects=(MODEL,))
    assert code == 1
    assert _reason(record, f"{MODEL}::runs").startswith("head: ")
    assert "error" in _reason(record, f"{MODEL}::runs")
    assert not record.measurements


def test_an_equal_head_counts_equal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At an error rate so small that three launches decide no time on any host: only the counts are asked here."""
    code, record = _gate(tmp_path, monkeypatch, "--same", alpha=1e-6, subjects=(GEMM, ATTENTION))
    assert code == 6
    assert _reason(record, f"{GEMM}::operators").startswith("SAME")
    assert _reason(record, f"{ATTENTION}::allocations").startswith("SAME")


@pytest.mark.live
def test_a_commit_is_a_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, record = _gate(tmp_path, monkeypatch, "--base", "HEAD", "--allow-inconclusive")
    assert code == 0
    assert record.provenance["base"] == "HEAD"
    assert _reason(record, f"{GEMM}::operators").startswith(("SAME", "FASTER"))


@pytest.mark.live
def test_a_variable_reaches_its_side_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, record = _gate(tmp_path, monkeypatch, "--head-env", "PYTHONHOME=/nonexistent")
    assert code == 1
    assert _reason(record, "process::start-up").startswith("head: ended with exit code 1")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [("sping=0.1", "did you mean 'spin'"), ("spin=much", "is not a number")],
)
def test_a_slip_in_a_drill_is_refused_with_the_menu(text: str, sentence: str) -> None:
    with pytest.raises(Refusal, match=sentence) as refused:
        planted.read(text)
    assert all(kind in str(refused.value) for kind in planted.KINDS)

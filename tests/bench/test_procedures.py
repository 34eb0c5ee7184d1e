"""The engine's own cost is told against a bare loop; a slow engine is seen."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import Any

import pytest

from stackproof.base import processes
from stackproof.base.processes import Ended
from stackproof.bench import procedures
from stackproof.bench.engine import measure
from stackproof.bench.sampling import Sampler
from stackproof.bench.subjects import Budget
from stackproof.record.checks import CheckCrashed, CheckHung
from stackproof.stack.stacks import Stack

from .conftest import HOST, Spin, subject_of

STEADY = Budget(noise=0.2, seconds=1.0, least=4)


@pytest.mark.slow
def test_the_ratio_is_of_the_same_step(spin: type[Spin], cpu: Stack) -> None:
    found = measure(subject_of(cpu, "overhead", "ratio", step_ms=5, steps=5), HOST, "tiny", STEADY)
    assert found.verified
    assert found.unit == "ratio"
    assert 0.67 < float(found.facts["processor time, ratio"]) < 1.5
    assert 0 < float(found.facts["an empty step, us"]) < 1000


@pytest.mark.slow
def test_a_slow_engine_is_seen(spin: type[Spin], cpu: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    block = Sampler.block

    def slow(self: Sampler, count: int) -> list[float]:
        time.sleep(0.05)
        return block(self, count)

    monkeypatch.setattr(procedures.Sampler, "block", slow)
    found = measure(subject_of(cpu, "overhead", "ratio", step_ms=2, steps=5), HOST, "tiny", STEADY)
    assert found.median > 1.3


def test_rows_are_read_strictly(spin: type[Spin], cpu: Stack) -> None:
    parameters: dict[str, Any] = {"step_ms": 5, "steps": 5, "stpes": 6}
    with pytest.raises(Exception, match="'own-subject.tiny.stpes' is not a known key"):
        measure(subject_of(cpu, "overhead", "ratio", **parameters), HOST, "tiny", STEADY)


FEW = Budget(noise=0.5, seconds=0.1, least=3)


def answers(monkeypatch: pytest.MonkeyPatch, said: str, code: int = 0) -> None:
    ended = Ended(code, said, "Segmentation fault\n" if code else "")
    monkeypatch.setattr(processes, "run", lambda *_, **__: ended)


@pytest.mark.slow
def test_imports_are_really_timed(spin: type[Spin], cpu: Stack) -> None:
    found = measure(subject_of(cpu, "start-up", "s", phase="import", ranks=1), HOST, "tiny", FEW)
    assert found.verified
    assert min(found.samples) > 0.1
    assert len(found.samples) >= 3


def test_a_wrong_first_kernel_voids_it(spin: type[Spin], cpu: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, '{"import": 1.0, "kernel": 0.1, "sum": 27.0}\n')
    found = measure(subject_of(cpu, "start-up", "s", phase="kernel", ranks=1), HOST, "tiny", FEW)
    assert (found.verified, found.samples) == (False, ())
    assert found.reason == "the first kernel gave 27.0, 28 was expected"


def test_a_process_that_dies_is_named(spin: type[Spin], cpu: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, "", code=139)
    with pytest.raises(CheckCrashed, match="exit code 139: Segmentation fault"):
        measure(subject_of(cpu, "start-up", "s", phase="kernel", ranks=1), HOST, "tiny", FEW)


def test_a_process_that_hangs_is_ended(spin: type[Spin], cpu: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(procedures, "_DEADLINE_S", 0.05)
    with pytest.raises(CheckHung):
        measure(subject_of(cpu, "start-up", "s", phase="import", ranks=1), HOST, "tiny", FEW)


@pytest.mark.slow
def test_the_child_refuses_to_time_what_is_imported_already() -> None:
    main = "from stackproof.bench.startup_child import main"
    code = f'import torch; {main}; main(\'{{"imports": ["torch"], "kind": "cpu", "index": 0}}\')'
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode != 0
    assert "torch was imported before its import could be timed" in done.stderr

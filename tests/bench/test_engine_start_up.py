"""Start-up is timed in processes of its own; one that computes wrong, dies or hangs is told."""

from __future__ import annotations

import pytest

from stackproof.base import processes
from stackproof.base.processes import Ended
from stackproof.bench import engine
from stackproof.bench.engine import measure
from stackproof.bench.subjects import Budget
from stackproof.record.checks import CheckCrashed, CheckHung
from stackproof.stack.stacks import Stack

from .conftest import HOST, Spin, subject_of

FEW = Budget(noise=0.5, seconds=0.1, least=3)


def test_rows_are_read_strictly(spin: type[Spin], cpu: Stack) -> None:
    with pytest.raises(Exception, match="'own-subject.tiny.phsae' is not a known key"):
        measure(subject_of(cpu, "start-up", "s", phase="import", ranks=1, phsae=6), HOST, "tiny", FEW)


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
    monkeypatch.setattr(engine, "_DEADLINE_S", 0.05)
    with pytest.raises(CheckHung):
        measure(subject_of(cpu, "start-up", "s", phase="import", ranks=1), HOST, "tiny", FEW)


def test_what_comes_before_the_timed_words_counts(
    spin: type[Spin], cpu: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "_CHILD", f"import time\ntime.sleep(0.5)\n{engine._CHILD}")
    assert engine._starting(subject_of(cpu), HOST, "import") > 0.6

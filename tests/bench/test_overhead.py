"""The engine's own cost is told against a bare loop; a slow engine is seen."""

from __future__ import annotations

import time
from typing import Any

import pytest

from stackproof.bench import overhead
from stackproof.bench.engine import measure
from stackproof.bench.sampling import Sampler
from stackproof.bench.subjects import Budget
from stackproof.stack.stacks import Stack

from .conftest import HOST, Spin, subject_of

FEW = Budget(noise=0.2, seconds=1.0, least=4)


@pytest.mark.slow
def test_the_ratio_is_of_the_same_step(spin: type[Spin], cpu: Stack) -> None:
    found = measure(subject_of(cpu, "overhead", "ratio", step_ms=5, steps=5), HOST, "tiny", FEW)
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

    monkeypatch.setattr(overhead.Sampler, "block", slow)
    found = measure(subject_of(cpu, "overhead", "ratio", step_ms=2, steps=5), HOST, "tiny", FEW)
    assert found.median > 1.3


def test_rows_are_read_strictly(spin: type[Spin], cpu: Stack) -> None:
    parameters: dict[str, Any] = {"step_ms": 5, "steps": 5, "stpes": 6}
    with pytest.raises(Exception, match="'own-subject.tiny.stpes' is not a known key"):
        measure(subject_of(cpu, "overhead", "ratio", **parameters), HOST, "tiny", FEW)

"""The product under two timers, for real: both time the same call."""

from __future__ import annotations

import importlib.util

import pytest

from stackproof.bench import agree
from stackproof.record.checks import CapabilityMissing
from stackproof.workloads.gemm import Gemm

from ..workloads.working import setting


def test_torchs_timer_tells_the_same_product(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agree, "_BLOCK_S", 0.02)
    reason, turns = agree.compare_products(setting(size=256, dtype="float32"), agree.torch_timer, rounds=3)
    assert "of the product: worst" in reason
    assert len(turns.ours) == len(turns.theirs) == 6
    assert 0.1 < turns.ratio.median < 10


def test_without_triton_the_pair_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    work = Gemm(setting(size=64, dtype="float32"))
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(CapabilityMissing, match="gemm-triton: triton is not installed"):
        agree.triton_do_bench(work, 1)
    work.close()

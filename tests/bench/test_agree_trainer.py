"""The LoRA step under transformers' Trainer: it trains the job's twin, on the job's sequences, and tells samples a second."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import torch

from stackproof.bench import agree
from stackproof.device.devices import HOST
from stackproof.workloads.catalogue import get

from ..workloads.working import setting


@pytest.mark.slow
def test_the_trainer_really_trains(tmp_path: Path) -> None:
    job = get("llama3-8b-lora").build(torch.device("cpu"), "tiny", 7)
    before = {
        name: parameter.detach().clone() for name, parameter in job.model.named_parameters() if parameter.requires_grad
    }
    began = time.perf_counter()
    seconds = agree._hf_trainer(job, HOST, 2, tmp_path)()
    named = dict(job.model.named_parameters())
    assert not any(torch.equal(kept, named[name]) for name, kept in before.items())
    assert 0 < seconds < time.perf_counter() - began


@pytest.mark.slow
def test_both_are_told_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agree, "_TRAINER_BLOCK_S", 0.1)
    monkeypatch.setattr(agree, "_LEAST_STEPS", 2)
    reason, turns = agree.compare_trainer(setting(workload="llama3-8b-lora"), rounds=1)
    assert "gradients against float64" in reason
    assert 0.1 < turns.ratio.median < 10


def test_a_batch_is_one_whole_sequence() -> None:
    tokens = torch.arange(5)
    assert agree._alone([{"input_ids": tokens, "labels": tokens}])["input_ids"].shape == (1, 5)

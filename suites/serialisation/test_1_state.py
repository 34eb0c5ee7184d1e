"""State written on the device loads on the CPU and back, bit for bit, without trusting the file (`weights_only=True`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from stackproof.device.kinds import Device
from stackproof.device.numerics import relative_error
from stackproof.probes import checkpoint
from stackproof.project.offers import playing
from stackproof.record.checks import require
from stackproof.record.records import Figure
from stackproof.stack import capabilities
from stackproof.stack.stacks import Stack
from stackproof.workloads.base import Job
from suites.common import SEED, possible

_STEPS = 2
_AGREE = 1e-5  # the next step after a resume: bit-equal on the CPU, but atomics on a card add in any order


def _job(device: Device) -> Job:
    """Return a classifier with an optimiser that keeps moments and a step counter, and a scaler that is switched on."""
    job = possible(playing("plain")).build(device.torch, "tiny", SEED, torch.float32)
    job.optimiser = torch.optim.AdamW(job.model.parameters(), lr=1e-3)
    job.scaler = torch.amp.GradScaler(device.kind, init_scale=256.0, growth_interval=1)
    return job


def _state(job: Job) -> dict[str, Any]:
    return {
        "model": job.model.state_dict(),
        "optimiser": job.optimiser.state_dict(),
        "scaler": job.scaler.state_dict(),
    }


def _dtypes(stack: Stack) -> tuple[torch.dtype, ...]:
    return (*(getattr(torch, name) for name in stack.precisions), torch.int64, torch.int32, torch.uint8, torch.bool)


@pytest.mark.deadline(60)
def test_tensors(stack: Stack, device: Device, tmp_path: Path, figures: dict[str, Figure]) -> None:
    """Every dtype of the stack, with NaN, -0, infinity, views and nothing at all, by every spelling of map_location."""
    figures["compared"] = checkpoint.travels(checkpoint.samples(device, _dtypes(stack)), device, tmp_path)
    figures["summary"] = f"{figures['compared']} tensors are bit-equal after torch.save and torch.load"


@pytest.mark.deadline(60)
def test_safetensors(stack: Stack, device: Device, tmp_path: Path, figures: dict[str, Figure]) -> None:
    """The same through safetensors."""
    capabilities.require(stack, "safetensors")
    figures["compared"] = checkpoint.by_safetensors(checkpoint.samples(device, _dtypes(stack)), device, tmp_path)
    figures["summary"] = f"{figures['compared']} tensors are bit-equal after safetensors"


@pytest.mark.deadline(60)
def test_checkpoint(device: Device, tmp_path: Path, figures: dict[str, Figure]) -> None:
    """Model, optimiser with its moments, and scaler survive the way to the CPU and back."""
    job = _job(device)
    for _ in range(_STEPS):
        job.step()
    figures["compared"] = checkpoint.travels(_state(job), device, tmp_path)
    require(job.scaler.get_scale() != 256.0, "the scaler never grew, so its state is not worth saving")
    figures["summary"] = f"{figures['compared']} tensors of model, optimiser and scaler are bit-equal"


@pytest.mark.deadline(60)
def test_resume(device: Device, tmp_path: Path, figures: dict[str, Figure]) -> None:
    """A job that is resumed from the file takes the same next step as the one that wrote it."""
    first, second = _job(device), _job(device)
    for _ in range(_STEPS):
        first.step()
    torch.save(_state(first), tmp_path / "state.pt")
    read = torch.load(tmp_path / "state.pt", map_location=device.torch, weights_only=True)
    second.model.load_state_dict(read["model"])
    second.optimiser.load_state_dict(read["optimiser"])
    second.scaler.load_state_dict(read["scaler"])
    checkpoint.equal(_state(second), _state(first), "state that was loaded into a new job")
    first.step()
    second.step()
    theirs = second.model.state_dict()
    figures["worst"] = worst = max(
        relative_error(theirs[name], value) for name, value in first.model.state_dict().items()
    )
    require(worst <= _AGREE, f"the step after a resume differs by {worst:.1e}, {_AGREE:.0e} allowed")
    figures["summary"] = f"the step after a resume differs by {worst:.1e} of {_AGREE:.0e} allowed"

"""Short throughput figures, marked indicative: enough to see that a stack is not absurdly slow, not enough to compare."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from stackproof.device.kinds import Device
from stackproof.record.checks import require
from stackproof.record.records import Figure, Measurement
from stackproof.workloads.base import Preset
from stackproof.workloads.catalogue import taking_part
from suites.common import SEED, possible

_WARM_UP = 2
_STEPS = 5


@pytest.mark.needs("smoke/workloads::float32[{name}]")
@pytest.mark.deadline(120)
@pytest.mark.parametrize("name", taking_part("smoke"))
def test_training(
    name: str, device: Device, preset: Preset, measured: Callable[[Measurement], None], figures: dict[str, Figure]
) -> None:
    """Time single training steps after a short warm-up, each with the device drained before and after.

    In the preset's own precision: float32 for `tiny`, what the users train in for `full`.
    """
    workload = possible(name)
    job = workload.build(device.torch, preset, SEED)
    dtype = str(job.recipe.autocast or job.recipe.dtype).removeprefix("torch.")
    for _ in range(_WARM_UP):
        job.step()
    device.synchronize()
    seconds = [_timed(device, job.step) for _ in range(_STEPS)]
    require(min(seconds) > 0, "a training step took no time: the device's clock or its synchronisation does nothing")
    middle = sorted(seconds)[_STEPS // 2]
    samples = job.units.samples
    per_sample = [duration / samples for duration in seconds]
    for unit, value, raw in (("s/iteration", middle, seconds), ("s/sample", middle / samples, per_sample)):
        measured(Measurement(name, preset, dtype, 1, "training", unit, value, raw, "indicative"))
    figures["summary"] = f"{1 / middle:.2f} it/s, {samples / middle:.1f} samples/s, indicative ({_STEPS} steps)"


def _timed(device: Device, step: Callable[[], torch.Tensor]) -> float:
    watch = device.stopwatch()
    watch.start()
    step()
    watch.stop()
    device.synchronize()
    return watch.seconds()

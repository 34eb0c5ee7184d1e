"""The card serves its operators itself: none that a step of training sends it is computed by the host in silence.

Of each operator the largest call counts, of batches twice the tiny preset's: some are served by the host from a size on.
Not seen: operators that no workload uses, and one that the host computes now and then, or for small sizes alone.
"""

from __future__ import annotations

import pytest
import torch
from torch.optim import swa_utils

from stackproof.device.kinds import Device
from stackproof.device.telemetry import unless_shared
from stackproof.probes import clock, served
from stackproof.record.records import Figure
from stackproof.stack import capabilities
from stackproof.stack.stacks import Stack
from stackproof.workloads.base import Job
from stackproof.workloads.catalogue import get, names
from suites.common import SEED

_SCALE = 2


@pytest.mark.deadline(240)
def test_by_the_card(stack: Stack, device: Device, figures: dict[str, Figure]) -> None:
    """With the card's queue full, what a step of each workload calls on it, forward and backward, returns at once (pytorch#126488)."""
    capabilities.require(stack, "device-events")
    traced, left_out = _traced(stack, device)
    work = clock.products(device)
    with unless_shared(device, stack):
        shares = served.served(traced.calls, work, clock.lasting(work, served.BACKLOG_S))
    slowest = max(shares, key=lambda name: shares[name])
    operators = {name.partition(" ")[0] for name in shares}
    figures |= {"operators": len(operators), "calls": len(shares), "slowest": shares[slowest]}
    figures |= {"not called": ", ".join(f"{name} ({why})" for name, why in sorted(traced.excused.items()))}
    figures |= {"workloads left out": ", ".join(left_out)}
    figures["summary"] = (
        f"{len(operators)} operators of training steps, in {len(shares)} calls, return before the queue is empty; "
        f"{slowest} after {shares[slowest]:.1%} of it; {len(traced.excused)} others look at memory or must wait"
    )


def _traced(stack: Stack, device: Device) -> tuple[served.Traced, list[str]]:
    """Trace the second step of every workload that can be built here, in float32 and under autocast, and what trainers do around it."""
    traced, left_out = served.Traced(device.torch), []
    halves = [
        dtype for dtype in (torch.bfloat16, torch.float16) if str(dtype).removeprefix("torch.") in stack.precisions
    ]
    for name in names():
        if get(name).missing():
            left_out.append(name)
            continue
        for autocast in (None, *halves):
            job = get(name).build(device.torch, "tiny", SEED, torch.float32, autocast, scale=_SCALE)
            job.batches.sort(key=lambda batch: sum(map(torch.Tensor.numel, batch.values())))
            del job.batches[:-2]
            average = swa_utils.AveragedModel(
                job.model, device=device.torch, multi_avg_fn=swa_utils.get_ema_multi_avg_fn(0.9), use_buffers=True
            )
            _trained(job, average)
            with traced:
                _trained(job, average)
    return traced, left_out


def _trained(job: Job, average: swa_utils.AveragedModel) -> None:
    """A step, with its scaler in float16, and what trainers add: gradients clipped by their norm, kept and zeroed, a moving average."""
    job.step()
    torch.nn.utils.clip_grad_norm_(job.model.parameters(), 1.0)
    average.update_parameters(job.model)
    job.optimiser.zero_grad(set_to_none=False)

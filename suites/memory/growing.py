"""Training steps need no more memory than the first few: of any workload, by whoever counts.

Growth counts if each of three rounds shows it. Not seen: less than a driver's block a round (2 MiB on NVIDIA), and evaluation.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch

from stackproof.device.kinds import Device
from stackproof.device.telemetry import neighbours, others_on_card
from stackproof.probes import memory
from stackproof.record.records import Figure
from stackproof.stack.stacks import Stack
from stackproof.workloads.catalogue import get, names
from suites.common import SEED


def steady(
    stack: Stack, device: Device, read: memory.Read, allowed: Mapping[str, int], figures: dict[str, Figure]
) -> None:
    """Train every workload that this environment can build; one after the other, each from its own beginning."""
    most: memory.Counts = {}
    for name in names():
        if get(name).missing():
            continue
        step = get(name).build(device.torch, "tiny", SEED, torch.float32).step
        steps = memory.most_steps(step)
        who = lambda: neighbours(device, others_on_card(device, stack))  # noqa: E731
        grown = memory.steady(f"{name} on {device}", read, allowed, step, steps, who)
        figures[f"{name}, steps"] = steps
        most = {counter: max(bytes_, most.get(counter, bytes_)) for counter, bytes_ in grown.items()}
    figures |= {f"grown, by {counter}": bytes_ for counter, bytes_ in most.items()}
    summary = ", ".join(f"{bytes_} by {counter}" for counter, bytes_ in most.items())
    figures["summary"] = f"bytes left behind by a round of steps of {len(figures) - len(most)} workloads: {summary}"

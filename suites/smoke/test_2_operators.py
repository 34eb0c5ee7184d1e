"""Torch's own operator database, forward and backward, in float32 against float64."""

from __future__ import annotations

import pytest
import torch

from stackproof.device.kinds import Device
from stackproof.operators import values
from stackproof.operators.parts import suited, swept
from stackproof.record.checks import CheckFailed, require
from stackproof.record.records import Figure
from stackproof.stack.stacks import Stack

_FEWEST = 600
_SAMPLES = 4
_MOST_NAMED = 5


@pytest.mark.deadline(180)
def test_float32(stack: Stack, device: Device, figures: dict[str, Figure]) -> None:
    """At least 600 operators run, and each that runs agrees with float64 as well as the CPU does."""
    processes = suited(device)
    found = swept(device.torch, torch.float32, _SAMPLES, stack.imports, processes)
    figures["processes"] = processes
    figures |= {f"operators {outcome.value}": count for outcome, count in found.counts.items()}
    figures |= {f"executed {what}": count for what, count in found.executed.items()}
    if faults := found.faults():
        raise CheckFailed(f"{len(faults)} operators: " + "; ".join(fault.reason for fault in faults[:_MOST_NAMED]))
    executed = found.executed
    require(
        executed["forward"] >= _FEWEST,
        f"only {executed['forward']} operators ran forward, at least {_FEWEST} are expected",
    )
    figures["summary"] = (
        f"{executed['forward']} operators forward, {executed['backward']} backward, {executed['samples']} samples"
    )


@pytest.mark.deadline(120)
def test_values(stack: Stack, device: Device, figures: dict[str, Figure]) -> None:
    """On the numbers that uniformly drawn samples never hold, some classes of operators give what NumPy says."""
    calls = 0
    for kind, regime in values.cells().smoke:
        seen: dict[str, Figure] = {}
        values.check(kind, regime, stack, device, seen)
        calls += int(seen["tried"])
    figures |= {"cells": len(values.cells().smoke), "calls": calls}
    figures["summary"] = f"{calls} calls in {len(values.cells().smoke)} cells are what NumPy says"

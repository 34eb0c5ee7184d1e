"""Torch's own operator database, forward and backward, in float32 against float64."""

from __future__ import annotations

import pytest
import torch

from stackproof.device.kinds import Device
from stackproof.operators import engine
from stackproof.operators.parts import suited, swept
from stackproof.record.checks import CheckFailed, require
from stackproof.record.records import Figure
from stackproof.stack.stacks import Stack

_FEWEST = 600
_SAMPLES = 4
_MOST_NAMED = 5
_EXACT = (
    "mm", "bmm", "nn.functional.linear", "nn.functional.conv2d", "sum", "cumsum", "cat", "amax", "gather", "mul", "clamp", "index_add",
)  # fmt: skip


@pytest.mark.deadline(180)
def test_float32(stack: Stack, device: Device, figures: dict[str, Figure]) -> None:
    """At least 600 operators run, and each that runs agrees with float64 as well as the CPU does."""
    processes = suited(device)
    ends = swept(device.torch, torch.float32, _SAMPLES, stack.imports, processes)
    figures["processes"] = processes
    executed = {
        "forward": sum(end.forward > 0 for end in ends),
        "backward": sum(end.backward > 0 for end in ends),
        "samples": sum(end.forward for end in ends),
    }
    figures |= {f"executed {what}": count for what, count in executed.items()}
    if faults := [end.wrong for end in ends if end.wrong]:
        raise CheckFailed(f"{len(faults)} operators: " + "; ".join(faults[:_MOST_NAMED]))
    require(
        executed["forward"] >= _FEWEST,
        f"only {executed['forward']} operators ran forward, at least {_FEWEST} are expected",
    )
    figures["summary"] = (
        f"{executed['forward']} operators forward, {executed['backward']} backward, {executed['samples']} samples"
    )


@pytest.mark.deadline(120)
def test_relations(device: Device, figures: dict[str, Figure]) -> None:
    """Results that need no rounding are exact in a handful of operators: products, sums, joins and orders."""
    seen: list[dict[str, Figure]] = [{} for _ in _EXACT]
    for name, each in zip(_EXACT, seen, strict=True):
        engine.check("exact", name, device, each)
    figures |= {"operators": len(seen), "relations": sum(int(each["relations"]) for each in seen)}
    figures["summary"] = f"{figures['relations']} relations of {len(seen)} operators hold"

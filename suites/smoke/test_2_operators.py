"""Torch's own operator database, forward and backward, in float32 against float64."""

from __future__ import annotations

import zlib

import pytest
import torch

from stackproof.device.kinds import Device
from stackproof.operators import engine
from stackproof.operators.database import load, preserved
from stackproof.record.checks import CheckFailed, NotApplicable, require
from stackproof.record.records import Figure

_PARTS = 8
"""Checks that processes of a run can share: on a card operators wait for their kernels to be compiled, and for float64 on the host."""
_FEWEST = 60
_SAMPLES = 2
_MOST_NAMED = 5
_EXACT = (
    "mm", "bmm", "nn.functional.linear", "nn.functional.conv2d", "sum", "cumsum", "cat", "amax", "gather", "mul", "clamp", "index_add",
)  # fmt: skip


@pytest.mark.deadline(180)
@pytest.mark.parametrize("part", range(_PARTS))
def test_float32(part: int, device: Device, figures: dict[str, Figure]) -> None:
    """At least 60 operators of an eighth run, and each that runs agrees with float64 as well as the CPU does."""
    seen, wrong = dict[str, dict[str, int]](), list[str]()
    with preserved(device.torch):
        for name in (name for name in load() if zlib.crc32(name.encode()) % _PARTS == part):
            wrong += _faults(name, device, seen.setdefault(name, {}))
    executed = {
        "forward": sum(each.get("relations", 0) > 0 for each in seen.values()),
        "backward": sum(each.get("backward", 0) > 0 for each in seen.values()),
        "samples": sum(each.get("relations", 0) for each in seen.values()),
    }
    figures |= {f"executed {what}": count for what, count in executed.items()}
    if wrong:
        raise CheckFailed(f"{len(wrong)} operators: " + "; ".join(wrong[:_MOST_NAMED]))
    require(
        executed["forward"] >= _FEWEST,
        f"only {executed['forward']} operators ran forward, at least {_FEWEST} are expected",
    )
    figures["summary"] = (
        f"{executed['forward']} operators forward, {executed['backward']} backward, {executed['samples']} samples"
    )


def _faults(name: str, device: Device, seen: dict[str, int]) -> list[str]:
    """Return what is wrong first with an operator in float32 that no row knows."""
    try:
        for point, relation, message in engine.faults(
            "samples", name, device.torch, seen=seen, dtypes=[torch.float32], most=_SAMPLES
        ):
            if not engine.excuse("samples", point, relation, message):
                return [f"{name} in float32 on {device}, {relation.says}: {message}"]
    except CheckFailed as failed:
        return [str(failed)]
    except NotApplicable:
        pass
    return []


@pytest.mark.deadline(120)
def test_relations(device: Device, figures: dict[str, Figure]) -> None:
    """Results that need no rounding are exact in a handful of operators: products, sums, joins and orders."""
    seen: list[dict[str, Figure]] = [{} for _ in _EXACT]
    for name, each in zip(_EXACT, seen, strict=True):
        engine.check("exact", name, device, each)
    figures |= {"operators": len(seen), "relations": sum(int(each["relations"]) for each in seen)}
    figures["summary"] = f"{figures['relations']} relations of {len(seen)} operators hold"

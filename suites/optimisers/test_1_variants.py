"""Single-tensor, foreach and fused forms of each optimiser against float64, state and all; which are offered is a fact."""

from __future__ import annotations

from functools import cache

import pytest
import torch

from stackproof.device.kinds import Device
from stackproof.device.numerics import judge, relative_error, require_all
from stackproof.record.checks import require
from stackproof.record.records import Figure
from suites.optimisers.variants import CPU, FUSED, KERNELS, SETTINGS, STEPS, Case, Course, run

ROWS = [(name, variant) for name in SETTINGS for variant in ("single", "foreach")] + [(name, "fused") for name in FUSED]


@pytest.mark.deadline(60)
@pytest.mark.parametrize(("name", "variant"), ROWS, ids=["-".join(row) for row in ROWS])
def test_steps(name: str, variant: str, device: Device, figures: dict[str, Figure]) -> None:
    """Parameters and the optimiser's state after five steps agree with float64, by the kernels that were asked for."""
    actual, exact, anchor = run(Case(name, variant, device.torch, torch.float32)), _exact(name), _anchor(name)
    figures["offered"] = True
    _right_kernels(name, variant, actual)
    require(
        actual.tensors.keys() == exact.tensors.keys(),
        f"{name}, {variant}: the state differs in kind: {sorted(actual.tensors.keys() ^ exact.tensors.keys())[:3]}",
    )
    found = {
        what: judge(tensor, exact.tensors[what], anchor.tensors[what], torch.float32)
        for what, tensor in actual.tensors.items()
    }
    worst = require_all(found, f"{name}, {variant}, after {STEPS} steps,")
    apart = _apart(actual, run(Case(name, "single", device.torch, torch.float32)))
    figures |= {"worst error": worst.error, "its bound": worst.bound, "apart from single": apart}
    figures["summary"] = f"worst error of {len(found)}: {worst.error:.1e} of {worst.bound:.1e}; {apart:.1e} from single"


def _right_kernels(name: str, variant: str, actual: Course) -> None:
    """Fail if the variant that was asked for silently was another one; fused forms count their steps with a foreach kernel."""
    ran = {kind for kind, prefix in KERNELS.items() if any(kernel.startswith(prefix) for kernel in actual.kernels)}
    taken = next((kind for kind in ("fused", "foreach") if kind in ran), "single")
    require(taken == variant, f"{name}: {variant} was asked for, and the kernels that ran are those of {taken}")


def _apart(one: Course, other: Course) -> float:
    return max(relative_error(tensor, other.tensors[what]) for what, tensor in one.tensors.items())


@cache
def _exact(name: str) -> Course:
    return run(Case(name, "single", CPU, torch.float64))


@cache
def _anchor(name: str) -> Course:
    return run(Case(name, "single", CPU, torch.float32))

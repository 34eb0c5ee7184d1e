"""Models against what their own Python cannot share: closed forms in NumPy and finite differences in float64.

Not seen: sparse gradients, L-BFGS's line search, and YOLOv8's network as a whole (its layers are held one by one).
Sizes are small; `sizes` has the large ones.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

from stackproof.device.devices import HOST
from stackproof.record.checks import require
from stackproof.record.records import Figure
from stackproof.workloads.base import Job
from stackproof.workloads.catalogue import taking_part
from stackproof.workloads.gradients import living
from suites.common import SEED, possible, reference

CPU = HOST.torch

_EXACT = 1e-6
"""How closely two ways through float64 agree. Seen: 1.2e-7, because transformers keeps the rotary embedding's frequencies in float32."""
_STEP = 1e-5
"""By so much the probed scalar is moved, in parts of its size."""
_DIFFERENCE = 1e-4
"""By how much all gradients together may be off, of one of them; seen: up to 3e-7."""
_DRAWS = 3


def _job(name: str) -> Job:
    return possible(name).build(CPU, "tiny", SEED, torch.float64)


@pytest.mark.deadline(120)
@pytest.mark.parametrize("name", taking_part("closed-form"))
def test_closed_form(name: str, figures: dict[str, Figure]) -> None:
    """Logits and loss of every sequence are those of the model as its papers write it, computed by NumPy."""
    job, worst = _job(name), 0.0
    _vary(job.model)
    for index in range(len(job.batches)):
        logits, loss = job.forward(index)
        exact, value = job.closed_form(index)
        off = float(np.abs(logits.detach().numpy() - exact).max() / np.abs(exact).max())
        require(
            off <= _EXACT, f"{name}, sequence {index}: logits are {off:.2g} from the closed form, {_EXACT} is allowed"
        )
        gap = abs(float(loss.detach()) / value - 1)
        require(gap <= _EXACT, f"{name}, sequence {index}: the loss is {float(loss):.6g}, its closed form {value:.6g}")
        worst = max(worst, off, gap)
    figures |= {"worst error": worst, "sequences": len(job.batches)}
    figures["summary"] = f"logits and losses of {len(job.batches)} sequences are within {worst:.1e} of NumPy's"


def _vary(model: torch.nn.Module) -> None:
    """Change parameters that are one number throughout, such as norms' weights of ones: mixing up two that are equal would not be seen."""
    generator = torch.Generator().manual_seed(SEED)
    with torch.no_grad():
        for value in model.parameters():
            if bool((value == value.flatten()[0]).all()):
                value.add_(torch.rand(value.shape, generator=generator, dtype=value.dtype) / 2)


@pytest.mark.deadline(180)
@pytest.mark.parametrize("name", taking_part("differences"))
def test_differences(name: str, figures: dict[str, Figure]) -> None:
    """Every parameter's gradient agrees with differences of forward along g / |g|^2, so that each counts alike.

    With random signs before each parameter the changes add up to the sum of the signs; one that is off by a thousandth of itself shows.
    """
    job = _job(name)
    job.optimiser.zero_grad(set_to_none=True)
    probed, size = job.probe()
    job.differentiate(probed)
    with_gradient = {key: value for key, value in job.model.named_parameters() if value.grad is not None}
    trainable = [key for key, value in job.model.named_parameters() if value.requires_grad]
    absent = [key for key in trainable if key not in with_gradient]
    require(not absent, f"{name}: {len(absent)} parameters have no gradient, such as {absent[:1]}")
    named = living(with_gradient, reference(name, "tiny"))
    along = {key: value.grad / value.grad.square().sum() for key, value in named.items() if value.grad is not None}
    before = {key: value.detach().clone() for key, value in named.items()}
    worst, step = 0.0, _STEP * size / len(named)
    for draw in range(_DRAWS):
        signs = np.random.default_rng(draw).choice((-1.0, 1.0), len(named)).tolist()
        flips = signs if draw else [1.0] * len(named)  # without signs what is wrong everywhere adds up
        ends = []
        for way in (1, -1):
            with torch.no_grad():
                for sign, (key, value) in zip(flips, named.items(), strict=True):
                    value.copy_(before[key] + way * step * sign * along[key])
                ends.append(float(job.probe()[0]))
        change = (ends[0] - ends[1]) / (2 * step)
        worst = max(worst, abs(change - sum(flips)))
        require(
            abs(change - sum(flips)) <= _DIFFERENCE,
            f"{name}: forward changes by {change:.5f} where the gradients of {len(named)} parameters say {sum(flips):.0f}",
        )
    figures |= {"worst difference": worst, "parameters": len(named)}
    figures["summary"] = f"{len(named)} gradients against differences of forward, together {worst:.1e} off"

"""The same work twice gives the same bits, or the operator that does not is named."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import torch

from stackproof.device.kinds import Device
from stackproof.record.checks import CheckFailed
from stackproof.record.records import Figure
from suites.common import SEED, possible
from suites.models.ledger import bits, first_difference
from suites.models.observing import PRESET, Tensors, observed
from suites.models.test_1_reference import MODELS

Run = Callable[[], Tensors]


@pytest.mark.deadline(180)
@pytest.mark.parametrize("name", MODELS)
def test_twice(name: str, device: Device, figures: dict[str, Figure]) -> None:
    """Prediction, loss and gradients have the same bits twice, or differ by an operator that torch itself calls non-deterministic.

    torch tells in two ways: the work becomes bit-identical under `use_deterministic_algorithms`, or that names the operator
    (https://pytorch.org/docs/stable/generated/torch.use_deterministic_algorithms.html).
    """
    job = possible(name).build(device.torch, PRESET, SEED, torch.float32)

    def run() -> Tensors:
        device.seed(SEED)
        return observed(job)

    different = _differences(run)
    figures |= {"bit-identical": not different, "different results": len(different)}
    figures["summary"] = _excuse(name, run, different) if different else "two runs give the same bits"


def _differences(run: Run) -> list[str]:
    first, second = run(), run()
    return [what for what, tensor in first.items() if not torch.equal(bits(tensor), bits(second[what]))]


def _excuse(name: str, run: Run, different: list[str]) -> str:
    """Name the operator; fail unless torch itself says that it is not deterministic."""
    culprit = first_difference(run) or "no operator differed while watched"
    seen = f"{name}: two runs give other bits in {len(different)} results, first in '{different[0]}', by operator {culprit}"
    with _deterministic() as messages:
        if not _differences(run):
            return f"{seen}; under torch.use_deterministic_algorithms the bits are the same"
        stubborn = first_difference(run) or culprit
    if any(stubborn in sentence for sentence in messages):
        return f"{seen}; torch has no deterministic implementation of {stubborn} here"
    raise CheckFailed(f"{seen}, and torch does not say that {stubborn} is not deterministic")


@contextmanager
def _deterministic() -> Iterator[list[str]]:
    """Ask torch for deterministic kernels, and collect what it says of those that it does not have."""
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    messages: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = lambda message, *_ignored, **_also: messages.append(str(message))
        torch.use_deterministic_algorithms(True, warn_only=True)
        try:
            yield messages
        finally:
            torch.use_deterministic_algorithms(before[0], warn_only=before[1])

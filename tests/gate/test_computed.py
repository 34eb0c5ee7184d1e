"""What a side says that it computes: sketches as far apart as tensors are, units of work to the unit."""

from __future__ import annotations

import json
import math

import pytest
import torch

from stackproof.device.devices import HOST
from stackproof.gate import changed, computed
from stackproof.workloads.base import Job
from stackproof.workloads.catalogue import get


def _share(one: torch.Tensor, other: torch.Tensor) -> float:
    return changed._share(computed.sketch(one), computed.sketch(other), 0.0)


@pytest.mark.parametrize("count", [1, 7, 5000, 5_000_000])
def test_a_sketch_is_as_far_from_another_as_the_tensors_are(count: int) -> None:
    generator = torch.Generator().manual_seed(count)
    one = torch.randn(count, generator=generator, dtype=torch.float64)
    other = one + 1e-3 * torch.randn(count, generator=generator, dtype=torch.float64)
    true = float((other - one).norm() / one.norm())
    assert true / 4 < _share(one, other) < 4 * true
    assert _share(one, one.clone()) == 0.0


@pytest.mark.slow
def test_a_single_wrong_element_anywhere_shows() -> None:
    one = torch.zeros(computed._CHUNK + 5000, dtype=torch.float64)
    for place in (0, computed._CHUNK - 1, computed._CHUNK, len(one) - 1):
        other = one.clone()
        other[place] = 1.0
        assert computed.sketch(other)["sketch"] != computed.sketch(one)["sketch"]
        assert math.isclose(sum(value**2 for value in computed.sketch(other)["sketch"]) / 8, 1.0)


def test_whole_numbers_are_compared_by_their_bits() -> None:
    assert _share(torch.tensor([1, 2]), torch.tensor([1, 3])) == math.inf
    assert "sketch" not in computed.sketch(torch.tensor([1, 2]))


def _job() -> Job:
    return get("classifier").build(HOST.torch, "tiny", 3, torch.float64)


def _compared(job: Job) -> changed.Sameness:
    """Compare a job that something was done to with one as it is."""
    plain = {
        "settings": computed.settings(_job()),
        "worth": {},
        "dtype": "float64",
        "groups": computed.in_float64(_job()),
    }
    other = {"settings": computed.settings(job), "worth": {}, "dtype": "float64", "groups": computed.in_float64(job)}
    return changed.compare(json.loads(json.dumps(plain)), json.loads(json.dumps(other)))


def test_the_same_job_twice_is_equal_to_the_bit() -> None:
    assert _compared(_job()).sentence().startswith("SAME to the bit")


def test_a_clip_shows_though_it_never_cuts_at_the_gradients_own_size() -> None:
    job = _job()

    def clip(*_: object) -> None:
        torch.nn.utils.clip_grad_norm_(job.model.parameters(), 100.0)

    job.optimiser.register_step_pre_hook(clip)
    found = _compared(job)
    assert found.changed
    assert {one.group for one in found.differences} <= {
        f"{kind} of step {step}" for kind in ("loss", "update") for step in (3, 4)
    }


def test_what_is_wrong_in_evaluation_alone_shows() -> None:
    job = _job()
    last = list(job.model.modules())[-1]
    last.register_forward_hook(lambda module, _, output: output if module.training else output * 1.01)
    found = _compared(job)
    assert [one.group for one in found.differences] == ["prediction"]
    assert "the prediction differs: prediction 'in evaluation' by" in found.sentence()


def test_units_are_counted_of_every_step() -> None:
    job = _job()
    units = computed.UnitsDone(job)
    for _ in range(3):
        job.step()
    samples = 32
    assert units.end() == {
        "forward passes": 3, "numbers in": 3 * samples * 256, "numbers out": 3 * samples * 4, "backward passes": 3, "optimiser steps": 3
    }  # fmt: skip
    job.step()
    assert units.end()["optimiser steps"] == 3
    assert computed.UnitsDone(None).end() == {}


def _product() -> torch.Tensor:
    return torch.ones(8, 8) @ torch.ones(8, 8)


def test_counts_are_exact_and_repeat() -> None:
    found = computed.counts(_product, HOST)
    assert found == computed.counts(_product, HOST)
    assert found == {"operators": 3, "allocations": 3}


def test_one_operator_more_is_one_more() -> None:
    more = computed.counts(lambda: _product().relu(), HOST)
    assert more == {"operators": 4, "allocations": 4}


def test_backward_is_counted_too() -> None:
    weight = torch.ones(8, 8, requires_grad=True)
    forward = computed.operators(lambda: (weight * 2).sum())
    both = computed.operators(lambda: (weight * 2).sum().backward())
    assert both > forward

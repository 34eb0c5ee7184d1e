"""Initial weights as a function of seed, name and index."""

from __future__ import annotations

import hashlib

import pytest
import torch
from torch import nn

from stackproof.workloads import weights
from stackproof.workloads.weights import widened

from .comparing import CPU


def test_the_numbers_are_the_same_everywhere() -> None:
    numbers = weights.hashed(0, 4096, 12345, CPU)

    assert (
        hashlib.sha256(numbers.numpy().astype("<f4").tobytes()).hexdigest()
        == "dd98facd528ec87affd23877b653afd4b982932499f8590d0ad42106999c65f1"
    )


def test_the_numbers_look_uniform_and_independent() -> None:
    matrix = weights.hashed(0, 512 * 512, 7, CPU).view(512, 512)
    strongest = torch.linalg.matrix_norm(matrix.double(), 2) / 512**0.5

    assert abs(float(matrix.mean())) < 5e-3
    assert float(matrix.var()) == pytest.approx(1 / 3, rel=0.02)
    # A random matrix's largest singular value is 2 sigma sqrt(n); any structure would stand out above it.
    assert float(strongest) == pytest.approx(2 / 3**0.5, rel=0.05)


def test_chunks_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    whole, pieces = torch.empty(1000), torch.empty(1000)
    weights.fill(whole, "a", 0, 0.5)
    monkeypatch.setattr(weights, "_CHUNK", 7)
    weights.fill(pieces, "a", 0, 0.5)

    assert torch.equal(whole, pieces)
    assert whole.abs().max() <= 0.5


def test_name_and_seed_matter() -> None:
    made = []
    for name, seed in (("a", 0), ("b", 0), ("a", 1)):
        tensor = torch.empty(64)
        weights.fill(tensor, name, seed, 1.0)
        made.append(tensor)

    assert len({tuple(tensor.tolist()) for tensor in made}) == 3


def test_a_skeleton_gets_storage_and_tied_weights_stay_tied() -> None:
    with torch.device("meta"):
        model = nn.Sequential(nn.Embedding(16, 4), nn.LayerNorm(4), nn.Linear(4, 16), nn.Linear(16, 2))
    model[2].weight = model[0].weight
    model[0].weight.requires_grad_(False)
    weights.materialise(model, CPU, torch.bfloat16, 0, weights.fan_in_bound)

    assert model[2].weight is model[0].weight
    assert (model[0].weight.dtype, model[3].weight.dtype) == (torch.bfloat16, torch.float32)
    assert {name: value.tolist() for name, value in model[1].named_parameters()} == {"weight": [1] * 4, "bias": [0] * 4}
    assert model.float()(torch.zeros(1, dtype=torch.int64)).shape == (1, 2)


def test_every_way_to_ask_for_float32_gives_float64() -> None:
    whole = torch.arange(3)
    with widened():
        made = [
            whole.float(),
            whole.to(torch.float32),
            whole.to(dtype=torch.float32),
            whole.type(torch.float32),
            torch.softmax(whole.double(), 0, dtype=torch.float32),
            torch.arange(3, dtype=torch.float),
            torch.zeros(3),
        ]

    assert {tensor.dtype for tensor in made} == {torch.float64}


def test_other_dtypes_stay() -> None:
    with widened():
        made = [torch.zeros(1, dtype=dtype).dtype for dtype in (torch.float16, torch.int32, torch.bool)]

    assert made == [torch.float16, torch.int32, torch.bool]


def test_the_default_dtype_is_restored_after_an_error() -> None:
    with pytest.raises(RuntimeError, match="stop"), widened():
        raise RuntimeError("stop")

    assert torch.zeros(1).dtype == torch.float32

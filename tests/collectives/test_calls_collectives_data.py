"""Known data: distinct, the same everywhere, and exact under their operator in every order and dtype."""

from __future__ import annotations

import functools
import hashlib
import itertools
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
import torch

from stackproof.collectives import calls
from stackproof.collectives.table import DTYPES, FLOATS, OPERATORS

WORLDS = (1, 2, 3, 7, 16)
MERGE: dict[str, Callable[[Any, Any], Any]] = {
    "sum": lambda one, other: one + other,
    "avg": lambda one, other: one + other,
    "min": min,
    "max": max,
    "prod": lambda one, other: one * other,
}


def of(kind: str, dtype: str, world: int, count: int = 257) -> list[torch.Tensor]:
    """Return every rank's numbers."""
    return [calls.values(kind, getattr(torch, dtype), count, rank, 0, 5, world) for rank in range(world)]


def test_the_noise_is_the_same_in_every_torch() -> None:
    digest = hashlib.sha256(calls.noise(calls.LONG).numpy().tobytes()).hexdigest()
    assert digest == "b4a0e08af917a659991c9c416beda2cc4f02a4a749b1d9e9b7275f86fc079ddc"


@pytest.mark.parametrize("dtype", DTYPES)
def test_data_differ_by_rank_part_and_case(dtype: str) -> None:
    kinds = [
        calls.values("copy", getattr(torch, dtype), 129, rank, part, case, 4)
        for rank, part, case in itertools.product(range(4), range(4), (0, 1))
    ]
    assert len({tensor.view(torch.uint8).numpy().tobytes() for tensor in kinds}) == len(kinds)


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("world", WORLDS)
def test_floats_are_exact_in_any_order(world: int, dtype: str, operator: str) -> None:
    ranks = of(operator, dtype, world)
    expected = [
        functools.reduce(MERGE[operator], map(Fraction, place)) / (world if operator == "avg" else 1)
        for place in zip(*(tensor.tolist() for tensor in ranks), strict=True)
    ]
    pairs = [calls.fold(operator, ranks[start : start + 2]) for start in range(0, world, 2)]
    found = [calls.fold(operator, ranks), calls.fold(operator, ranks[::-1])]
    found += [calls.fold(operator, pairs)] if operator != "avg" else []
    assert all([Fraction(value) for value in one.tolist()] == expected for one in found)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("world", WORLDS)
def test_means_are_exact_when_every_rank_scales_first(world: int, dtype: str) -> None:
    ranks = of("avg", dtype, world)
    scale = torch.tensor(1 / world, dtype=getattr(torch, dtype))
    assert torch.equal(calls.fold("sum", [tensor * scale for tensor in ranks]), calls.fold("avg", ranks))
    assert len(ranks[0].unique()) > 2


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("world", WORLDS)
def test_integers_never_overflow(world: int, dtype: str, operator: str) -> None:
    ranks = of(operator, dtype, world)
    for place, found in zip(
        zip(*(tensor.tolist() for tensor in ranks), strict=True), calls.fold(operator, ranks).tolist(), strict=True
    ):
        exact = functools.reduce(MERGE[operator], place)
        assert found * (world if operator == "avg" else 1) == exact


def test_integers_are_beyond_what_float64_holds() -> None:
    for operator in ("sum", "avg", "min", "max"):
        numbers = of(operator, "int64", 2)[0]
        assert int(numbers.abs().max()) > 2**55 and int(numbers.min()) < 0
        assert not torch.equal(numbers, numbers.double().long())


@pytest.mark.parametrize("operator", ["copy", "sum", "avg", "min", "max"])
@pytest.mark.parametrize(
    ("dtype", "narrower"), [("float64", "float32"), ("float32", "float16"), ("float32", "bfloat16")]
)
def test_floats_are_beyond_what_a_narrower_one_holds(dtype: str, narrower: str, operator: str) -> None:
    ranks = of(operator, dtype, 2)
    for result in (ranks[0], calls.fold("sum" if operator == "copy" else operator, ranks)):
        told = result[~result.isnan()]
        assert not torch.equal(told, told.to(getattr(torch, narrower)).to(told.dtype))


@pytest.mark.parametrize(
    ("dtype", "whole"), [("bfloat16", torch.int16), ("float16", torch.int16), ("float32", torch.int32)]
)
@pytest.mark.parametrize("world", [2, 3, 8])
def test_sums_need_the_last_bit_of_their_dtype(world: int, dtype: str, whole: torch.dtype) -> None:
    result = calls.fold("sum", of("sum", dtype, world))
    assert (result.view(whole) & 1).any()


def test_what_is_moved_holds_every_kind_of_number() -> None:
    numbers = of("copy", "float32", 1, 4096)[0]
    zeros = numbers[numbers == 0]
    assert torch.isnan(numbers).any() and torch.isinf(numbers).sum() > 1 and torch.signbit(zeros).any()
    assert (numbers < -1000).any() and (numbers > 1000).any()


def test_truth_values_reduce_to_or_and_and() -> None:
    one, other = torch.tensor([True, True, False, False]), torch.tensor([True, False, True, False])
    assert [calls.fold(operator, [one, other]).tolist() for operator in ("sum", "max")] == [
        [True, True, True, False]
    ] * 2
    assert [calls.fold(operator, [one, other]).tolist() for operator in ("prod", "min")] == [
        [True, False, False, False]
    ] * 2


@pytest.mark.parametrize(
    ("layout", "shape", "stride", "offset"),
    [
        ("own", (8,), (1,), 0),
        ("offset", (8,), (1,), 1),
        ("strided", (8,), (2,), 0),
        ("transposed", (4, 2), (1, 4), 0),
    ],
)
def test_a_layout_is_a_view_in_guarded_memory(
    layout: str, shape: tuple[int, ...], stride: tuple[int, ...], offset: int
) -> None:
    numbers = torch.arange(8.0)
    memory, view = calls.place(numbers, layout, torch.device("cpu"))
    assert (shape, stride, offset) == (view.shape, view.stride(), view.storage_offset())
    assert torch.equal(view.reshape(-1), numbers)
    assert int((memory == calls.GUARD).sum()) == memory.numel() - 8 >= 2


@pytest.mark.parametrize("layout", ["own", "offset"])
@pytest.mark.parametrize("shape", [(), (0,)])
def test_tensors_without_dimensions_or_elements_keep_their_shape(layout: str, shape: tuple[int, ...]) -> None:
    memory, view = calls.place(torch.full(shape, 5.0), layout, torch.device("cpu"))
    assert (view.shape, torch.equal(view, torch.full(shape, 5.0))) == (shape, True)
    assert memory.numel() == view.numel() + 2

"""Refusals carry the exit codes of the contracts, and suggestions name the nearest word or nothing."""

from __future__ import annotations

import itertools
import random

import pytest

from stackproof.base import errors
from stackproof.base.errors import EnvironmentMismatchError, Refusal, StackUnavailableError, suggestion


@pytest.mark.parametrize(("kind", "code"), [(Refusal, 2), (StackUnavailableError, 3), (EnvironmentMismatchError, 4)])
def test_exit_codes_are_those_of_the_contracts(kind: type[Refusal], code: int) -> None:
    assert kind("x").exit_code == code
    assert issubclass(kind, Refusal)


@pytest.mark.parametrize(
    ("word", "nearest"),
    [
        ("xpuu", "xpu"),
        ("xpu-natve", "xpu-native"),
        ("dcuu", "dcu"),
        ("CUDA", "cuda"),
        ("cup", "cpu"),
        ("cdu", "dcu"),
        ("xup", "xpu"),
        ("kitchen", ""),
    ],
)
def test_suggestion_names_the_nearest_word_or_nothing(word: str, nearest: str) -> None:
    said = suggestion(word, ["cpu", "cuda", "dcu", "xpu", "xpu-native"])
    assert said == (f" (did you mean '{nearest}'?)" if nearest else "")


def test_suggestion_without_known_words() -> None:
    assert suggestion("x", iter(())) == ""


KNOWN = ("NCCL_DEBUG", "NCCL_P2P_DISABLE", "ZE_AFFINITY_MASK", "NCCL_IB_SL", "NCCL_IB_TC", "FI_HMEM")


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("NCCL_DEBUGS", "NCCL_DEBUG"),
        ("NCLL_DEBUG", "NCCL_DEBUG"),
        ("NCCL_DEUBG", "NCCL_DEBUG"),
        ("nccl_debug", "NCCL_DEBUG"),
        ("NCCL_DISABLE_P2P", "NCCL_P2P_DISABLE"),
        ("ZE_AFFINTY_MASKS", "ZE_AFFINITY_MASK"),
    ],
)
def test_slips_are_found(typed: str, meant: str) -> None:
    assert errors.nearest(typed, KNOWN, most=2) == meant


@pytest.mark.parametrize("name", ["NCCL_IB_SX", "FI_HMEN", "NCCL_BRAND_NEW", "P2P", "", "NCCL_DEBUG_SUBSYS"])
def test_other_names_are_left_alone(name: str) -> None:
    assert errors.nearest(name, KNOWN, most=2) is None


def test_numbers_make_names() -> None:
    assert errors.nearest("CARD_LIMIT_1", ["CARD_LIMIT_2"], most=2) is None


def test_the_nearest_wins() -> None:
    assert errors.nearest("CCL_WORKER_COUNTS", ["CCL_WORKED_COUNT", "CCL_WORKER_COUNT"], most=2) == "CCL_WORKER_COUNT"


def slow(one: str, other: str) -> int:
    """The definition of optimal string alignment, by recursion."""
    if not one or not other:
        return len(one) + len(other)
    best = min(slow(one[1:], other) + 1, slow(one, other[1:]) + 1, slow(one[1:], other[1:]) + (one[0] != other[0]))
    if len(one) > 1 and len(other) > 1 and one[0] == other[1] and one[1] == other[0]:
        best = min(best, slow(one[2:], other[2:]) + 1)
    return best


def test_distance_is_the_definition() -> None:
    short = ["".join(letters) for size in range(4) for letters in itertools.product("AB_", repeat=size)]
    draw = random.Random(0)
    long = ["".join(draw.choices("ABC_", k=draw.randrange(4, 7))) for _ in range(20)]
    for one, other in [*itertools.product(short, repeat=2), *itertools.combinations(long, 2)]:
        exact = slow(one, other)
        for limit in range(3):
            assert errors.distance(one, other, limit) == min(exact, limit + 1), (one, other, limit)

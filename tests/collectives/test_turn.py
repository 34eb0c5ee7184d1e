"""One case on one rank: what is passed in, and every kind of fault in what comes back."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from stackproof.collectives.calls import COLLECTIVES
from stackproof.collectives.turn import Case, bits, fault, play, prepare

CPU = torch.device("cpu")


def turn_of(name: str, operator: str = "copy", dtype: str = "float32", count: int = 8, **more: Any) -> SimpleNamespace:
    """Return rank 1's turn among two."""
    case = Case(name, operator, dtype, count, 0, (0, 1), 0, **more)
    return prepare(case, COLLECTIVES[name], 1, CPU, None)


def answer(turn: SimpleNamespace) -> None:
    """Put the right result where it belongs, as a correct backend does."""
    for (_, view), exact in zip(turn.results, turn.expected, strict=True):
        view.copy_(exact.reshape(view.shape))


@pytest.mark.parametrize("layout", ["own", "offset", "strided", "transposed"])
@pytest.mark.parametrize("name", ["all_reduce", "broadcast", "all_gather", "all_to_all", "reduce_scatter"])
def test_a_right_result_has_no_fault(name: str, layout: str) -> None:
    turn = turn_of(name, "sum" if COLLECTIVES[name].reduces else "copy", layout=layout)
    assert fault(turn, COLLECTIVES[name]) is not None
    answer(turn)
    assert fault(turn, COLLECTIVES[name]) is None


def test_the_first_wrong_number_is_told() -> None:
    turn = turn_of("all_gather")
    answer(turn)
    exact = turn.expected[1][5:].clone()
    turn.out[1][5:] += 1
    found = fault(turn, COLLECTIVES["all_gather"])
    assert found == {
        "what": "result", "at": 5, "got": float(exact[0]) + 1, "expected": float(exact[0]), "wrong": 3, "of": 8
    }  # fmt: skip


def spoil_input(turn: SimpleNamespace) -> None:
    """Change what was passed in."""
    turn.mine[0][2] = 1.5


def spoil_memory(turn: SimpleNamespace) -> None:
    """Write behind the result."""
    turn.results[0][0][-1] = 1.5


def spoil_between(turn: SimpleNamespace) -> None:
    """Write into the gaps of a strided tensor."""
    turn.results[0][0][1] = 1.5


@pytest.mark.parametrize(
    ("spoil", "layout", "what"),
    [
        (spoil_input, "own", "input"),
        (spoil_memory, "own", "memory beside it"),
        (spoil_memory, "offset", "memory beside it"),
        (spoil_between, "strided", "memory beside it"),
    ],
)
def test_what_must_not_change_is_compared(spoil: Callable[[SimpleNamespace], None], layout: str, what: str) -> None:
    turn = turn_of("all_gather", layout=layout)
    answer(turn)
    spoil(turn)
    found = fault(turn, COLLECTIVES["all_gather"])
    assert found is not None and found["what"] == what


@pytest.mark.parametrize(
    ("right", "wrong", "alike"),
    [(0.0, -0.0, False), (float("nan"), float("nan"), True), (1.0, 1.0 + 2**-23, False)],
)
def test_floats_are_compared_bit_by_bit(right: float, wrong: float, alike: bool) -> None:
    assert torch.equal(bits(torch.tensor([right])), bits(torch.tensor([wrong]))) is alike


def test_a_truth_value_that_is_two_is_told_as_its_byte() -> None:
    turn = turn_of("all_reduce", "sum", "bool")
    answer(turn)
    place = int(turn.expected[0].nonzero()[0])
    turn.mine[0].view(torch.uint8)[place] = 2
    found = fault(turn, COLLECTIVES["all_reduce"])
    assert found is not None and (found["at"], found["got"], found["expected"]) == (place, 2, 1)


def test_a_rank_that_gets_nothing_has_nothing_to_compare_but_its_memory() -> None:
    turn = turn_of("reduce", "sum")
    turn.mine[0][0] = 1e9
    assert fault(turn, COLLECTIVES["reduce"]) is None
    spoil_memory(turn)
    assert fault(turn, COLLECTIVES["reduce"]) is not None


def test_uneven_parts_have_the_sizes_that_the_call_is_told() -> None:
    turns = [
        prepare(Case("all_to_all_single", "copy", "int64", 7, 0, (0, 1, 2), 0, uneven=True), one, index, CPU, None)
        for one in [COLLECTIVES["all_to_all_single"]]
        for index in range(3)
    ]
    for source in range(3):
        for target in range(3):
            assert turns[source].sizes[0][target] == turns[target].sizes[1][source]
    assert len({len(turn.mine[0]) for turn in turns}) > 1


@pytest.mark.parametrize("name", ["all_gather_into_tensor", "reduce_scatter_tensor"])
def test_tensors_without_dimensions_are_stacked(name: str) -> None:
    turn = turn_of(name, "sum" if COLLECTIVES[name].reduces else "copy", count=-1)
    shapes = turn.mine[0].shape, turn.out[0].shape
    assert shapes == {"all_gather_into_tensor": ((), (2,)), "reduce_scatter_tensor": ((2,), ())}[name]


def test_peers_are_ranks_and_the_root_is_one_of_them() -> None:
    case = Case("broadcast", "copy", "int32", 4, 0, (1, 3), 1)
    turn = prepare(case, COLLECTIVES["broadcast"], 0, CPU, None)
    own = prepare(Case("broadcast", "copy", "int32", 4, 0, (0, 1, 2, 3), 3), COLLECTIVES["broadcast"], 3, CPU, None)
    assert turn.root == 3 and torch.equal(turn.expected[0], own.expected[0])


def test_everything_that_a_call_returns_is_waited_for() -> None:
    waited: list[int] = []
    works = [SimpleNamespace(wait=lambda number=number: waited.append(number)) for number in range(3)]
    for returned in (works[0], works[1:], None):
        play(SimpleNamespace(), SimpleNamespace(call=lambda _, returned=returned: returned))
    assert waited == [0, 1, 2]

"""What each rank must hold, written out by hand for three ranks: peer s has for peer d the number 10 s + d."""

from __future__ import annotations

import functools
import hashlib
import itertools
from collections.abc import Callable
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from stackproof.collectives import calls
from stackproof.collectives.calls import COLLECTIVES, Case, bits, fault, play, prepare
from stackproof.collectives.table import DTYPES, FLOATS, OPERATORS

ROOT = 1
# By rank: the numbers of each tensor that it must hold; the fold is a sum.
EXPECTED: dict[str, list[list[float]]] = {
    "all_reduce": [[30], [30], [30]],
    "reduce": [[], [30], []],
    "reduce_scatter": [[30], [33], [36]],
    "reduce_scatter_tensor": [[30], [33], [36]],
    "broadcast": [[10], [10], [10]],
    "all_gather": [[0, 10, 20]] * 3,
    "all_gather_into_tensor": [[0, 10, 20]] * 3,
    "gather": [[], [0, 10, 20], []],
    "scatter": [[10], [11], [12]],
    "all_to_all": [[0, 10, 20], [1, 11, 21], [2, 12, 22]],
    "all_to_all_single": [[0, 10, 20], [1, 11, 21], [2, 12, 22]],
    "send_recv": [[20], [0], [10]],
    "isend_irecv": [[20], [0], [10]],
    "batch_isend_irecv": [[20, 21, 22], [0, 1, 2], [10, 11, 12]],
    "all_reduce_coalesced": [[30, 33, 36]] * 3,
    "all_gather_coalesced": [[0, 1, 2, 10, 11, 12, 20, 21, 22]] * 3,
    "coalescing_all_reduce": [[30, 33, 36]] * 3,
    "coalescing_all_gather": [[0, 10, 20, 1, 11, 21, 2, 12, 22]] * 3,
    "coalescing_reduce_scatter": [[30, 30], [33, 33], [36, 36]],
}


def test_every_collective_has_a_row_here() -> None:
    assert EXPECTED.keys() == COLLECTIVES.keys()


@pytest.mark.parametrize("name", EXPECTED)
@pytest.mark.parametrize("index", range(3))
def test_each_rank_holds_what_the_definition_says(name: str, index: int) -> None:
    seen = SimpleNamespace(
        sent=lambda source, part: torch.tensor([10.0 * source + part]),
        fold=lambda tensors: torch.stack(tensors).sum(0),
        index=index,
        root=ROOT,
        peers=3,
    )
    found = COLLECTIVES[name].expected(seen)
    assert [value for tensor in found for value in tensor.tolist()] == EXPECTED[name][index]


WORLDS = (1, 2, 3, 7, 16)
MERGE: dict[str, Callable[[Any, Any], Any]] = {
    "sum": lambda one, other: one + other,
    "avg": lambda one, other: one + other,
    "min": min,
    "max": max,
    "prod": lambda one, other: one * other,
}


def of(kind: str, dtype: str, world: int, count: int = 257) -> list[torch.Tensor]:
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


@pytest.mark.parametrize("world", [2, 3, 4])
def test_products_of_integers_need_their_whole_width(world: int) -> None:
    for dtype, narrower in (("int32", torch.int16), ("int64", torch.int32)):
        product = calls.fold("prod", of("prod", dtype, world))
        assert int(product.abs().max()) > torch.iinfo(narrower).max and int(product.min()) < 0


@pytest.mark.parametrize("operator", ["copy", "sum", "avg", "min", "max"])
@pytest.mark.parametrize(
    ("dtype", "narrower"),
    [("float64", "float32"), ("float32", "float16"), ("float32", "bfloat16"), ("bfloat16", "float16")],
)
def test_floats_are_beyond_what_a_narrower_one_holds(dtype: str, narrower: str, operator: str) -> None:
    ranks = of(operator, dtype, 2)
    for result in (ranks[0], calls.fold("sum" if operator == "copy" else operator, ranks)):
        told = result[~result.isnan()]
        assert not torch.equal(told, told.to(getattr(torch, narrower)).to(told.dtype))


@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "float64"])
@pytest.mark.parametrize("world", [2, 3, 16])
def test_products_are_beyond_the_range_of_float16(world: int, dtype: str) -> None:
    product = calls.fold("prod", of("prod", dtype, world))
    assert product.isfinite().all() and product.abs().min() > torch.finfo(torch.float16).max


@pytest.mark.parametrize(
    ("dtype", "whole"), [("bfloat16", torch.int16), ("float16", torch.int16), ("float32", torch.int32)]
)
@pytest.mark.parametrize("world", [2, 3, 8])
def test_sums_need_the_last_bit_of_their_dtype(world: int, dtype: str, whole: torch.dtype) -> None:
    result = calls.fold("sum", of("sum", dtype, world))
    assert (result.view(whole) & 1).any()


@pytest.mark.parametrize("operator", ["sum", "min", "max", "prod"])
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("world", [1, 2, 3])
def test_extreme_numbers_are_among_the_data_and_reduce_alike_in_any_order(
    world: int, dtype: str, operator: str
) -> None:
    case = Case("all_reduce", operator, dtype, 257, 0, tuple(range(world)), 0)
    ranks = [calls.sent(case, False, rank, 0) for rank in range(world)]
    results = [calls.fold(operator, list(order)) for order in itertools.permutations(ranks)]
    assert len({calls.settled(result).view(torch.uint8).numpy().tobytes() for result in results}) == 1
    result, kind = results[0], torch.finfo(results[0].dtype)
    small = (result != 0) & (result.abs() < kind.smallest_normal)
    zeros = result[result == 0]
    assert result.isnan().any() and (result.isinf().any() or world == 1) and small.any() and torch.signbit(zeros).any()
    assert all((one.abs() == kind.max).any() for one in ranks)


@pytest.mark.parametrize(
    "lose",
    [
        lambda told: told.nan_to_num_(nan=-float("inf"), posinf=float("inf"), neginf=-float("inf")),
        lambda told: told.masked_fill_(told.abs() < torch.finfo(told.dtype).tiny, 0.0),
        lambda told: told.clamp_(-1e38, 1e38),
        lambda told: told.add_(0.0),
    ],
    ids=["nan", "subnormals", "infinity", "minus zero"],
)
@pytest.mark.parametrize("operator", ["sum", "max"])
def test_a_reduction_that_loses_an_extreme_number_is_seen(
    lose: Callable[[torch.Tensor], torch.Tensor], operator: str
) -> None:
    turn = turn_of("all_reduce", operator, count=129)
    answer(turn)
    assert fault(turn, COLLECTIVES["all_reduce"]) is None
    lose(turn.mine[0])
    assert fault(turn, COLLECTIVES["all_reduce"]) is not None


def with_future(turn: Any, name: str, values: Any) -> Any:
    """Play a turn of a collective whose work is done, and whose future holds these."""
    future: Any = torch.futures.Future()
    future.set_result(values)
    work = SimpleNamespace(wait=lambda: None, get_future=lambda: future)
    play(turn, SimpleNamespace(call=lambda _: work))
    return (fault(turn, COLLECTIVES[name]) or {}).get("what")


def test_what_the_future_of_a_work_holds_is_compared() -> None:
    turn = turn_of("all_reduce", "sum", later=True)
    before = turn.mine[0].clone()
    answer(turn)
    assert with_future(turn, "all_reduce", [turn.mine[0]]) is None
    for value in (before, torch.zeros(1), turn.mine[0].double()):
        assert with_future(turn, "all_reduce", [value]) == "future of its work"


def test_results_are_there_without_a_look_at_the_future() -> None:
    """A wait that does not wait is made good by the future's."""
    turn = turn_of("all_reduce", "sum", later=True)

    class Late:
        def wait(self) -> list[torch.Tensor]:
            answer(turn)
            return [turn.mine[0]]

    play(turn, SimpleNamespace(call=lambda _: SimpleNamespace(wait=lambda: None, get_future=Late)))
    assert (fault(turn, COLLECTIVES["all_reduce"]) or {}).get("what") == "result"


def test_a_future_that_holds_what_was_passed_in_holds_no_result() -> None:
    """The groups of cards hand the root's inputs on as the future of a scatter."""
    turn = turn_of("scatter", "copy", later=True)
    answer(turn)
    assert with_future(turn, "scatter", list(turn.mine)) is None


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


CPU = torch.device("cpu")


def turn_of(name: str, operator: str = "copy", dtype: str = "float32", count: int = 8, **more: Any) -> SimpleNamespace:
    case = Case(name, operator, dtype, count, 0, (0, 1), 0, **more)
    return prepare(case, COLLECTIVES[name], 1, CPU, None)


def answer(turn: SimpleNamespace) -> None:
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
        "what": "result", "at": 5, "got": float(exact[0]) + 1, "expected": float(exact[0]), "wrong": 3, "of": 8,
        "outside": 0,
    }  # fmt: skip


def test_of_truth_values_one_that_is_plainly_wrong_is_told() -> None:
    turn = turn_of("all_reduce", "max", "bool")
    answer(turn)
    (exact,) = turn.expected
    true = int(exact.nonzero()[0])
    view = turn.results[0][1].view(torch.uint8)
    view[true] = 2
    assert (fault(turn, COLLECTIVES["all_reduce"]) or {})["got"] == 2
    view[true + 1] = 1 - int(exact[true + 1])
    assert (fault(turn, COLLECTIVES["all_reduce"]) or {})["at"] == true + 1


def spoil_input(turn: SimpleNamespace) -> None:
    turn.mine[0][2] = 1.5


def spoil_memory(turn: SimpleNamespace) -> None:
    turn.results[0][0][-1] = 1.5


def spoil_between(turn: SimpleNamespace) -> None:
    memory, view = turn.results[0]
    memory[view.storage_offset() + 1] = 1.5


@pytest.mark.parametrize(("spoil", "count"), [(spoil_memory, 1), (spoil_between, 0)])
def test_a_write_behind_a_tensor_is_told_beside_a_wrong_result(
    spoil: Callable[[SimpleNamespace], None], count: int
) -> None:
    turn = turn_of("all_gather", layout="strided")
    answer(turn)
    turn.out[1][3:] += 1
    spoil(turn)
    found = fault(turn, COLLECTIVES["all_gather"])
    assert found is not None and (found["what"], found["outside"]) == ("result", count)


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
        play(SimpleNamespace(later=False), SimpleNamespace(call=lambda _, returned=returned: returned))
    assert waited == [0, 1, 2]

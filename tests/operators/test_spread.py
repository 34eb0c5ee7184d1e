"""What float64 says of rounding: ill-conditioned samples are told from wrong kernels, and ties from wrong indices."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from stackproof.device.numerics import relative_error
from stackproof.operators import spread as spread_module
from stackproof.operators.compare import Exemption, judgements
from stackproof.operators.compute import Computed, compute
from stackproof.operators.database import REFERENCE
from stackproof.operators.examine import Examination, Outcome, examine
from stackproof.operators.spread import alternatives, scaled_down, terms, untied

from .faults import Sample, ShapedOp


def no_samples(dtype: torch.dtype) -> Iterator[Sample]:
    """Make nothing: these tests bring samples of their own."""
    return iter(())


def spread(function: Any, values: list[float], dtype: torch.dtype) -> float:
    """Return how far apart correct results of a function of one tensor may be."""
    given = torch.tensor(values, dtype=dtype)
    found = alternatives(ShapedOp("f", function, no_samples), Sample(given), dtype, backward=False)
    return max(relative_error(other.values["output"], function(given.double())) for other in found)


def test_a_well_conditioned_operator_has_a_spread_of_its_rounding() -> None:
    assert 0.5 * 2**-23 < spread(torch.square, [1.5, 2.5, 3.5], torch.float32) < 4 * 2**-23


def test_cancellation_is_ill_conditioned() -> None:
    assert spread(torch.log, [1 + 2**-7], torch.bfloat16) > 0.4


def test_factorisations_are_moved_by_the_norm_of_their_matrix() -> None:
    values = [1e4, 1e4, 1.0, 2.0]
    singular = spread(lambda x: torch.linalg.svdvals(x.reshape(2, 2))[1:], values, torch.float32)
    assert singular > 100 * spread(lambda x: x[2:] * 1.5, values, torch.float32)


def test_a_number_on_an_edge_may_fall_to_either_side() -> None:
    assert spread(lambda x: torch.histc(x, bins=4, min=0, max=4), [1.0, 0.5, 2.5], torch.bfloat16) > 0.1
    assert spread(lambda x: torch.histc(x, bins=4, min=0, max=4), [1.5, 0.5, 2.5], torch.bfloat16) == 0


def test_rounding_in_between_is_imitated() -> None:
    found = alternatives(
        ShapedOp("f", lambda x: (x * x).sqrt(), no_samples), Sample(torch.tensor([1e3]).half()), torch.float16, False
    )
    assert any(bool(torch.isinf(other.values["output"]).any()) for other in found)


def test_a_sample_that_moves_out_of_the_domain_is_left_out() -> None:
    def strict(x: torch.Tensor) -> torch.Tensor:
        if x.max() > 1:
            raise ValueError("a probability above one")
        return x

    found = alternatives(ShapedOp("f", strict, no_samples), Sample(torch.ones(1)), torch.float32, backward=False)
    assert 1 < len(found) < 7


def computed(number: float, dtype: torch.dtype = torch.float64) -> Computed:
    """Return a result of one output."""
    return Computed((), {"output": torch.tensor([1.0, number], dtype=dtype)}, 0)


def ok(actual: float, reference: float, others: list[float], dtype: torch.dtype = torch.float16) -> bool:
    """Judge one number with these alternatives."""
    wide = [computed(other) for other in others]
    found = judgements(computed(actual, dtype), computed(reference), None, dtype, Exemption(), wide)
    return found["output"].ok


def test_the_spread_widens_the_bound_and_no_more() -> None:
    assert not ok(1.2, 1.0, [])
    assert ok(1.2, 1.0, [1.1])
    assert not ok(1.5, 1.0, [1.1])


@pytest.mark.parametrize("value", [float("inf"), float("nan")])
def test_overflow_is_right_only_where_rounding_overflows(value: float) -> None:
    assert ok(value, 100.0, [value])
    assert not ok(value, 100.0, [100.1])
    assert ok(value, 60000.0, [])  # next to 65504


def test_equal_numbers_become_different_and_keep_their_order() -> None:
    sample = Sample(torch.tensor([2.0, 1.0, 2.0, -1.0, 1.0, -1.0, 0.0]).bfloat16(), (torch.tensor([3, 3]),))
    made = untied(sample, torch.bfloat16)
    assert len(set(made.input.tolist())) == 7
    assert torch.equal(torch.argsort(sample.input, stable=True), torch.argsort(made.input))
    assert relative_error(made.input, sample.input) < 0.02
    assert made.args[0].tolist() == [3, 3]


def test_what_is_not_finite_is_left_alone() -> None:
    made = untied(SimpleNamespace(input=torch.tensor([float("inf")] * 2), args=(), kwargs={}), torch.float32)
    assert made.input.tolist() == [float("inf")] * 2


def chosen(choose: Callable[[torch.Tensor], torch.Tensor]) -> Examination:
    """Examine an argmax that chooses so in float32, on numbers of which two are equal."""

    def argmax(x: torch.Tensor) -> torch.Tensor:
        return choose(x) if x.dtype is torch.float32 else x.argmax()

    op = ShapedOp("argmax", argmax, lambda dtype: iter([Sample(torch.tensor([1, 3, 3, 2]).to(dtype))]), False)
    return examine("argmax", op, torch.device("cpu"), torch.float32, None)


def test_another_choice_among_equal_numbers_is_right() -> None:
    assert chosen(lambda x: 3 - x.flip(0).argmax()).outcome is Outcome.PASSED


def test_a_choice_of_another_number_is_wrong() -> None:
    result = chosen(lambda x: x.argmin())
    assert result.outcome is Outcome.FAILED
    assert "exceeds the bound 0" in result.reason


def test_numbers_that_no_longer_fit_below_the_largest_are_pushed_down() -> None:
    sample = Sample(torch.randperm(60_000, generator=torch.Generator().manual_seed(1)).clamp(max=8000).half())
    made = untied(sample, torch.float16).input
    assert bool(torch.isfinite(made).all())
    assert len(made.unique()) == 60_000


def added(function: Any, *tensors: torch.Tensor) -> float:
    """Return how many numbers a function adds."""
    return terms(ShapedOp("f", function, no_samples), Sample(tensors[0], tensors[1:]), torch.float32)


@pytest.mark.parametrize(
    ("function", "shapes", "expected"),
    [
        (torch.exp, [(7, 5)], 1),
        (torch.add, [(7, 5), (7, 5)], 2),
        (torch.sum, [(7, 5)], 35),
        (lambda x: x.sum(0), [(7, 5)], 7),
        (lambda x: x.cumsum(0), [(129,)], 129),
        (torch.mm, [(3, 33), (33, 4)], 66),
        (lambda x: x.softmax(-1), [(7, 5)], 5),
        (torch.linalg.inv, [(5, 5)], 25),
    ],
)
def test_what_is_added_is_counted(function: Any, shapes: list[tuple[int, ...]], expected: int) -> None:
    made = [torch.linspace(0.1, 1, torch.Size(shape).numel()).square().reshape(shape) for shape in shapes]
    if shapes == [(5, 5)]:
        made[0] += torch.eye(5)
    assert added(function, *made) == expected


def test_what_an_expanded_number_goes_into_is_counted_as_often() -> None:
    assert added(lambda x: x.cumsum(0), torch.ones(1).expand(128)) == 128


def test_what_cannot_be_moved_adds_nothing() -> None:
    def strict(x: torch.Tensor) -> torch.Tensor:
        if x.max() > 1:
            raise ValueError("a probability above one")
        return x.sum()

    assert added(strict, torch.ones(5)) == 1


def test_gradients_that_are_fed_in_are_moved_too() -> None:
    def differences(x: torch.Tensor) -> torch.Tensor:
        signs = torch.tensor([1.0, -1.0] * 500, dtype=x.dtype)
        return x * signs

    sample = Sample(torch.ones(1, requires_grad=True))
    exact = compute(ShapedOp("f", differences, no_samples), sample, REFERENCE, torch.float32, True, True)
    found = alternatives(ShapedOp("f", differences, no_samples), sample, torch.float32, backward=True)
    name = "gradient of input"
    name = next(each for each in exact.values if each.startswith(name))
    assert max(relative_error(other.values[name], exact.values[name]) for other in found) > 1e-7


def test_a_narrow_gradient_that_is_fed_in_stays_narrow() -> None:
    mixed = ShapedOp("f", lambda x: x.float() * 2, no_samples)
    found = alternatives(mixed, Sample(torch.ones(3, requires_grad=True)), torch.float32, backward=True)
    assert len(found) == 7


def test_what_is_not_finite_moves_no_matrix() -> None:
    made = spread_module._moved(torch.tensor([[1.0, float("inf")], [2.0, 4.0]]), torch.float32, 0, True)
    assert torch.isfinite(made).tolist() == [[True, False], [True, True]]


def test_float64_has_the_errors_of_float32_in_its_own_units() -> None:
    lossy = ShapedOp("f", lambda x: (1 + x) - 1, no_samples)
    sample = Sample(torch.tensor([1e-3, 3e-3], dtype=torch.float64))
    exact = compute(lossy, sample, REFERENCE, torch.float64, False, True)
    found = scaled_down(lossy, sample, exact, False)
    error = relative_error(found.values["output"], exact.values["output"])
    assert 1e-15 < error < 1e-12

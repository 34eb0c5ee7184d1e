"""What is expected of an operator's results: their form, and their error under the fp64-anchored rule.

Factors are judged by what they make when multiplied together again.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from itertools import product
from typing import Annotated, Any, Literal

import torch

from stackproof import DATA
from stackproof.base.toml import INLINE, OneOf, Parsed, Table, Wrong
from stackproof.device.numerics import Judgement, relative_error, rule
from stackproof.operators.compute import Computed
from stackproof.operators.database import REFERENCE, SampleInput


def multiplied(sample: SampleInput) -> SampleInput:
    """Return the sample with an output, and so with gradients, that do not depend on the choice of pivots.

    Which row is the pivot is the device's choice: LAPACK compares complex numbers by |Re| + |Im| (izamax), others by their modulus.
    """
    made = copy.copy(sample)
    made.output_process_fn_grad = operator_product
    return made


def operator_product(output: Any) -> torch.Tensor:
    """Return P L U, from these three or from the packed form of `torch.linalg.lu_factor`."""
    first, second, *rest = output
    factors = (first, second, *rest) if second.is_floating_point() or second.is_complex() else _unpacked(first, second)
    permutation, lower, upper = factors
    return permutation @ lower @ upper


def _unpacked(packed: torch.Tensor, pivots: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return tuple(torch.lu_unpack(packed, pivots))


# A result this close to the largest number of its dtype may leave its range in between.
_NEAR_OVERFLOW = 16


_DETAILS = ("cap", "returns", "ties", "nonfinite", "refuses", "factors", "private", "host", "judged_as")


@dataclass(frozen=True)
class Exemption:
    """One row of `data/operators.toml`: an operator to which the rule does not apply, and why."""

    compare: Literal["values", "form", "nothing"] = "values"
    cap: float | None = None
    returns: tuple[str, ...] = ()
    ties: bool = False
    nonfinite: bool = False
    refuses: str = ""
    factors: bool = False
    private: tuple[str, ...] = ()
    host: tuple[str, ...] = ()
    judged_as: Annotated[torch.dtype, OneOf(("float32",)), Parsed(partial(getattr, torch))] | None = None
    reason: str = ""


@dataclass(frozen=True)
class _Row:
    """Operators and dtypes that share an exemption."""

    names: tuple[str, ...]
    dtypes: tuple[str, ...]
    exemption: Annotated[Exemption, INLINE]

    def __post_init__(self) -> None:
        if not self.exemption.reason:
            raise Wrong("reason", "is missing; it must be a string")
        details = [getattr(self.exemption, name) for name in _DETAILS]
        if any(details) != (self.exemption.compare == "values"):
            raise Wrong("compare", f"= 'values' needs one of {', '.join(map(repr, _DETAILS))}; others none")


@cache
def exemptions() -> Mapping[tuple[str, str], Exemption]:
    """Load the rows by operator and dtype."""
    rows: dict[tuple[str, str], Exemption] = {}
    expected = 0
    with Table.load(DATA / "operators.toml") as table:
        for entry in table.tables("operator"):
            row = entry.row(_Row)
            keys = list(product(row.names, row.dtypes))
            rows |= dict.fromkeys(keys, row.exemption)
            if len(rows) != (expected := expected + len(keys)):
                raise entry.refuse("names", "repeats an operator for a dtype; one row may speak for each")
    return rows


def judgements(
    actual: Computed,
    reference: Computed,
    anchor: Computed | None,
    dtype: torch.dtype,
    exemption: Exemption = Exemption(),
    others: Iterable[Computed] = (),
    terms: float = 1.0,
) -> dict[str, Judgement]:
    """Judge every output and gradient.

    Args:
        actual: the device's.
        reference: the same in float64.
        anchor: the CPU's in `dtype`; without it the bound is the rule's floor.
        dtype: what is computed in.
        exemption: the operator's row.
        others: what float64 gives under rounding (`spread`), which widens the bound beyond the cap.
        terms: how many numbers are added into one (`spread`), which raises the floor.
    """
    return {
        name: _judged(
            actual.values[name],
            value,
            anchor.values[name] if anchor else None,
            _coarser(value.dtype, exemption.judged_as or dtype),
            exemption,
            [other.values[name] for other in others if name in other.values],
            terms,
        )
        for name, value in reference.values.items()
        if name not in exemption.private or actual.values[name].shape == value.shape
    }


def _coarser(reference: torch.dtype, dtype: torch.dtype) -> torch.dtype:
    """Return the dtype whose rounding shows: a sample may mix the examined one with a narrower, in which its gradient is."""
    if not (reference.is_floating_point or reference.is_complex):
        return dtype
    return max(reference, dtype, key=lambda each: torch.finfo(each).eps)


def _judged(
    actual: torch.Tensor,
    reference: torch.Tensor,
    anchor: torch.Tensor | None,
    dtype: torch.dtype,
    exemption: Exemption,
    others: list[torch.Tensor],
    terms: float,
) -> Judgement:
    actual, reference, *others = map(_dense, (actual, reference, *others))
    if not (reference.is_floating_point() or reference.is_complex()):
        error, exact = relative_error(actual, reference), exemption.cap or 0.0
        return Judgement(error <= exact, error, exact, 0.0)  # indices, counts and truth values are right or wrong
    if actual.shape == reference.shape:
        actual = _excused(actual, reference, _beyond(reference, dtype, others, anchor, exemption))
    error = _error(actual, reference, dtype)
    allowed = 0.0 if anchor is None else _error(_dense(anchor), reference, dtype)
    # where they leave the dtype's range they say so above; their other numbers still say how far apart results may be
    spread = max((_error(_excused(o, reference, None), reference, dtype) for o in others), default=0.0)
    real = dtype.to_real()
    excuse = rule().excuse(real) if exemption.cap is None else exemption.cap
    bound = rule().bound(allowed, real, exemption.cap, spread, terms, excuse)
    return Judgement(error <= bound, error, bound, allowed)


def _dense(value: torch.Tensor) -> torch.Tensor:
    value = value.detach().to(REFERENCE)
    return value if value.layout is torch.strided else value.to_dense()


def _beyond(
    reference: torch.Tensor,
    dtype: torch.dtype,
    others: list[torch.Tensor],
    anchor: torch.Tensor | None,
    exemption: Exemption,
) -> torch.Tensor:
    """Return where a result may leave the dtype's range, or come back into it, and be right."""
    found = reference.abs() > torch.finfo(dtype).max / _NEAR_OVERFLOW
    for other in others:
        found = found | (_kind(other) != _kind(reference))
    if exemption.nonfinite and anchor is not None:
        found = found | (_kind(_dense(anchor)) != _kind(reference))
    return found


def _excused(value: torch.Tensor, reference: torch.Tensor, where: torch.Tensor | None) -> torch.Tensor:
    """Return the value with the reference's numbers in those places (all: None) where only one of both is finite."""
    other = _kind(value) != _kind(reference)
    if not bool(other.any()):
        return value
    return torch.where(other if where is None else other & where, reference.to(value.dtype), value)


def _kind(value: torch.Tensor) -> torch.Tensor:
    """Tell finite numbers, infinities and NaN apart by 0, 1 and 2."""
    return torch.isinf(value).to(torch.int8) + 2 * torch.isnan(value).to(torch.int8)


def _error(actual: torch.Tensor, reference: torch.Tensor, dtype: torch.dtype) -> float:
    """Return the relative error, or the absolute one if the reference is as good as zero.

    The database's numbers are of order one. A norm below what the rule's cap promises of such numbers is what
    is left after they cancel (the gradient of a normalised vector of one element) or underflow, and the
    reference itself may have no correct digit in it.
    """
    error = relative_error(actual, reference)
    if error == float("inf"):  # a value beyond the dtype's range is rightly infinite
        reference = reference.to(actual.dtype)
        error = relative_error(actual, reference)
    if error in (0.0, float("inf")):
        return error
    norm = float(torch.linalg.vector_norm(reference.to(torch.complex128 if reference.is_complex() else torch.float64)))
    return error * norm if 0 < norm < rule().caps[dtype.to_real()] else error


def form_fault(
    actual: Computed,
    reference: Computed,
    dtype: torch.dtype,
    returns: tuple[str, ...] = (),
    private: tuple[str, ...] = (),
) -> str:
    """Return what is wrong with the number, shapes and dtypes of outputs and gradients, else an empty string.

    Outputs have the dtype of the reference's, narrowed as the inputs were, or one of `returns`; `private` ones any form.
    """
    if len(actual.outputs) != len(reference.outputs):
        return f"returns {len(actual.outputs)} outputs instead of {len(reference.outputs)}"
    both = enumerate(zip(actual.outputs, reference.outputs, strict=True))
    pairs = [pair for place, pair in both if f"output {place}" not in private]
    wrong = next(filter(None, (_leaf_fault(left, right, dtype, returns) for left, right in pairs)), "")
    missing = sorted(reference.values.keys() ^ actual.values.keys())
    if wrong or not missing:
        return wrong
    return f"{missing[0]} is {'missing' if missing[0] in reference.values else 'unexpected'}"


def _leaf_fault(actual: object, reference: object, dtype: torch.dtype, returns: tuple[str, ...]) -> str:
    if not isinstance(actual, torch.Tensor) or not isinstance(reference, torch.Tensor):
        return (
            ""
            if type(actual) is type(reference)
            else f"returns {type(actual).__name__} instead of {type(reference).__name__}"
        )
    if actual.shape != reference.shape:
        return f"returns shape {tuple(actual.shape)} instead of {tuple(reference.shape)}"
    expected = _narrow(reference.dtype, dtype)
    right = actual.dtype is expected or word(actual.dtype) in returns
    return "" if right else f"returns {word(actual.dtype)} instead of {word(expected)}"


def _narrow(wide: torch.dtype, dtype: torch.dtype) -> torch.dtype:
    if wide is torch.float64:
        return dtype.to_real()
    return dtype.to_complex() if wide is torch.complex128 else wide


def severity(judgement: Judgement) -> float:
    """Return the error in units of its bound, to find the worst of many."""
    return judgement.error / judgement.bound if judgement.bound else judgement.error


def word(dtype: torch.dtype) -> str:
    """Return `float32` for `torch.float32`."""
    return str(dtype).removeprefix("torch.")

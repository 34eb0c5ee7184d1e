"""What is expected of an operator's results: form, error under the fp64-anchored rule, and exemptions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from itertools import product

import torch

from . import ROOT
from .numerics import Judgement, relative_error, rule
from .opdatabase import Computed
from .tables import Table


@dataclass(frozen=True)
class Exemption:
    """One row of `fixtures/operators.toml`: an operator to which the rule does not apply, and why."""

    compare: str
    cap: float | None
    returns: tuple[str, ...]
    reason: str


@cache
def exemptions() -> Mapping[tuple[str, str], Exemption]:
    """Load the rows by operator and dtype."""
    rows: dict[tuple[str, str], Exemption] = {}
    expected = 0
    with Table.load(ROOT / "fixtures" / "operators.toml") as table:
        for entry in table.tables("operator"):
            with entry as row:
                keys = list(product(row.strings("names"), row.strings("dtypes")))
                rows |= dict.fromkeys(keys, _exemption(row))
                if len(rows) != (expected := expected + len(keys)):
                    raise row.refuse("names", "repeats an operator for a dtype; one row may speak for each")
    return rows


def _exemption(row: Table) -> Exemption:
    compare = row.take("compare", str, "values", ("values", "form", "nothing"))
    cap, returns = row.take("cap", float, 0.0), row.strings("returns", ())
    if (cap > 0 or bool(returns)) != (compare == "values"):
        raise row.refuse("cap", "and 'returns' belong to compare = 'values', which needs one of them")
    return Exemption(compare, cap or None, returns, row.take("reason", str))


def judgements(
    actual: Computed, reference: Computed, anchor: Computed | None, dtype: torch.dtype, cap: float | None
) -> dict[str, Judgement]:
    """Judge every output and gradient; without an anchor the bound is the rule's floor."""
    return {
        name: _judged(actual.values[name], value, anchor.values[name] if anchor else None, dtype, cap)
        for name, value in reference.values.items()
    }


def _judged(
    actual: torch.Tensor,
    reference: torch.Tensor,
    anchor: torch.Tensor | None,
    dtype: torch.dtype,
    cap: float | None,
) -> Judgement:
    if not (reference.is_floating_point() or reference.is_complex()):
        error, exact = relative_error(actual, reference), cap or 0.0
        return Judgement(error <= exact, error, exact, 0.0)  # indices, counts and truth values are right or wrong
    error = _error(actual, reference, dtype)
    allowed = 0.0 if anchor is None else _error(anchor, reference, dtype)
    bound = rule().bound(allowed, dtype, cap)
    return Judgement(error <= bound, error, bound, allowed)


def _error(actual: torch.Tensor, reference: torch.Tensor, dtype: torch.dtype) -> float:
    """Return the relative error, or the absolute one if the reference is as good as zero.

    The database's numbers are of order one. A norm below what the rule's cap promises of such numbers is what
    is left after they cancel (the gradient of a normalised vector of one element) or underflow, and the
    reference itself may have no correct digit in it.
    """
    actual, reference = (
        value.to_dense() if value.layout is not torch.strided else value for value in (actual, reference)
    )
    error = relative_error(actual, reference)
    if error == float("inf"):  # a value beyond the dtype's range is rightly infinite
        reference = reference.to(actual.dtype)
        error = relative_error(actual, reference)
    if error in (0.0, float("inf")):
        return error
    norm = float(torch.linalg.vector_norm(reference.to(torch.complex128 if reference.is_complex() else torch.float64)))
    return error * norm if 0 < norm < rule().caps[dtype] else error


def form_fault(actual: Computed, reference: Computed, dtype: torch.dtype, returns: tuple[str, ...] = ()) -> str:
    """Return what is wrong with the number, shapes and dtypes of outputs and gradients, else an empty string.

    Outputs have the dtype of the reference's, narrowed as the inputs were, or one of `returns`.
    """
    if len(actual.outputs) != len(reference.outputs):
        return f"returns {len(actual.outputs)} outputs instead of {len(reference.outputs)}"
    pairs = zip(actual.outputs, reference.outputs, strict=True)
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
        return dtype
    return dtype.to_complex() if wide is torch.complex128 and dtype.is_floating_point else wide


def severity(judgement: Judgement) -> float:
    """Return the error in units of its bound, to find the worst of many."""
    return judgement.error / judgement.bound if judgement.bound else judgement.error


def word(dtype: torch.dtype) -> str:
    """Return `float32` for `torch.float32`."""
    return str(dtype).removeprefix("torch.")

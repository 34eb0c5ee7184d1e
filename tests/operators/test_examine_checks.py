"""Operators as checks: each end has its verdict and its words, and a failure brings code that repeats it in another process."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from stackproof.device import devices
from stackproof.operators import database, examine
from stackproof.record.checks import CapabilityMissing, NotApplicable
from stackproof.record.records import Figure
from stackproof.stack import stacks

CPU = devices.default("cpu")
STACK = stacks.load("cpu")


def check(name: str, dtype: torch.dtype = torch.float32, op: Any = None) -> dict[str, Figure]:
    """Run the check on four samples and return its figures."""
    figures: dict[str, Figure] = {}
    examine.check(name, op or database.load()[name], CPU, dtype, figures, samples=4)
    return figures


@pytest.mark.parametrize(
    ("name", "dtype", "said"),
    [
        ("addmm", torch.bfloat16, "samples, 4 backward: worst error"),
        ("cov", torch.complex64, "worst error"),
        ("rand_like", torch.float32, "agree in form; not in numbers: rand_like sample 0"),
        ("empty", torch.float16, "uninitialised memory"),
    ],
)
def test_a_right_operator_says_what_was_seen(name: str, dtype: torch.dtype, said: str) -> None:
    figures = check(name, dtype)
    assert said in str(figures["summary"])
    assert int(figures["samples"]) >= 3
    assert "repro" not in figures


def test_an_operator_that_a_row_exempts_says_so() -> None:
    figures = check("native_batch_norm", torch.float32)
    assert "are kept for the kernel's own backward" in str(figures["row"])
    assert "by its row: mean, inverse deviation" in str(figures["summary"])
    assert "row" not in check("addmm")


@pytest.mark.parametrize(
    ("name", "dtype", "said"),
    [
        ("bitwise_not", torch.float32, "the database lists no float32 for cpu"),
        ("jiterator_unary", torch.float16, "there is no CPU kernel to compare with"),
    ],
)
def test_what_makes_no_sense_is_not_applicable(name: str, dtype: torch.dtype, said: str) -> None:
    with pytest.raises(NotApplicable, match=said):
        check(name, dtype)


def test_a_precision_that_the_stack_lacks_names_the_row() -> None:
    stack = replace(STACK, precisions=("bfloat16",))
    examine.possible(stack, torch.bfloat16)
    with pytest.raises(CapabilityMissing, match=r"stacks/cpu/stack.toml: precisions has no float16"):
        examine.possible(stack, torch.float16)
    with pytest.raises(CapabilityMissing, match="precisions has no float32"):
        examine.possible(stack, torch.complex64)
    examine.possible(STACK, torch.complex64)


def test_a_stack_can_say_that_it_has_no_complex_numbers() -> None:
    stack = replace(STACK, missing={"complex64": "the compiler has no complex type"})
    with pytest.raises(CapabilityMissing, match="missing.complex64: the compiler has no complex type"):
        examine.possible(stack, torch.complex64)

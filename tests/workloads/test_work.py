"""What a piece of repeatable work reads from its row."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from stackproof.base.errors import Refusal
from stackproof.base.toml import Table
from stackproof.operators.relation import word
from stackproof.workloads import catalogue
from stackproof.workloads.work import FloatingDtype


@dataclass(frozen=True)
class Row:
    """A row with a dtype."""

    dtype: FloatingDtype


def read(name: str) -> torch.dtype:
    return Table(Path("x"), {"dtype": name}).row(Row).dtype


@pytest.mark.parametrize("name", ["float64", "float32", "bfloat16", "float16"])
def test_dtypes_go_by_their_names(name: str) -> None:
    assert isinstance(read(name), torch.dtype)
    assert word(read(name)) == name


def test_a_dtype_that_is_none_is_refused() -> None:
    with pytest.raises(Refusal, match="'int8'.*allowed: 'float64', 'float32', 'bfloat16', 'float16'"):
        read("int8")


def test_kinds_are_collected_from_all_files() -> None:
    assert {"gemm", "attention", "copy", "loading", "optimiser", "training"} == set(catalogue.kinds())

"""The table of values: it is whole, NumPy's numbers are the CPU's, and a wrong number is said."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from stackproof.base.errors import Refusal
from stackproof.device.devices import HOST
from stackproof.operators import arrays, oracles, values
from stackproof.operators.arrays import Expected, fault
from stackproof.record.checks import CheckFailed, NotApplicable
from stackproof.record.records import Figure
from stackproof.stack import stacks

CPU = torch.device("cpu")


def test_bfloat16_is_rounded_to_nearest_even_without_torch() -> None:
    drawn = np.array([1.00390625, 1.01171875, 3.4e38, -1e-40, np.nan, np.inf, 0.1], dtype=np.float32)
    ours = arrays.tensor(arrays.rounded(drawn, torch.bfloat16), torch.bfloat16, CPU)
    assert torch.equal(ours.nan_to_num(7.0), torch.from_numpy(drawn).bfloat16().nan_to_num(7.0))


@pytest.mark.parametrize(
    ("got", "wanted", "said"),
    [
        ([1.0, 2.0], [1.0, 2.0], ""),
        ([1.0, 2.0000005], [1.0, 2.0], "number 1 is"),
        ([float("nan"), 2.0], [1.0, 2.0], "number 0 is nan"),
        ([1.0, 2.0], [1.0, float("nan")], "instead of nan"),
        ([0.0, float("inf")], [0.0, 1e39], ""),
        ([-0.0, 1.0], [0.0, 1.0], "number 0 is -0.0"),
        ([0.0, 1.0], [1e-42, 1.0], "number 0 is 0.0"),
    ],
    ids=["equal", "two ulp", "NaN", "NaN missing", "overflow", "sign of zero", "flushed"],
)
def test_each_number_is_held_against_its_own_ulp(got: list[float], wanted: list[float], said: str) -> None:
    expected = Expected(np.array(wanted, dtype=arrays.WIDE), ulps=1.0, zero_sign=True)
    assert said in fault(torch.tensor(got), expected, torch.float32)
    assert bool(said) == bool(fault(torch.tensor(got), expected, torch.float32))


def test_the_table_is_counted() -> None:
    figures: dict[str, Figure] = {}
    values.count(figures)
    assert int(figures["tried"]) + int(figures["excused"]) == int(figures["cells"]) == len(values.cells().all)


def test_an_excused_cell_says_why() -> None:
    with pytest.raises(NotApplicable, match="shifts are of whole numbers"):
        values.check("shifts", "subnormal", stacks.load("cpu"), HOST, {})


def test_a_table_that_misses_a_regime_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    whole = (values.DATA / "values.toml").read_text(encoding="utf-8")
    (tmp_path / "values.toml").write_text(
        whole.replace('[[regime]]\nname = "ties"\n', '[[regime]]\nname = "long"\n', 1)
    )
    monkeypatch.setattr(values, "DATA", tmp_path)
    with pytest.raises(Refusal, match="ties"):
        values.cells.__wrapped__()


def _fmax(left: torch.Tensor, right: torch.Tensor, **_: object) -> torch.Tensor:
    return torch.fmax(left, right)


@pytest.mark.parametrize(
    ("cell", "name", "wrong", "said"),
    [
        (("binary", "special"), "maximum", _fmax, "maximum in float64"),
        (("unary", "near zero"), "log1p", lambda x, **_: (1 + x).log(), "log1p in"),
        (("shifts", "signs"), "bitwise_right_shift", lambda x, y, **_: x // (1 << y).clamp_min(1) + 1, "shift in"),
        (("choices", "special"), "amax", lambda x, d: x.nan_to_num(0).amax(d), "amax in"),
        (("scans", "ties"), "cummax", lambda x, d: (x.cummax(d)[0], x.cummin(d)[1]), "cummax, at its positions"),
        (("sorting", "ordinary"), "nanquantile", lambda x, q, d: x.quantile(q, d, interpolation="lower"), "nanquantile"),
        (("products", "ties"), "addmm", lambda c, a, b, *, beta=1, alpha=1: c + alpha * (a @ b), "addmm, scaled in"),
        (("products", "ties"), "addmv", lambda c, a, b, *, beta=1: beta * c + a @ b, "addmv, beta 0 in"),
        (("products", "ties"), "mm", lambda a, b, **_: a @ b * (1.001 if len(a) == 1 else 1), "mm of 1 x 1 by 13 in"),
        (("indexing", "signed zeros"), "cat", lambda tensors, *d: torch.concat(tensors, *d) + 0, "cat in"),
        (("softmax", "special"), "logsumexp", lambda x, d: x.amax(d) + (x - x.amax(d, True)).exp().sum(d).log(), "of infinities in"),
        (("unary", "signed zeros"), "pow", lambda x, y: x.abs() ** y, r"pow\(3\) in"),
        (("sorting", "ties"), "mode", lambda x, d: (x.amax(d), x.argmax(d)), "mode, how often in"),
        (("complex", "signs"), "angle", lambda x: -x.angle(), "angle of complex numbers in"),
        (("unary", "signed zeros"), "angle", lambda x: x.signbit() * torch.pi, "angle in float64"),
        (("unary", "special"), "nan_to_num", lambda x, *to: x.nan_to_num(*to or (0, 6e4, -6e4)), "nan_to_num in float64"),
        (("choices", "ties"), "isin", lambda x, y: (x[..., None] == y[y > 0]).any(-1), "isin in float64"),
    ],
    ids=["NaN", "cancels", "shift", "row without NaN", "position", "between", "scaled", "ignored", "one row",
         "moved", "infinite", "zero", "commonest", "complex", "angle of zero",
         "largest", "sought"],
)  # fmt: skip
def test_a_wrong_value_is_caught(
    monkeypatch: pytest.MonkeyPatch, cell: tuple[str, str], name: str, wrong: Callable[..., torch.Tensor], said: str
) -> None:
    monkeypatch.setattr(torch, name, wrong)
    with pytest.raises(CheckFailed, match=said):
        values.check(*cell, stacks.load("cpu"), HOST, {})


@pytest.mark.parametrize("cell", values.cells().smoke, ids="-".join)
def test_the_cpu_is_right(cell: tuple[str, str]) -> None:
    values.check(*cell, stacks.load("cpu"), HOST, {})


def test_an_operator_that_is_left_out_of_a_regime_is_counted() -> None:
    figures: dict[str, Figure] = {}
    values.check("division", "extreme", stacks.load("cpu"), HOST, figures)
    told = {name: count for name, count in figures.items() if name.startswith("left out: ")}
    assert len(told) == 2 and "left out" in str(figures["summary"])
    assert int(figures["tried in int64"]) > 0 and not any(
        "whole number" in name and "remainder" in name for name in told
    )


def test_a_row_that_names_no_operator_is_refused() -> None:
    rows = values.cells().left_out
    assert {name for row in rows for name in row.operators} <= oracles.NAMES
    assert not any(row.covers("fmod", "int64", "extreme") for row in rows)
    assert any(row.covers("fmod", "bfloat16", "extreme") for row in rows)

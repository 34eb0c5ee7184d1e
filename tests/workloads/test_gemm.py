"""The matrix product: right in every dtype, caught where it is not, counted as 2 n^3."""

from __future__ import annotations

import pytest
import torch

from stackproof.record.checks import CheckFailed
from stackproof.workloads.gemm import Gemm

from .working import setting


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16"])
def test_a_right_product_is_proved(dtype: str) -> None:
    work = Gemm(setting(size=96, dtype=dtype))
    try:
        assert "all 96 x 96 of the product: worst" in work.prove()
        assert work.arithmetic == work.dtype == dtype
    finally:
        work.close()


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (lambda out: out.mul_(1.001), "units of rounding are allowed"),
        (lambda out: out[5, 7].mul_(1.2), "wrong in 1 of 96 stretches, first in row 5"),
        (
            lambda out: out[-1, -1].fill_(float("nan")),
            "not finite, or never written, in 1 of 96 stretches, first in row 95",
        ),
        (lambda out: out[64:].zero_(), "wrong in 32 of 96 stretches, first in row 64"),
        (lambda out: out.copy_(out.bfloat16()), "units of rounding are allowed"),
    ],
    ids=["a thousandth off", "one element", "unwritten", "rows left out", "rounded to bfloat16"],
)
def test_a_wrong_product_is_caught(monkeypatch: pytest.MonkeyPatch, fault: object, words: str) -> None:
    product = torch.mm

    def wrong(left: torch.Tensor, right: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        product(left, right, out=out)
        fault(out)  # type: ignore[operator]
        return out

    work = Gemm(setting(size=96, dtype="float32"))
    monkeypatch.setattr(torch, "mm", wrong)
    with pytest.raises(CheckFailed, match=words):
        work.prove()
    work.close()


def test_worth_is_two_n_cubed() -> None:
    work = Gemm(setting(size=100, dtype="float32"))
    assert work.worth == {"TFLOP": pytest.approx(2e6 / 1e12)}
    work.close()


@pytest.mark.filterwarnings("ignore:TF32 acceleration on top of oneDNN:UserWarning")
def test_tf32_is_another_arithmetic_and_leaves_the_switches() -> None:
    before = torch.get_float32_matmul_precision()
    work = Gemm(setting(size=64, dtype="float32", tf32=True))
    assert (work.dtype, work.arithmetic) == ("float32", "tf32")
    assert torch.get_float32_matmul_precision() == "high"
    work.close()
    assert torch.get_float32_matmul_precision() == before

"""The fp64-anchored rule: what it lets pass, what it does not, and that the anchor cannot excuse everything."""

from __future__ import annotations

import math

import pytest
import torch

from stackproof.device.numerics import judge, relative_error, rule

REFERENCE = torch.linspace(1.0, 2.0, 101, dtype=torch.float64)


def test_rounding_once_is_within_the_floor() -> None:
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        assert judge(REFERENCE.to(dtype), REFERENCE, REFERENCE, dtype).ok


def test_one_part_in_a_thousand_fails_in_float32() -> None:
    wrong = (REFERENCE * 1.001).float()
    assert not judge(wrong, REFERENCE, REFERENCE.float(), torch.float32).ok
    assert not judge(wrong, REFERENCE, wrong, torch.float32).ok


def test_a_device_may_err_as_the_cpu_does() -> None:
    noisy = (REFERENCE * (1 + 1e-5)).float()
    assert judge(noisy, REFERENCE, noisy, torch.float32).ok
    assert not judge(noisy, REFERENCE, REFERENCE.float(), torch.float32).ok


def test_nan_where_the_reference_is_finite_is_infinitely_wrong() -> None:
    broken = REFERENCE.clone()
    broken[3] = math.nan
    assert math.inf == relative_error(broken, REFERENCE)


def test_non_finite_values_must_agree_in_place_and_sign() -> None:
    left = torch.tensor([1.0, math.inf, math.nan], dtype=torch.float64)
    assert relative_error(left, left) == 0
    assert math.inf == relative_error(left, torch.tensor([1.0, -math.inf, math.nan], dtype=torch.float64))
    assert math.inf == relative_error(left, torch.tensor([math.inf, 1.0, math.nan], dtype=torch.float64))


def test_shapes_must_agree() -> None:
    assert math.inf == relative_error(torch.ones(3, 1), torch.ones(3))


def test_against_zeros_the_error_is_absolute() -> None:
    assert relative_error(torch.zeros(4), torch.zeros(4)) == 0
    assert relative_error(torch.full((4,), 1e-3), torch.zeros(4)) > 1e-3


def test_empty_tensors_agree() -> None:
    assert relative_error(torch.empty(0), torch.empty(0)) == 0


def test_complex_errors_count_both_parts() -> None:
    exact = torch.tensor([1 + 1j, 2 - 1j], dtype=torch.complex128)
    assert relative_error(exact.real.to(torch.complex64), exact) > 0.1


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_the_floor_is_at_least_one_ulp(dtype: torch.dtype) -> None:
    assert rule().bound(0.0, dtype) >= torch.finfo(dtype).eps


def test_a_judgement_says_figure_and_bound() -> None:
    sentence = judge(REFERENCE * 2, REFERENCE, REFERENCE, torch.float32).sentence("addmm")
    assert sentence.startswith("addmm: error 1 against float64 exceeds the bound 4.8e-07")


def test_the_floor_grows_with_what_is_added_up_to_the_cap() -> None:
    floors = [rule().bound(0.0, torch.float32, terms=terms) for terms in (1, 4, 100, 10**10)]
    eps = torch.finfo(torch.float32).eps
    assert floors[0] == floors[1] == 4 * eps
    assert floors[2] == 20 * eps
    assert floors[3] == rule().caps[torch.float32] < 1e-3


def test_float64_counts_twice() -> None:
    assert rule().bound(1e-15, torch.float64) == 2 * (3e-15 + 4 * torch.finfo(torch.float64).eps)

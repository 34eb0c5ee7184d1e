"""Factorisations that are right in more than one way: judged by what their factors make when multiplied together again."""

from __future__ import annotations

import copy
from typing import Any

import torch

from .database import SampleInput


def multiplied(sample: SampleInput) -> SampleInput:
    """Return the sample with an output, and so with gradients, that do not depend on the choice of pivots.

    Which row is the pivot is the device's choice: LAPACK compares complex numbers by |Re| + |Im| (izamax), others by their modulus.
    """
    made = copy.copy(sample)
    made.output_process_fn_grad = product
    return made


def product(output: Any) -> torch.Tensor:
    """Return P L U, from these three or from the packed form of `torch.linalg.lu_factor`."""
    first, second, *rest = output
    factors = (first, second, *rest) if second.is_floating_point() or second.is_complex() else _unpacked(first, second)
    permutation, lower, upper = factors
    return permutation @ lower @ upper


def _unpacked(packed: torch.Tensor, pivots: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return tuple(torch.lu_unpack(packed, pivots))

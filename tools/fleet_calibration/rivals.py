"""The rules that others use, on the same sweeps: a share below the median, the mean less three deviations, and a plain MAD."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Rival = Callable[[np.ndarray], np.ndarray]
"""From logarithms of seconds, host by subject, to who is called slow in what."""


def _below(share: float) -> Rival:
    return lambda seen: seen - np.median(seen, axis=0) > -np.log1p(-share)


def _three_deviations(seen: np.ndarray) -> np.ndarray:
    found: np.ndarray = seen > seen.mean(axis=0) + 3 * seen.std(axis=0)
    return found


def _plain_mad(seen: np.ndarray) -> np.ndarray:
    away = seen - np.median(seen, axis=0)
    found: np.ndarray = away / (1.4826 * np.median(np.abs(away), axis=0)) > 3.5
    return found


RIVALS: dict[str, Rival] = {
    "5 % below the median (SuperBench's default)": _below(0.05),
    "mean - 3 sd": _three_deviations,
    "MAD, z > 3.5": _plain_mad,
}

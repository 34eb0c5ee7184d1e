"""Series of nights with a known truth: synthetic ones, and some drawn from real launches of equal sides."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from stackproof import ROOT
from stackproof.gate.statistics import paired

Array = NDArray[np.float64]
SYNTHETIC = ("white", "correlated 0.3", "heavy tails", "bad nights", "weekends", "missing nights")
REAL = {"launches on CPUs": "gate-cpu.jsonl", "launches on H200": "gate-cuda.jsonl"}
NOISE = 0.01
LAUNCHES = 6
_EQUAL = "equal sides"


@dataclass(frozen=True)
class World:
    """Quiet series: logarithms, a row a series, a column a night. `launches`: log-ratios of a gate's equal sides; `effect`: its least."""

    name: str
    quiet: Array
    launches: Array
    effect: float


def synthetic(name: str, rows: int, nights: int, dice: np.random.Generator) -> World:
    """Return quiet series of one kind; their noise from night to night is 1 %, and that of a gate's launches too."""
    white = dice.normal(size=(rows, nights))
    makers: dict[str, Callable[[], Array]] = {
        "white": lambda: white,
        "correlated 0.3": lambda: _correlated(white, 0.3),
        "heavy tails": lambda: dice.standard_t(3, (rows, nights)) / np.sqrt(3),
        "bad nights": lambda: white + (dice.random((rows, nights)) < 0.03) * dice.uniform(3, 8, (rows, nights)),
        "weekends": lambda: white + 1.0 * (np.arange(nights) % 7 >= 5),
        "missing nights": lambda: np.where(dice.random((rows, nights)) < 0.1, np.nan, white),
    }
    return World(name, NOISE * makers[name](), dice.normal(0, NOISE, 2000), 0.02)


def _correlated(white: Array, rho: float) -> Array:
    found = white.copy()
    for night in range(1, white.shape[1]):
        found[:, night] = rho * found[:, night - 1] + np.sqrt(1 - rho**2) * white[:, night]
    return found


def real(
    name: str, rows: int, nights: int, dice: np.random.Generator, folder: Path = ROOT / "results" / "calibration"
) -> World:
    """Return series in which a night is one gate of equal sides, drawn with putting back: the median of six launches of one subject."""
    gates: dict[str, list[list[float]]] = {}
    for line in (folder / REAL[name]).read_text(encoding="utf-8").splitlines():
        trial = json.loads(line)
        for subject, sides in trial["data"].items() if trial["dose"] == _EQUAL else ():
            pairs = list(zip(sides["base"], sides["head"], strict=True))[:LAUNCHES]
            gates.setdefault(subject, []).append([paired(base, head) for base, head in pairs])
    # Three gates of a subject make no series; those with enough stand for themselves.
    enough = [np.array(each) for each in gates.values() if len(each) >= 10]
    quiet = [
        np.median(each[dice.integers(len(each), size=nights)], axis=1)
        for each, _ in zip(_around(enough, rows), range(rows), strict=False)
    ]
    return World(
        name, np.array(quiet), np.concatenate([each.ravel() for each in enough]), 0.05 if "CPU" in name else 0.02
    )


def _around(subjects: list[Array], rows: int) -> list[Array]:
    return [subjects[row % len(subjects)] for row in range(rows)]


def truth(shape: tuple[int, int], size: float, night: int, ramp: int = 0) -> Array:
    """Return what is planted: nothing before the night, then the step at once, or by equal parts over so many nights."""
    behind = np.arange(shape[1]) - night + 1
    return np.tile(size * np.clip(behind / max(ramp, 1), 0, 1), (shape[0], 1))

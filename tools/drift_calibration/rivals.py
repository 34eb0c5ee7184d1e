"""What other detectors say of the same nights, by their own code where there is code; Otava in an environment of its own.

Otava pins numpy and brings 40 packages, so that it runs as a child process: series go in as JSON, places of change points come out.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np

from stackproof.record.store import rules as history_rules
from tools.drift_calibration.watching import Rival
from tools.drift_calibration.worlds import Array

WINDOW = 100
_SIDE, _LIMIT = 12, 7.0
CHILD = Path(__file__).with_name("otava_child.py")


def neighbours(values: Array) -> list[int]:
    """Return tonight where it differs by 5 % from the night before, as the flag of `history` does for medians."""
    if len(values) < 2 or abs(values[-2] / values[-1] - 1) < history_rules().share:
        return []
    return [len(values) - 1]


def perfherder(values: Array) -> list[int]:
    """Return the night twelve nights ago where the t of the twelve on either side, nearer ones weighing more, is above 7."""
    if len(values) < 2 * _SIDE:
        return []
    before, after = values[-2 * _SIDE : -_SIDE], values[-_SIDE:]
    weights = np.linspace(1.0, 1 / _SIDE, _SIDE)
    parts = [
        (np.average(side, weights=each), side.var(ddof=1)) for side, each in ((before, weights[::-1]), (after, weights))
    ]
    (one, spread), (other, spreads) = parts
    score = abs(other - one) / np.sqrt(max((spread + spreads) / _SIDE, 1e-18))
    return [len(values) - _SIDE] if score > _LIMIT else []


def asv(values: Array) -> list[int]:
    """Return where asv's own step detection begins a new step."""
    from asv.step_detect import detect_steps

    recent = values[-WINDOW:]
    shift = len(values) - len(recent)
    return [int(step[0]) + shift for step in detect_steps(list(map(float, recent)), None)[1:]]


class Otava:
    """Apache Otava at its defaults, in the interpreter of an environment that has it."""

    def __init__(self, python: Path) -> None:
        self._child = subprocess.Popen(
            [str(python), str(CHILD)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def __call__(self, values: Array) -> list[int]:
        """Return where it sees change points."""
        if len(values) < 10 or self._child.stdin is None or self._child.stdout is None:
            return []
        recent = values[-WINDOW:]
        self._child.stdin.write(json.dumps(recent.tolist()) + "\n")
        self._child.stdin.flush()
        answer = self._child.stdout.readline()
        return [place + len(values) - len(recent) for place in json.loads(answer)] if answer else []

    def end(self) -> None:
        """End the child."""
        if self._child.stdin:
            self._child.stdin.close()
        self._child.wait(10)


RIVALS: dict[str, Rival] = {
    "asv's step detection": asv,
    "Perfherder-like t": perfherder,
    "neighbours 5 %": neighbours,
}

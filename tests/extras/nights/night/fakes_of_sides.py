"""Stands in for live sides of a night: what each has, what it takes, and what it cannot run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stackproof.extras.nights.drift.series import Measured
from stackproof.gate.interleave import Launch, Lost, Observed, SideSpec

ROW: dict[str, Any] = {"kind": "gemm", "unit": "s/TFLOP", "version": "1"}


@dataclass
class FakeSides:
    """`has`: rows of subjects by the name of a side; `seconds`: of a block.

    `lost`: by subject, until the side is left out.

    `readings`: what conditions say in each launch. `launches`: the sides and the subjects that each was asked for.
    """

    has: dict[str, dict[str, Any]]
    seconds: dict[str, float] = field(default_factory=dict)
    lost: dict[str, Lost] = field(default_factory=dict)
    readings: list[dict[str, Any]] = field(default_factory=list)
    launches: list[tuple[tuple[str, ...], tuple[str, ...]]] = field(default_factory=list)

    def handshake(self, specs: Sequence[SideSpec], *_: Any) -> dict[str, Any]:
        """Return what the sides say of themselves."""
        return {spec.name: {"facts": {"torch": f"of {spec.name}"}, "subjects": self.has[spec.name]} for spec in specs}

    def launch(self, specs: Sequence[SideSpec], subjects: Sequence[str], *_: Any) -> tuple[Launch, list[Lost]]:
        """Return what a launch of these sides sees."""
        names = tuple(spec.name for spec in specs)
        self.launches.append((names, tuple(subjects)))
        found, lost = Launch(), list[Lost]()
        quiet: dict[str, Any] = {"reading": {}, "throttled": [], "others": []}
        found.conditions = [self.readings.pop(0) if self.readings else quiet]
        for subject in subjects:
            if (one := self.lost.get(subject)) and (one.side in names or one.side == "both"):
                lost.append(one)
            else:
                found.seen[subject] = {name: self._seen(name) for name in names}
        return found, lost

    def _seen(self, name: str) -> Observed:
        took = self.seconds.get(name, 1.0)
        return Observed([took, 4 * took] * 2, {"TFLOP": 2.0}, proved="a proof")


def specs(*sides: Measured) -> dict[Measured, SideSpec]:
    """Return specs that nobody sits in."""
    return {side: SideSpec(side.value, Path(), Path(), {}, "cpu", False, "fast", "") for side in sides}

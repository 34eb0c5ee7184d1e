"""Measures the gate itself: how often equal sides fail, and how often a planted loss of known size is found.

Every gate is a line of a file that only grows, so a calibration can be stopped, continued, and put together from several nights.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console

from stackproof.base import files
from stackproof.base.errors import Refusal
from stackproof.gate.cells import TIME
from stackproof.gate.gate import Comparison, GateProgress, GateRun, compare, conclude
from stackproof.gate.report import cells as cells_of
from stackproof.gate.report import word
from stackproof.record.records import Record
from tools.gate_calibration.doses import Calibration, Dose
from tools.gate_calibration.others import JUDGES

OURS = "stackproof gate"


@dataclass(frozen=True)
class Trial:
    """One gate of a calibration. `data`: seconds per run by subject and side, a list a launch; `words`: verdict of each cell."""

    dose: str
    number: int
    verdict: str
    seconds: float
    launches: int
    words: Mapping[str, str]
    ratios: Mapping[str, float]
    visible: Mapping[str, float]
    data: Mapping[str, Mapping[str, list[list[float]]]]
    facts: Mapping[str, Any]


def read(path: Path) -> list[Trial]:
    """Return all trials of a file; a last line that was cut short is left out, and any other damage is refused."""
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").splitlines()
    found = []
    for number, line in enumerate(lines, 1):
        try:
            found.append(Trial(**files.parse_json(line, f"line {number}")))
        except (files.NotJsonError, TypeError) as error:
            if number < len(lines):
                raise Refusal(
                    f"{path}:{number}: is no trial ({error}); remove that line, or name another file with --trials"
                ) from error
    return found


def append(path: Path, trial: Trial) -> None:
    """Add a trial and see it on the disk; half a line that an earlier run left is ended first."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab+") as stream:
        if stream.tell():
            stream.seek(-1, os.SEEK_END)
            if stream.read(1) != b"\n":
                stream.truncate(_last_whole(path))
        stream.write((json.dumps(asdict(trial)) + "\n").encode())
        stream.flush()
        os.fsync(stream.fileno())


def _last_whole(path: Path) -> int:
    return path.read_bytes().rfind(b"\n") + 1


def schedule(calibration: Calibration, done: Sequence[Trial], most: int | None) -> Iterator[tuple[Dose, int]]:
    """Yield what is still to be run, doses in turn in proportion to their number, so that a part of it is a small whole.

    `most`: so many gates of each dose instead of the table's.
    """
    wanted = {dose: min(dose.gates, most) if most else dose.gates for dose in calibration.doses}
    had = {dose: sum(trial.dose == dose.name for trial in done) for dose in calibration.doses}
    while open_ := [dose for dose in calibration.doses if had[dose] < wanted[dose]]:
        dose = min(open_, key=lambda one: had[one] / wanted[one])
        yield dose, had[dose]
        had[dose] += 1


_SILENT = GateProgress(Console(quiet=True), 0.0)
"""Hundreds of gates are a line each."""


def attempt(comparison: Comparison, dose: Dose, number: int, folder: Path) -> Trial:
    """Run one gate with a dose planted in its head."""
    base, head = comparison.specs
    began = time.monotonic()
    outcome = compare(replace(comparison, specs=(base, replace(head, drill=dose.drill))), folder, _SILENT)
    record = Record("gate", head.stack, "2000-01-01T00:00:00.000+00:00")
    conclude(outcome, record)
    cells = {f"{check.subject}::{check.aspect}": check for check in cells_of(record) if "ratio" in check.figures}
    return Trial(
        dose=dose.name, number=number, verdict=record.verdict.value, seconds=time.monotonic() - began,
        launches=len(outcome.results.launches), words={name: word(check) for name, check in cells.items()},
        ratios={name: float(check.figures["ratio"]) for name, check in cells.items()},
        visible={name: float(check.figures["minimum detectable effect"]) for name, check in cells.items()},
        data=_data(outcome), facts=_facts(outcome),
    )  # fmt: skip


def _facts(outcome: GateRun) -> dict[str, Any]:
    return {name: value for name, value in outcome.facts["head"].items() if name == "torch" or name.endswith(".name")}


def _data(outcome: GateRun) -> dict[str, dict[str, list[list[float]]]]:
    found: dict[str, dict[str, list[list[float]]]] = {}
    for launch in outcome.results.launches:
        for subject, sides in launch.seen.items():
            for side, seen in sides.items():
                if seen.blocks:
                    found.setdefault(subject, {}).setdefault(side, []).append(
                        [float(f"{block:.6g}") for block in seen.blocks]
                    )
    return found


@dataclass(frozen=True)
class Share:
    """How many of so many, with the exact interval of 95 % (Clopper and Pearson 1934)."""

    count: int
    total: int

    @property
    def interval(self) -> tuple[float, float]:
        """Return its bounds; everything is possible of none."""
        if not self.total:
            return 0.0, 1.0
        from scipy import stats

        found = stats.binomtest(self.count, self.total).proportion_ci(0.95, "exact")
        return float(found.low), float(found.high)

    def __str__(self) -> str:
        if not self.total:
            return "not yet measured"
        low, high = self.interval
        return f"{self.count}/{self.total} ({low:.1%} to {high:.1%})"


def failing(trials: Sequence[Trial]) -> Share:
    """Return how many gates failed as a whole: what a person would have seen as red."""
    return Share(sum(trial.verdict == "failed" for trial in trials), len(trials))


def unsure(trials: Sequence[Trial]) -> Share:
    """Return how many gates could not say; they are no failures, and a gate that never says anything is none either."""
    return Share(sum(trial.verdict == "inconclusive" for trial in trials), len(trials))


def found(trials: Sequence[Trial], subject: str) -> Share:
    """Return in how many gates the time of a subject was called SLOWER, of all that measured it; a blind cell did not find it."""
    words = [trial.words.get(f"{subject}::{TIME}", "") for trial in trials]
    judged = [one for one in words if one]
    return Share(judged.count("SLOWER"), len(judged))


def by_others(trials: Sequence[Trial], name: str) -> Share:
    """Return how many gates would be red if this tool had judged the same seconds: one subject that it calls worse is enough."""
    judge = JUDGES[name]
    return Share(sum(any(judge(*_pooled(sides)) for sides in trial.data.values()) for trial in trials), len(trials))


def _pooled(sides: Mapping[str, list[list[float]]]) -> tuple[list[float], list[float]]:
    """Return a sample for each launch and side: the median of its blocks, as a process of these tools would give."""
    base, head = ([median(blocks) for blocks in sides[side]] for side in ("base", "head"))
    return base, head

"""The page of a calibration: how often each method names what was planted, and nothing else, and what that takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from tools.bisect_calibration.worlds import Case, Told
from tools.gate_calibration.calibrate import Share


@dataclass(frozen=True)
class Row:
    """One case by one method: what it said, and whether that was right, of every trial."""

    told: Sequence[Told]
    right: Sequence[bool]

    def share(self) -> str:
        """Return how often it was right, between the bounds of 95 %."""
        low, high = Share(sum(self.right), len(self.right)).interval
        return f"{sum(self.right) / len(self.right):.1%} [{low:.0%}, {high:.0%}]"

    def spent(self) -> str:
        """Return runs and launches: the median, and what nineteen in twenty stay within."""
        runs = _typical([one.runs for one in self.told])
        launches = [one.launches for one in self.told]
        return f"{runs} runs" + (f", {_typical(launches)} launches" if any(launches) else "")


def _typical(values: Sequence[int]) -> str:
    return f"{median(values):.0f} ({sorted(values)[int(0.95 * len(values))]})"


@dataclass(frozen=True)
class Results:
    """Rows by case and method, and the tests that a search of exact sets takes by its name and by changes and culprits."""

    rows: Mapping[Case, Mapping[str, Row]]
    tests: Mapping[tuple[int, int], Mapping[str, float]]
    trials: int


def tables(results: Results) -> str:
    """Return the tables as Markdown."""
    methods = list(next(iter(results.rows.values())))
    lines = [
        f"Named all that was planted and nothing else, of {results.trials} trials each (95 % interval); runs: median (19 in 20 within). Of",
        "commits the runs after the confirmation are counted, elsewhere all:",
        "",
        f"| | {' | '.join(methods)} |",
        f"|---|{'---:|' * len(methods)}",
    ]
    for case, rows in results.rows.items():
        lines.append(f"| {case.name} | " + " | ".join(f"{row.share()}; {row.spent()}" for row in rows.values()) + " |")
    names = list(next(iter(results.tests.values())))
    lines += ["", "Tests of sets that the search asks for where each test is exact, median:", ""]
    lines += [f"| changes | culprits that must meet | {' | '.join(names)} |", f"|---:|---:|{'---:|' * len(names)}"]
    for (count, culprits), found in results.tests.items():
        lines.append(f"| {count} | {culprits} | " + " | ".join(f"{one:.0f}" for one in found.values()) + " |")
    return "\n".join(lines)

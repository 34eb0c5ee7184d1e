"""The operator sweep: every entry of torch's operator database, or those named, on one device in one dtype.

Each operator ends in exactly one outcome, so that the counts add up to the size of the database and nothing
is skipped in silence.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch

from ..errors import Refusal, suggestion
from .database import OpInfo, load, preserved
from .examining import examine
from .outcomes import Outcome, Result

Progress = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Sweep:
    """All results of one dtype on one device; `seconds` is wall time without the import of the database."""

    device: torch.device
    dtype: torch.dtype
    seconds: float
    results: tuple[Result, ...]

    @property
    def ok(self) -> bool:
        """Tell whether no operator failed, raised or was left out."""
        return all(result.outcome.ok for result in self.results)

    @property
    def counts(self) -> dict[Outcome, int]:
        """Return the number of operators by outcome; they add up to `len(results)`."""
        found = Counter(result.outcome for result in self.results)
        return {outcome: found[outcome] for outcome in Outcome}

    @property
    def executed(self) -> dict[str, int]:
        """Return how many operators ran forward and backward, and how many samples that were."""
        forward, backward = [r.forward for r in self.results], [r.backward for r in self.results]
        return {
            "forward": sum(map(bool, forward)),
            "backward": sum(map(bool, backward)),
            "samples": sum(forward),
        }

    def faults(self) -> list[Result]:
        """Return the operators for which the sweep is not ok."""
        return [result for result in self.results if not result.outcome.ok]


def sweep(
    device: torch.device,
    dtype: torch.dtype,
    *,
    samples: int | None,
    budget_s: float = float("inf"),
    names: Iterable[str] | None = None,
    on_progress: Progress | None = None,
) -> Sweep:
    """Examine every operator (or those named) on at most `samples` samples each (all: None).

    Operators whose turn comes after `budget_s` seconds end as `NOT_RUN`, which is not ok. Raises `Refusal`
    for a name that the database does not have, or if the database cannot be imported.
    """
    chosen = _chosen(load(), names)
    started, results = time.monotonic(), []
    with preserved(device):
        for done, (name, op) in enumerate(chosen.items()):
            if on_progress:
                on_progress(done, len(chosen), name)
            late = time.monotonic() - started > budget_s
            overdue = Result(name, Outcome.NOT_RUN, f"the time budget of {budget_s:g} s was used up")
            results.append(overdue if late else examine(name, op, device, dtype, samples))
    return Sweep(device, dtype, time.monotonic() - started, tuple(results))


def _chosen(database: dict[str, OpInfo], names: Iterable[str] | None) -> dict[str, OpInfo]:
    wanted = list(database if names is None else names)
    for name in wanted:
        if name not in database:
            hint = suggestion(name, database)
            raise Refusal(f"operator {name!r} is not in torch {torch.__version__}'s operator database{hint}")
    return {name: database[name] for name in wanted}

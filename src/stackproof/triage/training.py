"""Figures from what trainers print: transformers, LLaMA-Factory, ultralytics, DeepSpeed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache

from ..tables import Table
from . import rules
from .probes import Hit, Probe, Who, compiled
from .scanning import Evidence

_PAIR = re.compile(r"'(\w+)': '?(-?[\d.]+(?:e[+-]?\d+)?|-?inf|nan)'?(?=[,}\s])", re.IGNORECASE)
_WORDS = ("model", "device", "dtype")
_SERIES_KEPT = 10000

Series = dict[str, list[float]]
Kind = tuple[str, ...]


@dataclass(frozen=True)
class TrainerLine:
    """A kind of line that a trainer prints."""

    trainer: str
    series: bool
    pairs: bool
    probe: Probe


@dataclass(frozen=True)
class Progress:
    """A progress bar's last state at a step: seconds since its start."""

    step: int
    of: int
    elapsed: float


@dataclass
class Training:
    """What a training run printed: single figures by name, series by name in order, progress of the main loop."""

    trainers: tuple[str, ...]
    figures: dict[str, float] = field(default_factory=dict)
    words: dict[str, str] = field(default_factory=dict)
    series: Series = field(default_factory=dict)
    progress: list[Progress] = field(default_factory=list)
    first: Hit | None = None

    def get(self, name: str) -> float | None:
        """Return a figure, if the log holds it."""
        return self.figures.get(name)

    @property
    def world_size(self) -> int | None:
        """The number of ranks: as printed, else from the batch sizes."""
        if stated := self.get("world_size"):
            return int(stated)
        whole, device = self.get("global_batch"), self.get("device_batch")
        each = (device or 0) * (self.get("accumulation") or 1)
        return round(whole / each) if whole and each else None

    @property
    def steps(self) -> int | None:
        """How many optimiser steps were done."""
        counted = [row.step for row in self.progress] + [int(step) for step in self.series.get("global_step", [])]
        return max(counted) if counted else int(self.get("total_steps") or 0) or None

    @property
    def samples_per_second(self) -> float | None:
        """Samples of all ranks per second, as the trainer itself measured it."""
        if stated := self.get("train_samples_per_second"):
            return stated
        running = self.series.get("running_samples_per_second")
        return running[-1] if running else None

    @property
    def steps_per_second(self) -> float | None:
        """Optimiser steps per second: as printed, else from the progress bar."""
        if stated := self.get("train_steps_per_second"):
            return stated
        last = self.progress[-1] if self.progress else None
        return last.step / last.elapsed if last and last.elapsed and last.step else None

    @property
    def memory_gb(self) -> float | None:
        """The most device memory that was seen, in the trainer's own GB."""
        return max(self.series.get("memory_gb", []), default=None)

    @property
    def seconds(self) -> float | None:
        """How long the training took."""
        if hours := self.get("train_hours"):
            return 3600 * hours
        return self.get("train_runtime") or (self.progress[-1].elapsed if self.progress else None)


@cache
def lines() -> tuple[TrainerLine, ...]:
    """Return the kinds of lines of `fixtures/triage/training.toml`."""
    with Table.load(rules.FOLDER / "training.toml") as table:
        return tuple(_line(row, n) for n, row in enumerate(table.tables("line")))


def _line(row: Table, number: int) -> TrainerLine:
    with row:
        patterns, given = row.strings("patterns"), rules.given_texts(row)
        texts = given or rules.texts(row, "patterns", patterns)
        probe = Probe(
            f"training/{number}", texts, compiled(patterns), kept=_SERIES_KEPT, counted=_SERIES_KEPT, timed=False
        )
        return TrainerLine(
            row.take("trainer", str), row.take("series", bool, False), row.take("pairs", bool, False), probe
        )


def read(evidence: Evidence) -> Training | None:
    """Return the training that the logs are of; where several ranks print it, the first to print most speaks for all."""
    found = Training(())
    bars: list[Hit] = []
    trainers: dict[str, Hit] = {}
    for line in lines():
        for hit in _speaker(evidence.tally(line.probe.key).kept):
            if "elapsed" in hit.groups:
                bars.append(hit)
                continue
            trainers.setdefault(line.trainer, hit)
            _take(found, line, hit)
    if not trainers:
        return None
    found.trainers, found.first = tuple(trainers), min(trainers.values(), key=lambda hit: hit.place)
    found.progress = _main_loop(bars, found.get("total_steps"))
    return found


def _speaker(hits: list[Hit]) -> Iterator[Hit]:
    """Yield, of each kind of line, the hits of the writer that wrote most of them, in order."""
    counts: dict[Kind, Counter[Who]] = {}
    for hit in hits:
        counts.setdefault(tuple(hit.groups), Counter())[hit.who] += 1
    chosen = {kind: count.most_common(1)[0][0] for kind, count in counts.items()}
    yield from sorted((hit for hit in hits if hit.who == chosen[tuple(hit.groups)]), key=lambda hit: hit.place)


def _take(found: Training, line: TrainerLine, hit: Hit) -> None:
    named = dict(_PAIR.findall(hit.text)) if line.pairs else hit.groups
    for name, text in named.items():
        if name in _WORDS:
            found.words[name] = text
        elif (value := number(text)) is None:
            continue
        elif line.series:
            found.series.setdefault(name, []).append(value)
        else:
            found.figures[name] = value


def number(text: str) -> float | None:
    """Return a number as trainers print it: with thousands commas, as a time, or as nan."""
    if ":" in text:
        total = 0.0
        for part in text.split(":"):
            total = 60 * total + (number(part) or 0.0)
        return total
    try:
        return float(text.replace(",", "").rstrip("."))
    except ValueError:
        return None


def _main_loop(bars: list[Hit], total: float | None) -> list[Progress]:
    """Return the states of the bar that counts optimiser steps: the one whose total is known, else the one drawn most often."""
    states = [_state(hit) for hit in bars]
    counts = Counter(state.of for state in states)
    if not counts:
        return []
    wanted = int(total) if total and counts.get(int(total)) else counts.most_common(1)[0][0]
    by_step: dict[int, Progress] = {}
    for state in states:
        if state.of == wanted and state.elapsed >= 0:
            by_step.setdefault(state.step, state)
    return [by_step[step] for step in sorted(by_step)]


def _state(hit: Hit) -> Progress:
    return Progress(int(hit.groups["step"]), int(hit.groups["of"]), number(hit.groups["elapsed"]) or 0.0)

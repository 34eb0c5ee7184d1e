"""The figures that trainers print, and what is odd about them: what cannot be right, and what deserves a look."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from statistics import median

from stackproof.base.toml import kept
from stackproof.triage import rules
from stackproof.triage.scan import Evidence
from stackproof.triage.search import Hit, Probe, Who

_PLAIN = "plain log"
_NEARLY = (0.01, 3)  # so small was the loss in so many steps before it was 0
_NEARLY_PLAIN = (0.1, 1)  # a loop of one's own prints few digits
_FEWEST = 8


@dataclass(frozen=True)
class Oddity:
    """One sentence; `wrong` if the run cannot be right, else it only deserves a look."""

    id: str
    wrong: bool
    sentence: str


def oddities(training: Training) -> list[Oddity]:
    """Return what is odd, what is wrong first."""
    checks = (_losses, _learning_rates, _skipped, _batches)
    return sorted((oddity for check in checks for oddity in check(training)), key=lambda oddity: not oddity.wrong)


def _losses(training: Training) -> Iterator[Oddity]:
    losses = training.series.get("loss", [])
    bad = [n for n, loss in enumerate(losses) if not math.isfinite(loss)]
    # Of a plain log a 0 that other losses follow is a bar's first state, or a batch without labels.
    plain = _PLAIN in training.trainers
    start = max((n + 1 for n, loss in enumerate(losses) if loss), default=0) if plain else 0
    zeros = [n for n, loss in enumerate(losses[start:], start) if loss == 0]
    if bad:
        sentence = f"the loss is {losses[bad[0]]} from logged step {bad[0] + 1} of {len(losses)} on"
        yield Oddity("loss-nan", True, sentence)
    rewarded = any(name.partition("/")[0] in ("reward", "rewards", "kl") for name in training.series)
    nearly, steps = _NEARLY_PLAIN if plain else _NEARLY
    faded = bool(zeros) and max(losses[: zeros[0]][-steps:], default=nearly) < nearly
    if len(zeros) > 1 and not rewarded and not faded:
        remedy = "train in bfloat16 instead of float16, or look at the labels: all of them may be masked"
        sentence = f"the loss is exactly 0 in {len(zeros)} of {len(losses)} logged steps; {remedy}"
        yield Oddity("loss-zero", True, sentence)
    finite = [loss for loss in losses if math.isfinite(loss)]
    third = len(finite) // 3
    if third >= _FEWEST // 2 and median(finite[-third:]) > 1.5 * median(finite[:third]) > 0:
        yield Oddity("loss-rises", False, f"the loss rises, from {finite[0]:g} to {finite[-1]:g}")


def _learning_rates(training: Training) -> Iterator[Oddity]:
    rates = training.series.get("learning_rate", [])
    if len(rates) > 1 and not any(rates):
        yield Oddity("rate-zero", True, f"the learning rate is 0 in all {len(rates)} steps: the optimiser never steps")


def _skipped(training: Training) -> Iterator[Oddity]:
    skipped, steps = training.series.get("skipped", []), training.series.get("global_step", [])
    if skipped and steps and skipped[-1] >= steps[-1] > 1:
        sentence = f"all {steps[-1]:.0f} steps were skipped: gradients overflow at every loss scale"
        yield Oddity("all-steps-skipped", True, sentence)


def _batches(training: Training) -> Iterator[Oddity]:
    whole, device, world = (
        training.figures.get("global_batch"),
        training.figures.get("device_batch"),
        training.figures.get("world_size"),
    )
    each = (device or 0) * (training.figures.get("accumulation") or 1)
    if whole and each and world and whole != each * world:
        sentence = f"the batch of all ranks is {whole:.0f}, and {world:.0f} ranks of {each:.0f} make {each * world:.0f}"
        yield Oddity("batch", True, f"{sentence}: the ranks do not train together")


_PAIR = re.compile(r"'(\w+)': '?(-?[\d.]+(?:e[+-]?\d+)?|-?inf|nan)'?(?=[,}\s])", re.IGNORECASE)
_WORDS = ("model", "device", "dtype")
_SERIES_KEPT = 4000


@dataclass(frozen=True, kw_only=True)
class TrainerLine(rules.Searched):
    """A kind of line that a trainer prints."""

    trainer: str
    series: bool = False
    pairs: bool = False

    @cached_property
    def probe(self) -> Probe:
        return self.looked_for(kept=_SERIES_KEPT, counted=_SERIES_KEPT, timed=False, frugal=True)


@dataclass(frozen=True)
class Lines:
    """What trainers print; bars whose descriptions begin as `aside` says count no steps of the training."""

    aside: tuple[str, ...]
    line: tuple[TrainerLine, ...]


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
    series: dict[str, list[float]] = field(default_factory=dict)
    progress: list[Progress] = field(default_factory=list)

    @property
    def world_size(self) -> int | None:
        """The number of ranks: as printed, else from the batch sizes."""
        if stated := self.figures.get("world_size"):
            return int(stated)
        whole, device = self.figures.get("global_batch"), self.figures.get("device_batch")
        each = (device or 0) * (self.figures.get("accumulation") or 1)
        return round(whole / each) if whole and each else None

    @property
    def steps(self) -> int | None:
        """How many optimiser steps were done."""
        counted = [row.step for row in self.progress] + [int(step) for step in self.series.get("global_step", [])]
        return max(counted) if counted else int(self.figures.get("total_steps") or 0) or None

    @property
    def samples_per_second(self) -> float | None:
        """Samples of all ranks per second, as the trainer itself measured it."""
        running = self.series.get("running_samples_per_second")
        return self.figures.get("train_samples_per_second") or (running[-1] if running else None)

    @property
    def steps_per_second(self) -> float | None:
        """Optimiser steps per second: as printed, else from the progress bar."""
        if stated := self.figures.get("train_steps_per_second"):
            return stated
        last = self.progress[-1] if self.progress else None
        return last.step / last.elapsed if last and last.elapsed and last.step else None

    @property
    def memory_gb(self) -> float | None:
        """The most device memory that was seen, in the trainer's own GB."""
        return max(self.series.get("memory_gb", []), default=None)

    @property
    def seconds(self) -> float | None:
        if hours := self.figures.get("train_hours"):
            return 3600 * hours
        return self.figures.get("train_runtime") or (self.progress[-1].elapsed if self.progress else None)


table = kept(rules.FOLDER / "training.toml", Lines)


def read(evidence: Evidence) -> Training | None:
    """Return the training that the logs are of; where several ranks print it, the first to print most speaks for all."""
    training = Training(())
    bars: list[Hit] = []
    for line in table().line:
        if line.trainer == _PLAIN and "loss" in training.series:
            continue
        for hit in _speaker(evidence.tally(line.probe.key).kept):
            if "elapsed" not in hit.groups:
                training.trainers = tuple(dict.fromkeys((*training.trainers, line.trainer)))
                _take(training, line, hit)
            elif not hit.text.lstrip("\r ").startswith(table().aside):
                bars.append(hit)
    if not training.trainers:
        return None
    training.progress = _main_loop(bars, training.figures.get("total_steps"))
    return training


def _speaker(hits: list[Hit]) -> Iterator[Hit]:
    counts: dict[tuple[str, ...], Counter[Who]] = {}
    for hit in hits:
        has_loss = bool(hit.groups.get("loss", "1").strip("0."))  # of a pipeline only the last stage has one
        counts.setdefault(tuple(hit.groups), Counter())[hit.who] += has_loss
    chosen = {kind: count.most_common(1)[0][0] for kind, count in counts.items()}
    yield from sorted((hit for hit in hits if hit.who == chosen[tuple(hit.groups)]), key=lambda hit: hit.place)


def _take(training: Training, line: TrainerLine, hit: Hit) -> None:
    named = dict(_PAIR.findall(hit.text)) if line.pairs else hit.groups
    for name, text in named.items():
        if name in _WORDS:
            training.words[name] = text
        elif (value := number(text)) is None:
            continue
        elif line.series:
            training.series.setdefault(name, []).append(value)
        else:
            training.figures[name] = value


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
    states = [
        Progress(int(hit.groups["step"]), int(hit.groups["of"]), number(hit.groups["elapsed"]) or 0.0) for hit in bars
    ]
    counts = Counter(state.of for state in states)
    if not counts:
        return []
    wanted = int(total) if total and counts.get(int(total)) else counts.most_common(1)[0][0]
    by_step: dict[int, Progress] = {}
    for state in states:
        if state.of == wanted and state.elapsed >= 0:
            by_step.setdefault(state.step, state)
    return [by_step[step] for step in sorted(by_step)]

"""A gate of any command: whole launches of base and head in turn, judged over pairs of launches as every gate is.

What the command computes is not looked at, unless figures such as losses are named: then they are held against one another.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from stackproof.base.errors import Refusal
from stackproof.base.processes import HostLoad
from stackproof.gate import figures
from stackproof.gate.cells import BASE, HEAD, Cell, ComparedCells
from stackproof.gate.conditions import Conditions
from stackproof.gate.live import SideEndedError
from stackproof.gate.plan import GatePlan
from stackproof.gate.statistics import Design
from stackproof.jobs import launch
from stackproof.jobs.metrics import STEPS_FILE, Metric, MetricMissing, Output
from stackproof.jobs.words import PythonCall
from stackproof.record.records import Verdict
from stackproof.stack.stacks import HOST

SUBJECT = "command"
MEMORY = "peak-memory"
_SLACK, _LEAST_S = 10.0, 60.0
"""A launch that takes ten times as long as the first one of both sides, and a minute, hangs."""
Counters = dict[str, int]


@dataclass(frozen=True)
class CommandSide:
    """Where one side of the command runs."""

    name: str
    folder: Path
    environment: Mapping[str, str]
    label: str


@dataclass(frozen=True)
class CommandPlan:
    """What is launched, what is read from it, and what may be spent."""

    words: tuple[str, ...]
    sides: tuple[CommandSide, CommandSide]
    metrics: tuple[Metric, ...]
    figures: tuple[Metric, ...]
    plan: GatePlan
    effect: float
    minutes: float
    deadline: float
    """Seconds that the first launch of a side may take."""
    exact: bool
    """Whether only what has no noise is judged: counters and figures; nothing is timed."""
    python: PythonCall | None
    """How Python is called, where the command is Python and its counters are wanted."""

    @property
    def design(self) -> Design:
        """The promise, as declared."""
        return Design.declared(self.plan)


@dataclass(frozen=True)
class OneLaunch:
    """What one launch of one side said: each metric's values, each figure's, its seconds and its peak of memory in bytes."""

    values: Mapping[str, list[float]]
    figures: Mapping[str, list[float]]
    seconds: float
    peak: int


@dataclass
class CommandRun:
    """All that was seen, until the end or until something went wrong."""

    plan: CommandPlan
    first: dict[str, OneLaunch] = field(default_factory=dict)
    """The launch of each side that shows whether it runs; it is not timed."""
    pairs: list[dict[str, OneLaunch]] = field(default_factory=list)
    cells: ComparedCells = field(default_factory=ComparedCells)
    counted: list[tuple[Counters, Counters]] = field(default_factory=list)
    uncounted: str = ""
    """Why there are no counters."""
    ended: SideEndedError | None = None
    interrupted: bool = False
    conditions: Conditions = field(default_factory=lambda: Conditions(()))

    def launches(self, side: str) -> list[OneLaunch]:
        """Return the launches of a side that were timed, in order."""
        return [pair[side] for pair in self.pairs]

    def add(self, pair: dict[str, OneLaunch]) -> None:
        """Take over a pair; every metric becomes a logarithm in which less is better."""
        self.pairs.append(pair)
        for metric in self.plan.metrics:
            base, head = (metric.one(pair[side].values[metric.name]) for side in (BASE, HEAD))
            ratio = math.log(base / head) if metric.higher else math.log(head / base)
            self.cells.add(Cell(SUBJECT, metric.name, self.plan.effect), ratio)
        base, head = (float(pair[side].peak) for side in (BASE, HEAD))
        if min(base, head) > 0 and not any(metric.name == MEMORY for metric in self.plan.metrics):
            effect = self.plan.plan.quantities[MEMORY].effect(HOST)
            self.cells.add(Cell(SUBJECT, MEMORY, effect, aside=True), math.log(head / base))


Say = Callable[[str], None]


def compare(plan: CommandPlan, folder: Path, say: Say) -> CommandRun:
    """Launch both sides once to see that they run, count what can be counted, then launch pairs until all is decided.

    Raises:
        Refusal: the command cannot be started, or the base itself does not say what was asked for.
    """
    found = CommandRun(plan)
    until = time.monotonic() + 60 * plan.minutes
    try:
        _try_both(found, folder / "first", say)
        _count(found, folder / "counted", say)
        if plan.exact:
            _once_more(found, folder / "again", say)
        else:
            _pairs(found, folder, until, say)
    except SideEndedError as ended:
        found.ended = ended
    except KeyboardInterrupt:
        found.interrupted = True
        found.cells.look(found.plan.design)
    return found


def _try_both(found: CommandRun, folder: Path, say: Say) -> None:
    """Launch each side, also the head where the base fails: it matters whether both do."""
    ended: list[SideEndedError] = []
    for side in found.plan.sides:
        try:
            found.first[side.name] = _launch(found.plan, side, folder / f"{side.name}.log", found.plan.deadline)
            say(f"{side.name} runs, in {found.first[side.name].seconds:.1f} s (this launch is not timed)")
        except SideEndedError as one:
            ended.append(one)
    if len(ended) > 1:
        ended[0].side = "both"
    if ended:
        raise ended[0]


def _count(found: CommandRun, folder: Path, say: Say) -> None:
    """Run both sides inside our wrapper, twice, because a second launch shows what varies by itself; a third sees what is compiled."""
    python = found.plan.python
    if python is None:
        found.uncounted = "the command is not Python running a file or a module, so nothing inside it was counted"
        return
    for number in range(found.plan.plan.count.launches):
        counters = [_inside(found, side, python, folder, number, "--operators") for side in found.plan.sides]
        if None in counters:
            return
        found.counted.append((counters[0] or {}, counters[1] or {}))
        say(f"counted {number + 1} of {found.plan.plan.count.launches}")
    if not any(side for pair in found.counted for side in pair):
        found.uncounted = "torch was not used in it, so nothing inside it was counted"
    compiles = any(side.pop("may compile", 0) for pair in found.counted for side in pair)
    if compiles:
        graphs = [_inside(found, side, python, folder, len(found.counted)) for side in found.plan.sides]
        for pair in found.counted:
            for side, more in zip(pair, graphs, strict=True):
                side |= {name: count for name, count in (more or {}).items() if name.startswith("graph")}


def _inside(
    found: CommandRun, side: CommandSide, python: PythonCall, folder: Path, number: int, *flags: str
) -> Counters | None:
    """Return the counters of one launch, None where the command does not run in the wrapper: then only they are missing."""
    to = folder / f"{side.name}-{number}.json"
    to.parent.mkdir(parents=True, exist_ok=True)
    log = to.with_suffix(".log")
    ended = launch.run(
        python.inside(to, *flags), side.folder, side.environment, log, _later(found.plan, found.first) * _SLACK
    )
    if ended.status or not to.is_file():
        found.uncounted = (
            f"{side.name} {ended.words} inside the wrapper that counts, and without it runs: {launch.last_words(log)}"
        )
        return None
    counted: Counters = json.loads(to.read_text(encoding="utf-8"))
    return counted


def _once_more(found: CommandRun, folder: Path, say: Say) -> None:
    """Launch each side a second time, which shows what varies by itself; nothing of it is timed."""
    deadline, load = _later(found.plan, found.first), HostLoad()
    again = {side.name: _launch(found.plan, side, folder / f"{side.name}.log", deadline) for side in found.plan.sides}
    found.pairs.append(again)
    found.conditions.add([], load.share())
    say("both sides once more: what is not exact is not judged")


def _pairs(found: CommandRun, folder: Path, until: float, say: Say) -> None:
    looks = found.plan.design.looks
    _warn(found, until, say)
    deadline = _later(found.plan, found.first)
    while (look := found.plan.design.next_look(len(found.pairs))) is not None:
        while len(found.pairs) < look:
            if found.pairs and time.monotonic() > until:
                found.cells.look(found.plan.design)
                return
            _pair(found, folder / f"launch-{len(found.pairs)}", deadline)
            say(f"pair {len(found.pairs)} of at most {looks[-1]}")
        found.cells.look(found.plan.design)
        if not found.cells.open():
            return


def _warn(found: CommandRun, until: float, say: Say) -> None:
    """Say at once that the minutes will not do."""
    pair, look = sum(one.seconds for one in found.first.values()), found.plan.design.looks[0]
    if time.monotonic() + pair * look > until:
        needed = math.ceil(found.plan.minutes + (time.monotonic() + pair * look - until) / 60)
        say(
            f"a first look takes {look} pairs of {pair:.0f} s: --minutes {found.plan.minutes:g} is too few, {needed} would do"
        )


def _pair(found: CommandRun, folder: Path, deadline: float) -> None:
    """Launch both sides one after the other, the head first in every second pair, so that drift hits both."""
    load, pair = HostLoad(), dict[str, OneLaunch]()
    for side in found.plan.sides if len(found.pairs) % 2 == 0 else reversed(found.plan.sides):
        pair[side.name] = _launch(found.plan, side, folder / f"{side.name}.log", deadline)
    found.add(pair)
    found.conditions.add([], load.share())


def _later(plan: CommandPlan, first: Mapping[str, OneLaunch]) -> float:
    """Return the deadline of all launches after the first of each side."""
    return min(plan.deadline, max(_LEAST_S, _SLACK * max(one.seconds for one in first.values())))


def _launch(plan: CommandPlan, side: CommandSide, log: Path, deadline: float) -> OneLaunch:
    """Launch one side and read what it said.

    Raises:
        SideEndedError: it failed, hung, or says something that is no figure.
        Refusal: it cannot be started, or the base does not say what was asked for.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    steps = log.with_suffix(".steps")
    files = {side.folder / metric.file for metric in (*plan.metrics, *plan.figures) if metric.file}
    before = {path: path.stat().st_mtime_ns if path.exists() else 0 for path in files}
    environment = {**side.environment, STEPS_FILE: str(steps)}
    ended = launch.run(plan.words, side.folder, environment, log, deadline)
    if ended.hung or ended.status:
        verdict = Verdict.HUNG if ended.hung else Verdict.CRASHED
        raise SideEndedError(
            side.name, verdict, f"{side.name}: the command {ended.words}; it printed last: {launch.last_words(log)}"
        )
    output = Output(log, side.folder, steps, ended.seconds, before)
    values = {metric.name: _values(metric, output, side, positive=True) for metric in plan.metrics}
    known = {metric.name: _values(metric, output, side) for metric in plan.figures}
    return OneLaunch(values, {**figures.of_callback(steps), **known}, ended.seconds, ended.peak)


def _values(metric: Metric, output: Output, side: CommandSide, *, positive: bool = False) -> list[float]:
    """Return what one launch says of a metric; it is an error of the command line if even the base says nothing."""
    try:
        found = metric.values(output)
    except MetricMissing as missing:
        said = f"{side.name}: {missing}; it printed last: {launch.last_words(output.log)}"
        if side.name == BASE:
            raise Refusal(f"{said}; --metric and --figure name what the command prints or writes") from None
        raise SideEndedError(side.name, Verdict.FAILED, f"{said}; the base gives '{metric.name}'") from None
    if bad := [value for value in found if not math.isfinite(value)]:
        raise SideEndedError(
            side.name, Verdict.FAILED, f"{side.name}: '{metric.name}' is {bad[0]} ({len(bad)} of {len(found)} values)"
        )
    if positive and metric.one(found) <= 0:
        reason = f"{side.name}: '{metric.name}' is {metric.one(found):g}, and only what is above 0 can be compared as a ratio"
        raise SideEndedError(side.name, Verdict.FAILED, reason)
    return found


def seen(found: CommandRun, side: str, metric: Metric) -> list[float]:
    """Return a side's value of a metric in each pair."""
    return [metric.one(one.values[metric.name]) for one in found.launches(side)]


def middle(found: CommandRun, side: str, metric: Metric) -> float:
    """Return the median of a side's values."""
    return median(seen(found, side, metric))


def environment_of(words: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Return the variables of a side over those of this process."""
    return {**os.environ, **dict(words)}

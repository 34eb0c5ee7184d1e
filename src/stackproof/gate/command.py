"""A gate of any command: whole launches of base and head in turn, judged over pairs of launches as every gate is.

What the command computes is not looked at, unless figures such as losses are named: then they are compared.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from statistics import median

from stackproof.base import files
from stackproof.base.errors import Refusal, StackUnavailableError
from stackproof.base.processes import HostLoad
from stackproof.gate import changed, gate, plan
from stackproof.gate.cells import BASE, HEAD, Cell, Results
from stackproof.gate.gate import compared
from stackproof.gate.interleave import Lost, OutOfTimeError, SideEndedError, all_or_gravest, turns
from stackproof.gate.report import UNVERIFIED
from stackproof.gate.variants import CommandGateRequest, Variant, checkouts
from stackproof.jobs import launch
from stackproof.jobs.metrics import STEPS_FILE, Metric, MetricMissing, Output
from stackproof.record.records import CellWord, Check, Figure, Measurement, Record, Verdict
from stackproof.stack import hosts, stacks

SUBJECT = "command"
MEMORY = "peak-memory"
VERIFIED = "verified"
_SLACK, _LEAST_S = 10.0, 60.0
"""A launch that takes ten times as long as the first one of both sides, and a minute, hangs."""
Counters = dict[str, int]


@dataclass(frozen=True)
class OneLaunch:
    """What one launch of one side said: each metric's values, each figure's, its seconds and its peak of memory in bytes."""

    values: Mapping[str, list[float]]
    figures: Mapping[str, list[float]]
    seconds: float
    peak: int


@dataclass
class CommandRun:
    """A gate of a command: what is asked, and all that was seen, until the end or until something went wrong."""

    request: CommandGateRequest
    sides: tuple[Variant, Variant]
    results: Results
    folder: Path
    say: Callable[[str], None]
    first: dict[str, OneLaunch] = field(default_factory=dict)
    """The launch of each side that shows whether it runs; it is not timed."""
    pairs: list[dict[str, OneLaunch]] = field(default_factory=list)
    uncounted: str = ""
    """Why there are no counters."""
    until: float = math.inf

    def launches(self, side: str) -> list[OneLaunch]:
        """Return the launches of a side in order, of which all but the first were timed."""
        return [self.first[side], *(pair[side] for pair in self.pairs)]

    def seen(self, side: str, metric: Metric) -> list[float]:
        """Return a side's value of a metric in each pair."""
        return [metric.value(pair[side].values[metric.name]) for pair in self.pairs]

    def compare(self) -> None:
        """Launch both sides once to see that they run, count what can be counted, then launch pairs until all is decided.

        Raises:
            Refusal: the command cannot be started, or the base itself does not say what was asked for.
        """
        self.until = time.monotonic() + 60 * self.request.minutes
        try:
            self._try_both()
            self._count()
            if self.request.exact:
                self.pairs.append(self._pair(self.folder / "again"))
                self.say("both sides once more: only what is exact is compared")
            else:
                gate.launch_until_decided(self.results.plan.design, self.until, self._another_pair, self._look)
        except SideEndedError as ended:
            self.results.lost[SUBJECT] = Lost(SUBJECT, ended.side, ended.verdict, str(ended))
        except OutOfTimeError as late:
            self.results.ended = f"the minutes were over in {late}"
        except KeyboardInterrupt:
            self.results.interrupted = True
        self._look()

    def _try_both(self) -> None:
        """Launch each side, also the head where the base fails: it matters whether both do."""

        def first(side: Variant) -> OneLaunch:
            deadline = self.request.deadline * self.request.deadline_scale
            launched = self.first[side.name] = self._launch(side, self.folder / "first", deadline)
            self.say(f"{side.name} runs, in {launched.seconds:.1f} s (this launch is not timed)")
            return launched

        all_or_gravest({side.name: partial(first, side) for side in self.sides})

    def _count(self) -> None:
        """Run both sides inside our wrapper, twice, because a second launch shows what varies by itself; a third sees what is compiled."""
        launches, python = self.results.plan.count.launches, launch.python_at(self.request.words)
        if not self.request.counters or python is None:
            reason = "the command is not Python running a file or a module, so nothing inside it was counted"
            self.uncounted = reason if self.request.counters else "--no-counters leaves them out"
            return
        counted: list[tuple[Counters, Counters]] = []
        for number in range(launches):
            base, head = (self._inside(side, python, number, "--operators") for side in self.sides)
            if base is None or head is None:
                return
            counted.append((base, head))
            self.say(f"counted {number + 1} of {launches}")
        if not any(side for pair in counted for side in pair):
            self.uncounted = "torch was not used in it, so nothing inside it was counted"
        compiled = [side.pop("may compile", 0) for pair in counted for side in pair]
        if any(compiled):
            graphs = [self._inside(side, python, launches) for side in self.sides]
            for pair in counted:
                for side, more in zip(pair, graphs, strict=True):
                    side |= {name: count for name, count in (more or {}).items() if name.startswith("graph")}
        used = {name for pair in counted for side in pair for name, count in side.items() if count}
        kept = [[{name: side.get(name, 0) for name in sorted(used)} for side in pair] for pair in counted]
        self.results.counted[SUBJECT] = [(base, head) for base, head in kept]

    def _inside(self, side: Variant, python: int, number: int, *flags: str) -> Counters | None:
        """Return the counters of one launch, None where the command does not run in the wrapper: then only they are missing."""
        to = self.folder / "counted" / f"{side.name}-{number}.json"
        to.parent.mkdir(parents=True, exist_ok=True)
        log = to.with_suffix(".log")
        folder, deadline = side.folder or Path.cwd(), self._deadline() * _SLACK
        ended = launch.run(
            launch.inside(self.request.words, python, to, *flags), folder, side.environment, log, deadline
        )
        if ended.status or not to.is_file():
            self.uncounted = f"{side.name} {ended.words} inside the wrapper that counts, and without it runs: {launch.last_words(log)}"
            return None
        counted: Counters = files.read_json(to)
        return counted

    def _another_pair(self, number: int) -> bool:
        """Launch a pair, if it fits; every metric becomes a logarithm in which less is better."""
        longest = max(sum(each.seconds for each in pair.values()) for pair in self.pairs) if self.pairs else 0.0
        results, design = self.results, self.results.plan
        if time.monotonic() + longest > self.until:
            results.ended = f"the minutes were over before pair {number + 1}"
            return False
        pair = self._pair(self.folder / f"launch-{number}")
        self.pairs.append(pair)
        for metric in self.request.metrics:
            base, head = (metric.value(pair[side].values[metric.name]) for side in (BASE, HEAD))
            effect = self.request.effect or design.effect(SUBJECT, results.kind)
            ratio = math.log(base / head) if metric.higher else math.log(head / base)
            results.cells.add(Cell(SUBJECT, metric.name, effect), ratio)
        base, head = (float(pair[side].peak) for side in (BASE, HEAD))
        if min(base, head) > 0 and not any(metric.name == MEMORY for metric in self.request.metrics):
            effect = design.quantities[MEMORY].effect(stacks.HOST)
            results.cells.add(Cell(SUBJECT, MEMORY, effect, aside=True), math.log(head / base))
        self.say(f"pair {number + 1} of at most {design.design.looks[-1]}")
        exact = [check for check in _exact(self) if check.verdict.exit_code]
        if exact and not self.request.go_on:
            results.ended = gate.at_once(exact[0].aspect)
        return not results.ended

    def _look(self) -> bool:
        self.results.cells.look(self.results.plan.design)
        return bool(self.results.cells.open())

    def _pair(self, folder: Path) -> dict[str, OneLaunch]:
        """Launch both sides one after the other, the head first in every second pair, so that drift hits both."""
        load, deadline = HostLoad(), self._deadline()
        pair = {side.name: self._launch(side, folder, deadline) for side in turns(self.sides, len(self.pairs))}
        self.results.conditions.add([], load.share())
        return pair

    def _deadline(self) -> float:
        longest = max(launched.seconds for launched in self.first.values())
        return min(self.request.deadline * self.request.deadline_scale, max(_LEAST_S, _SLACK * longest))

    def _launch(self, side: Variant, place: Path, deadline: float) -> OneLaunch:
        folder, log, steps = side.folder or Path.cwd(), place / f"{side.name}.log", place / f"{side.name}.steps"
        metrics, figures = self.request.metrics, self.request.figures
        place.mkdir(parents=True, exist_ok=True)
        written = {folder / metric.file for metric in (*metrics, *figures) if metric.file}
        before = {path: path.stat().st_mtime_ns if path.exists() else 0 for path in written}
        environment, left = {**side.environment, STEPS_FILE: str(steps)}, max(1.0, self.until - time.monotonic())
        ended = launch.run(self.request.words, folder, environment, log, min(deadline, left))
        if ended.hung and left < deadline:
            raise OutOfTimeError(f"a launch of the {side.name}")
        if ended.hung or ended.status:
            why = f"{side.name}: the command {ended.words}; it printed last: {launch.last_words(log)}"
            raise SideEndedError(side.name, Verdict.HUNG if ended.hung else Verdict.CRASHED, why)
        output = Output(log, folder, steps, ended.seconds, before)
        values = {metric.name: _values(metric, output, side, positive=True) for metric in metrics}
        named = {metric.name: _values(metric, output, side) for metric in figures}
        return OneLaunch(values, {**changed.of_callback(steps), **named}, ended.seconds, ended.peak)


def _values(metric: Metric, output: Output, side: Variant, *, positive: bool = False) -> list[float]:
    """Return what one launch says of a metric; it is an error of the command line if even the base says nothing."""
    try:
        values = metric.values(output)
    except MetricMissing as missing:
        what = f"{side.name}: {missing}; it printed last: {launch.last_words(output.log)}"
        if side.name == BASE:
            raise Refusal(f"{what}; --metric and --figure name what the command prints or writes") from None
        raise SideEndedError(side.name, Verdict.FAILED, f"{what}; the base gives '{metric.name}'") from None
    reason = ""
    if bad := [value for value in values if not math.isfinite(value)]:
        reason = f"is {bad[0]} ({len(bad)} of {len(values)} values)"
    elif positive and metric.value(values) <= 0:
        reason = f"is {metric.value(values):g}, and only what is above 0 can be compared as a ratio"
    if reason:
        raise SideEndedError(side.name, Verdict.FAILED, f"{side.name}: '{metric.name}' {reason}")
    return values


def run_command_gate(request: CommandGateRequest) -> int:
    """Compare two launches of a command, many times, and return the exit code of the contracts."""
    stack = stacks.load(request.stack) if request.stack else _host()
    with tempfile.TemporaryDirectory(prefix="stackproof-gate-") as home, checkouts(Path(home)) as lay:
        sides = _sides(request, lay)
        line = launch.shown(request.words)
        what = f"{line}: {sides[1].label} against {sides[0].label}"
        record, folder, progress = gate.opened("gate", stack, request.outputs, what)
        began = time.monotonic()
        run = CommandRun(request, sides, Results(plan.load(), stack.device), folder, progress.say)
        run.compare()
    conclude(run, record)
    record.seconds = time.monotonic() - began
    timed = f"whole launches in turn, {run.results.plan.design.promise}"
    record.provenance |= {BASE: request.base.label, HEAD: request.head.label, "command": line, "pinned": False}
    record.provenance["method"] = gate.EXACT if request.exact else timed
    return gate.finish(record, folder, request, progress.console)


def _host() -> stacks.Stack:
    try:
        return hosts.preferred().stack
    except Refusal as refusal:
        raise StackUnavailableError(f"{refusal}; or name one with --stack") from refusal


def _sides(request: CommandGateRequest, lay: Callable[[str], Path]) -> tuple[Variant, Variant]:
    """Return base and head, each in its folder."""
    base, head = (
        replace(side, folder=lay(side.commit)) if side.commit else side for side in (request.base, request.head)
    )
    if (base.folder, base.environment) == (head.folder, head.environment) and not request.same:
        raise Refusal(
            "both sides are the same command in the same folder; name what differs: --base-dir A --head-dir B, --base REF, "
            "or --head-env NAME=VALUE (or --same to see how much noise there is)"
        )
    return base, head


def conclude(run: CommandRun, record: Record) -> None:
    """Add a check for each metric, figure and counter, and one that says what was not verified; give the record its verdict."""
    unverified, cells = _unverified({name: word for name, word, _ in _figures(run)}), run.results.cells
    checks = [*_exact(run), *_metrics(run), compared("run", VERIFIED, Verdict.NOT_APPLICABLE, unverified)]
    due = {metric.name: cells.get(Cell(SUBJECT, metric.name, 0.0).name) for metric in run.request.metrics}
    gate.give_verdict(record, run.results, checks, None if run.request.exact else due, what="metric")
    if run.pairs:
        record.measurements += [_row(run, side, metric) for metric in run.request.metrics for side in (BASE, HEAD)]
    record.provenance[VERIFIED] = unverified


def _exact(run: CommandRun) -> Iterator[Check]:
    """Yield what needs no statistics: counters, figures, and how many values there are."""
    yield from gate.exact_checks(run.results, run.request.accept_changed)
    if run.uncounted:
        yield compared(SUBJECT, "counters", Verdict.NOT_APPLICABLE, run.uncounted)
    for name, word, reason in (*_figures(run), *_amounts(run)):
        yield gate.exactly(SUBJECT, name, word, reason, run.request.accept_changed)


def _metrics(run: CommandRun) -> Iterator[Check]:
    by_name = {metric.name: metric for metric in run.request.metrics}
    for cell in run.results.cells.values():
        check = gate.check_of(cell)
        if metric := by_name.get(cell.what):
            better = "higher" if metric.higher else "lower"
            base, head = (median(run.seen(side, metric)) for side in (BASE, HEAD))
            if metric.higher and cell.ruling:
                check.reason = check.reason.replace(cell.ruling.estimate.shown, cell.ruling.estimate.turned, 1)
            check.reason += f"; {metric.name} {base:.6g} -> {head:.6g} ({better} is better)"
        yield check


def _figures(run: CommandRun) -> Iterator[tuple[str, CellWord, str]]:
    """Yield the name of each figure, the word for how both sides' values compare, and the reason."""
    if len(run.first) < 2:
        return
    names = dict.fromkeys(name for side in (BASE, HEAD) for launched in run.launches(side) for name in launched.figures)
    for name in names:
        base, head = ([launched.figures.get(name, []) for launched in run.launches(side)] for side in (BASE, HEAD))
        title = f"{name}, every value" if name in {metric.name for metric in run.request.metrics} else name
        yield title, *changed.compare_figures(base, head, run.request.within)


def _amounts(run: CommandRun) -> Iterator[tuple[str, CellWord, str]]:
    """Yield what differs in how many values of a metric there are: a run that stops early is soon ready."""
    for name in [metric.name for metric in run.request.metrics if metric.counted and len(run.first) == 2]:
        base, head = ([launched.values[name] for launched in run.launches(side)] for side in (BASE, HEAD))
        if set(map(len, base)) != set(map(len, head)):
            word, reason = changed.compare_figures(base, head)
            yield f"values of {name}", word, f"{reason}: it did not do the same work"


def _unverified(words: Mapping[str, CellWord]) -> str:
    """Say what this gate does not: whether the command computes right; no output takes it for a pass."""
    if names := [name for name, word in words.items() if word is not CellWord.NOT_JUDGED]:
        return f"{UNVERIFIED}: only {', '.join(names)} of both sides were compared, not whether either is right"
    named = "name figures such as losses with --figure to have them compared"
    why = "its figures vary by themselves" if words else named
    return f"{UNVERIFIED}: what the command computes was not looked at; {why}"


def _row(run: CommandRun, side: str, metric: Metric) -> Measurement:
    """Return a side's values: seconds, or seconds per unit of a rate; what has no unit is kept as it is."""
    values = run.seen(side, metric)
    unit = "s" if metric.kind in ("time", "steps") else "1"
    if metric.kind == "rate":
        values, unit = [1 / value for value in values], f"s/{metric.name.removesuffix('/s')}"
    facts: dict[str, Figure] = {"side": side, "better": "higher" if metric.higher else "lower"}
    device = f"a command, {side}"
    return Measurement(SUBJECT, "full", "", 1, metric.name, unit, median(values), values, device, "", facts)

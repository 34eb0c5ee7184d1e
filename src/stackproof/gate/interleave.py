"""Two live sides of a gate, and one launch of them: for each subject blocks of steps in turn, A B B A; and the conditions of all launches.

A side is a process that answers within its deadline, or is ended and called hung or crashed.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

from stackproof.base import processes, rpc
from stackproof.base.errors import EnvironmentMismatchError, Refusal, StackUnavailableError
from stackproof.gate import changed
from stackproof.gate.plan import RANKED, Condition, GatePlan
from stackproof.jobs.launch import CommandEnd
from stackproof.jobs.launch import run as launch_command
from stackproof.record.records import Verdict

_START_S = 180.0
_GRACE_S = 2.0
"""At its deadline a side writes down where it is; that is worth waiting for."""
_REFUSALS = {kind.exit_code: kind for kind in (Refusal, StackUnavailableError, EnvironmentMismatchError)}
Answer = rpc.Message
SideOf = TypeVar("SideOf")
Gained = TypeVar("Gained")


class SideEndedError(Exception):
    """A side gave no answer that can be used: it computes wrong, crashed or hung; the message says which and where."""

    def __init__(self, side: str, verdict: Verdict, reason: str) -> None:
        super().__init__(reason)
        self.side, self.verdict = side, verdict

    @property
    def gone(self) -> bool:
        """Whether the process itself is no more."""
        return self.verdict in (Verdict.HUNG, Verdict.CRASHED)


class OutOfTimeError(Exception):
    """The time of the whole comparison was over before a side answered; the message says in what."""


def all_or_gravest(tries: Mapping[SideOf, Callable[[], Gained]]) -> dict[SideOf, Gained]:
    """Return what each side gives, all of which are waited for, or an answer would be taken for the next one's.

    Raises:
        SideEndedError: a process that is gone, else a wrong result; where all are still there, it is both sides' end.
    """
    gains: dict[SideOf, Gained] = {}
    ended: list[SideEndedError] = []
    for side, attempt in tries.items():
        try:
            gains[side] = attempt()
        except SideEndedError as error:
            ended.append(error)
    if ended:
        worst = max(ended, key=lambda error: (error.gone, error.verdict is Verdict.FAILED))
        worst.side = "both" if len(ended) > 1 and not worst.gone else worst.side
        raise worst
    return gains


@dataclass(frozen=True)
class SideSpec:
    """Where a side runs: its name, its interpreter, what is put into its environment, and its arguments."""

    name: str
    python: Path
    source: Path
    """The folder that holds this side's `stackproof`."""
    environment: Mapping[str, str]
    stack: str
    rehearsed: bool
    profile: str
    device: str
    drill: str = ""
    """A fault that is planted on this side, to try the gate itself."""
    backend: str = ""
    """What ranks talk over; empty for the stack's own."""
    proof: str = "unpinned"
    """What was proved of the environment, in one sentence."""
    unset: tuple[str, ...] = ()
    """Variables that this side lacks and the other has: they are taken out of whatever environment one stands in."""
    folder: Path | None = None
    """Where a command of one's own runs on this side, if not where one stands."""

    def lacking(self, names: Collection[str]) -> SideSpec:
        """Return this side without those of these variables that it does not state, whatever is exported where one stands."""
        return replace(self, unset=tuple(sorted(set(names) - set(self.environment))))

    @property
    def python_path(self) -> str:
        """Its own code first; what the user has besides is the same for both."""
        rest = self.environment.get("PYTHONPATH") or os.environ.get("PYTHONPATH", "")
        return os.pathsep.join(filter(None, (str(self.source), rest)))

    def run(self, words: Sequence[str], where: Path, log: Path, seconds: float) -> CommandEnd:
        """Run a program in this side's environment, whose own programs come first, to its end or its deadline."""
        path = os.pathsep.join((str(self.python.parent), os.environ.get("PATH", os.defpath)))
        environment = {**self.environment, "PATH": path, "PYTHONPATH": self.python_path}
        return launch_command(words, where, environment, log, seconds, unset=self.unset)


class LiveSide:
    """A process that stays up between blocks; use it in a `with` block, so that it always ends."""

    def __init__(self, spec: SideSpec, log: Path, run: str, scale: float = 1.0, until: float = math.inf) -> None:
        """Start it; whatever it prints goes to the log.

        `run`: the mark of the gate, which both sides carry so that neither takes the other for a stranger; `scale`: what deadlines are
        multiplied by; `until`: when it may take no longer, whatever the deadline (`time.monotonic`).
        """
        self.spec, self._log, self._scale, self._until = spec, log, scale, until
        self._mark, self._run = processes.new_mark(), run
        self._waits: tuple[str, float] = ("start-up", _START_S * scale)
        reading, writing = os.pipe()
        arguments = {
            "name": spec.name, "stack": spec.stack, "rehearsed": spec.rehearsed, "profile": spec.profile, "device": spec.device,
            "drill": spec.drill, "backend": spec.backend, "began": time.time(),
        }  # fmt: skip
        command = [str(spec.python), "-m", "stackproof.gate.side", str(writing), json.dumps(arguments)]
        with log.open("ab") as output:
            self._process = processes.start(
                command, output, {**spec.environment, "PYTHONPATH": spec.python_path}, f"{run}/{self._mark}".lstrip("/"),
                pass_fds=(writing,), cwd=str(log.parent), unset=spec.unset, asked=True,
            )  # fmt: skip
        os.close(writing)
        assert self._process.stdin is not None
        self._reading, self._channel = reading, rpc.Channel(reading, self._process.stdin.fileno())

    def ask(self, request: str, deadline_s: float, **arguments: Any) -> Answer:
        """Return the answer to one request; raises as `receive` does."""
        self.send(request, deadline_s, **arguments)
        return self.receive()

    def send(self, request: str, deadline_s: float, **arguments: Any) -> None:
        """Ask without waiting, so that both sides can work at once; `receive` gives the answer."""
        self._waits = request, deadline_s * self._scale
        try:
            self._channel.send(request, deadline_s=self._waits[1], **arguments)
        except rpc.ClosedError:
            raise self._gone(request) from None

    def receive(self) -> Answer:
        """Return the answer to what was sent last, at first what the side is.

        A SideEndedError says that it computes wrong, crashed, or did not answer in time; the process is gone then, except after a wrong
        result or a missing capability, which only end the subject. An OutOfTimeError says that the whole comparison's time is over. A
        Refusal says that it did not start, for instance where there is no device.
        """
        (request, deadline_s), name, left = self._waits, self.spec.name, self._until - time.monotonic()
        try:
            fields = self._channel.receive(min(deadline_s + _GRACE_S, max(0.0, left)))
        except rpc.SilentError:
            self.end()
            if left < deadline_s + _GRACE_S:
                raise OutOfTimeError(f"'{request}' of the {name}") from None
            lines = map(str.strip, processes.last_lines(self._log, 60, of_bytes=65536))
            frame = next((f"; it was in {line}" for line in lines if line.startswith("File ")), "")
            raise SideEndedError(
                name, Verdict.HUNG, f"{name}: hung in '{request}' for {deadline_s:.0f} s{frame}"
            ) from None
        except rpc.ClosedError:
            raise self._gone(request) from None
        if "refused" in fields:
            raise _REFUSALS.get(fields["exit_code"], Refusal)(f"{name}: {fields['refused']}")
        if "verdict" in fields:
            raise SideEndedError(name, Verdict(fields["verdict"]), f"{name}: {fields['reason']}")
        return fields

    def _gone(self, request: str) -> SideEndedError:
        try:
            how = processes.describe_exit(self._process.wait(5))
        except subprocess.TimeoutExpired:
            how = "its pipe closed"
        printed = f"it printed last: {processes.last_words(self._log, 2)}"
        return SideEndedError(
            self.spec.name, Verdict.CRASHED, f"{self.spec.name}: ended with {how} in '{request}'; {printed}"
        )

    def end(self) -> None:
        """End the process and everything that it started."""
        processes.end_tree(self._mark, self._process)

    def __enter__(self) -> LiveSide:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
        os.close(self._reading)
        if self._process.stdin is not None:
            self._process.stdin.close()


_OPEN_S = 300.0
_LEAST_BLOCK_S = 60.0
_WARM_S = 3.0
_WORTH_A_WORD_S = 0.05
_FEWEST_ROUNDS = 2
_FEWEST_TO_COMPARE = 6
_BUSY = 0.1
"""From this share of the host's cores on, what others did is worth a word."""
PROCESS = "process"
"""The subject that start-up belongs to: the side itself."""
Say = Callable[[str], None]


@dataclass(frozen=True)
class LaunchTerms:
    """What holds for every launch."""

    preset: str
    plan: GatePlan
    scale: float = 1.0
    """What deadlines are multiplied by."""
    until: float = math.inf
    """When no side may take longer (`time.monotonic`)."""
    run: str = field(default_factory=processes.new_mark)
    proofs: dict[tuple[str, str], Answer] = field(default_factory=dict)
    """By side and subject, what was proved in an earlier launch, and what the proved work computed; it is paid once."""
    equal_counts: set[str] = field(default_factory=set)
    """Subjects that both sides counted alike: they are not counted again."""
    took: dict[str, float] = field(default_factory=dict)
    """By subject, the seconds that its last launch took on both sides."""

    def fits(self, subjects: Iterable[str], launches: int = 1) -> bool:
        """Whether there is time for so many launches of these, as far as their last launch tells."""
        return time.monotonic() + launches * sum(self.took.get(subject, 0.0) for subject in subjects) <= self.until

    def affordable(self, subjects: Sequence[str], launches: int) -> list[str]:
        """Return the subjects that so many launches have time for, counted from the cheapest; all where there is time for none.

        Few times that are judged say more than many that were begun.
        """
        cheapest = sorted(subjects, key=lambda subject: self.took.get(subject, 0.0))
        most = sum(self.fits([PROCESS, *cheapest[: number + 1]], launches) for number in range(len(cheapest)))
        return [subject for subject in subjects if subject in cheapest[:most]] or list(subjects)


@dataclass
class Observed:
    """One subject on one side in one launch."""

    blocks: list[float] = field(default_factory=list)
    """Seconds per run, in the order in which the blocks ran."""
    worth: dict[str, float] = field(default_factory=dict)
    quantities: dict[str, float] = field(default_factory=dict)
    units: dict[str, int] = field(default_factory=dict)
    """Units of work that all blocks did together, by name."""
    computed: Answer = field(default_factory=dict)
    """What it computes from equal seeds (`computed.fingerprint`); in the first launch only."""
    counters: dict[str, int] = field(default_factory=dict)
    proved: str = ""

    def log_ratio(self, base: Observed) -> float:
        """Return a launch's estimate of log(head / base) from its rounds A B B A, over whose median drift and neighbours cancel.

        A ValueError says that the blocks do not pair up, or that a time is not positive.
        """
        logs = [math.log(after) - math.log(before) for before, after in zip(base.blocks, self.blocks, strict=True)]
        return median([(first + second) / 2 for first, second in zip(logs[::2], logs[1::2], strict=True)])

    def compared(self, base: Observed) -> changed.Sameness:
        """Return how what it computes compares with what the base does."""
        return changed.compare(base.computed, self.computed)


@dataclass
class Launch:
    """What one launch saw: by subject, by side; and the conditions that it ran under."""

    seen: dict[str, dict[str, Observed]] = field(default_factory=dict)
    counted: bool = True
    """Whether the exact counters were asked for; where they were not, none is missing."""
    phases: dict[str, dict[str, float]] = field(default_factory=dict)
    """By subject, where the time went: seconds by what both sides were asked for."""
    late: str = ""
    """The request in which the time was over, and the subject; empty where it was not."""
    conditions: list[Answer] = field(default_factory=list)


@dataclass(frozen=True)
class Lost:
    """A subject that cannot be compared, on one side or both."""

    subject: str
    side: str
    verdict: Verdict
    reason: str


@dataclass
class Conditions:
    """Readings of all launches, in order."""

    rules: tuple[Condition, ...]
    readings: list[Mapping[str, float]] = field(default_factory=list)
    throttled: Counter[str] = field(default_factory=Counter)
    others: Counter[str] = field(default_factory=Counter)
    loads: list[float] = field(default_factory=list)

    def add(self, answers: Sequence[Mapping[str, Any]], load: float) -> None:
        """Take over what the vendor's tool reported in one launch, and the share of the host's cores that others used."""
        self.loads.append(load)
        for answer in answers:
            reading = answer["reading"].items()
            self.readings.append({name: value for name, value in reading if isinstance(value, (int, float))})
        self.throttled.update({reason for answer in answers for reason in answer["throttled"]})
        self.others.update({other for answer in answers for other in answer["others"]})

    def sentences(self) -> list[str]:
        """Return a sentence for each thing that may have disturbed the comparison; none if nothing is known to have."""
        launches = len(self.loads)
        lines = [sentence for rule in self.rules for sentence in self._moved(rule)]
        lines += [f"throttled in {count} of {launches} launches: {reason}" for reason, count in self.throttled.items()]
        lines += [f"{other} used the card in {count} of {launches} launches" for other, count in self.others.items()]
        if busy := [load for load in self.loads if load > _BUSY]:
            lines.append(
                f"others used up to {max(busy):.0%} of the host's cores, in {len(busy)} of {launches} launches"
            )
        return lines

    def _moved(self, rule: Condition) -> list[str]:
        names = sorted({name for reading in self.readings for name in reading if rule.name in name})
        lines = []
        for name in names:
            values = [float(reading[name]) for reading in self.readings if name in reading]
            low, high = min(values), max(values)
            if (rule.share and low > 0 and high / low - 1 > rule.share) or (rule.rise and high - low > rule.rise):
                lines.append(f"the {rule.title} ({name}) moved between {low:g} and {high:g}")
        return lines


def handshake(specs: Sequence[SideSpec], terms: LaunchTerms, folder: Path) -> dict[str, Answer]:
    """Start each side once and return what it says of itself, by side."""
    with ExitStack() as stack:
        sides = _start(specs, terms, folder, stack)
        return {side.spec.name: side.receive() for side in sides}


def launch(
    specs: Sequence[SideSpec], subjects: Sequence[str], terms: LaunchTerms, number: int, folder: Path, say: Say
) -> tuple[Launch, list[Lost]]:
    """Start the sides for the launch of this number, duel over every subject, and end them.

    A subject that one side cannot run, or computes wrong, is lost and the others go on; a side that dies is
    started again, because one crash must not hide what the other subjects show. One that will not fit into the time is not begun.
    """
    result, lost, left = Launch(counted=number < terms.plan.count.launches), list[Lost](), list(subjects)
    try:
        while left or PROCESS not in result.seen:
            with ExitStack() as stack:
                sides = _start(specs, terms, folder, stack)
                with _timed(result, PROCESS, "start-up"):
                    hello = {side.spec.name: side.receive() for side in sides}
                if PROCESS not in result.seen:  # what the first start of a launch took is its start-up
                    terms.took[PROCESS] = result.phases[PROCESS]["start-up"]
                    say(_where_time_went(PROCESS, result))
                    for name, row in hello.items():
                        started = {"start-up": float(row["start_up"]), "start-up-memory": float(row["memory"])}
                        result.seen.setdefault(PROCESS, {})[name] = Observed(quantities=started)
                while left:
                    subject = left.pop(0)
                    if not terms.fits([subject]):
                        continue
                    try:
                        _interleaved(sides, subject, terms, result, number)
                    except SideEndedError as ended:
                        result.seen.pop(subject, None)
                        lost.append(Lost(subject, ended.side, ended.verdict, str(ended)))
                        if ended.gone or not _closed(sides):
                            break
                    finally:
                        say(_where_time_went(subject, result))
    except OutOfTimeError as ended:
        result.late = str(ended)
    return result, lost


def _where_time_went(subject: str, result: Launch) -> str:
    phases = result.phases[subject]
    shown = ", ".join(f"{phase} {seconds:.1f}" for phase, seconds in phases.items() if seconds >= _WORTH_A_WORD_S)
    return f"{subject}, {sum(phases.values()):.1f} s" + (f": {shown}" if shown else "")


def _start(specs: Sequence[SideSpec], terms: LaunchTerms, folder: Path, stack: ExitStack) -> list[LiveSide]:
    folder.mkdir(parents=True, exist_ok=True)
    common = terms.run, terms.scale, terms.until
    return [stack.enter_context(LiveSide(spec, folder / f"{spec.name}.log", *common)) for spec in specs]


@contextmanager
def _timed(result: Launch, subject: str, phase: str) -> Iterator[None]:
    phases, began = result.phases.setdefault(subject, {}), time.monotonic()
    try:
        yield
    finally:
        phases[phase] = phases.get(phase, 0.0) + time.monotonic() - began


def _interleaved(sides: Sequence[LiveSide], subject: str, terms: LaunchTerms, result: Launch, number: int) -> None:
    """Prove and warm, then alternate blocks; both are open all the time, so that only one thing differs: the turn.

    Every second launch is the mirror image: a card that meets its power limit at a certain block would slow the same side each time.
    Equal products in bfloat16 on an H200 were 1 % apart by that, in four gates of four. What is seen is put into the launch as soon as
    it is known: what is exact counts also where the time is over before the blocks are.
    """
    order, plan = turns(sides, number), terms.plan
    with _timed(result, subject, "proof"):
        for side in sides:
            earlier = terms.proofs.get((side.spec.name, subject))
            side.send("open", _OPEN_S, subject=subject, preset=terms.preset, earlier=earlier)
        opened = all_or_gravest({side: side.receive for side in sides})
    seen = {side: Observed(worth=opened[side]["worth"], proved=str(opened[side]["proved"])) for side in sides}
    if number == 0 and len(sides) > 1:
        with _timed(result, subject, "comparison"):
            _compute(sides, subject, terms, seen)
    result.seen[subject] = {side.spec.name: seen[side] for side in sides}
    with _timed(result, subject, "warm-up"):
        warm = _warm(order, plan.asked.get(subject, {}).get("kind") in RANKED)
        took = max(values["seconds"] for values in warm.values())
        deadline = _LEAST_BLOCK_S + 20 * max(plan.design.block_seconds, took)
        result.conditions.append(sides[0].ask("conditions", deadline + _LEAST_BLOCK_S))
    with _timed(result, subject, "blocks"):
        few = max(1, round(plan.design.block_seconds / took))  # the device alone; no samples, some follow a pause
        took = max(float(side.ask("block", deadline, runs=few, core=number)["seconds"]) for side in order)
        runs = max(1, round(plan.design.block_seconds / took))
        rounds = min(plan.design.rounds, max(_FEWEST_ROUNDS, int(plan.design.subject_seconds / (4 * runs * took))))
        blocks = _blocks(order, rounds, runs, deadline, number)
        done = {side: side.ask("done", deadline) for side in sides}
        result.conditions.append(sides[0].ask("conditions", deadline + _LEAST_BLOCK_S))
    counters: dict[LiveSide, dict[str, int]] = {side: {} for side in sides}
    if result.counted and subject not in terms.equal_counts:
        with _timed(result, subject, "counters"):
            counters = {side: answer["counters"] for side, answer in ask_all(sides, "count", _OPEN_S).items()}
        if len(sides) > 1 and all(counter == counters[sides[0]] for counter in counters.values()):
            terms.equal_counts.add(subject)
    for side, observed in seen.items():
        observed.blocks = [float(block["seconds"]) for block in blocks[side]]
        each = [float(seconds) for block in blocks[side] for seconds in block.get("each", ())]  # of single runs
        fields: Answer = {**warm[side], **done[side], **unevenness(each)}
        observed.quantities = {name: float(fields[name]) for name in plan.quantities if name in fields}
        observed.units, observed.counters = done[side].get("units", {}), counters[side]
    with _timed(result, subject, "proof after"):
        ask_all(sides, "conclude", deadline)
    phases = result.phases[subject]
    proved = number == 0 and (sides[0].spec.name, subject) in terms.proofs
    once = ("comparison", "counters", "proof" if proved else "")
    terms.took[subject] = sum(seconds for phase, seconds in phases.items() if phase not in once)


def _compute(sides: Sequence[LiveSide], subject: str, terms: LaunchTerms, seen: Mapping[LiveSide, Observed]) -> None:
    """Ask what both compute from equal seeds; what the proved work itself gave is the proof of later launches."""
    for side, fields in ask_all(sides, "compute", _OPEN_S).items():  # ranks say nothing
        seen[side].computed = fields
        if timed := fields.get("groups", {}).get("timed"):
            proof = {"proved": seen[side].proved, "dtype": fields["dtype"], "timed": timed}
            terms.proofs[side.spec.name, subject] = proof


def unevenness(each: Sequence[float]) -> Answer:
    """Return how much longer the slowest third of the runs is than the median: a step that is slow now and then hides in no mean here."""
    if len(each) < _FEWEST_TO_COMPARE:
        return {}
    slowest = sorted(each)[-(len(each) // 3) :]
    return {"slow-steps": sum(slowest) / len(slowest) / median(each)}


def _warm(sides: Sequence[LiveSide], ranks: bool) -> dict[LiveSide, Answer]:
    """Let all warm up at once, but for ranks, which would wait for cores, and for a drill, which adds to the seconds of a run alone."""
    if ranks or any(side.spec.drill for side in sides):
        return {side: side.ask("warm", _OPEN_S, seconds=_WARM_S) for side in sides}
    return ask_all(sides, "warm", _OPEN_S, seconds=_WARM_S)


def turns(sides: Sequence[SideOf], number: int) -> Sequence[SideOf]:
    """Return the sides in the order of a launch or a round: every second one is the mirror image."""
    return sides if number % 2 == 0 else tuple(reversed(sides))


def _blocks(
    sides: Sequence[LiveSide], rounds: int, runs: int, deadline: float, core: int
) -> dict[LiveSide, list[Answer]]:
    """Return the answers of the blocks of each side: A B B A and then B A A B, or of one side alone as many of its own.

    A card at its power limit is fastest in the first block after a pause; no side may have that one always.
    """
    blocks: dict[LiveSide, list[Answer]] = {side: [] for side in sides}
    for number in range(rounds):
        order = turns(sides, number)
        for side in (*order, *reversed(order)):
            blocks[side].append(side.ask("block", deadline, runs=runs, core=core))
    return blocks


def ask_all(sides: Sequence[LiveSide], request: str, deadline: float, **arguments: object) -> dict[LiveSide, Answer]:
    """Let all sides work on one request at once, which nobody times, or both under the same load."""
    for side in sides:
        side.send(request, deadline, **arguments)
    return all_or_gravest({side: side.receive for side in sides})


def _closed(sides: Sequence[LiveSide]) -> bool:
    try:
        return bool(ask_all(sides, "close", _LEAST_BLOCK_S))
    except SideEndedError:
        return False

"""What a host does in a sweep: doctor, environment, smoke, then each card in its own process; one record goes to a shared folder."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from stackproof.api.base import Refusal, files, processes, text
from stackproof.api.environment import environment_proof
from stackproof.api.record import Check, Figure, Record, Verdict, reading, writer
from stackproof.api.stack import hosts, provenance, stacks
from stackproof.extras import verbs
from stackproof.extras.fleet import answers, plan
from stackproof.extras.fleet.plan import FleetPlan

_COUNT, _TURN, _GONE = "cards", "turn", "gone"


def card_count(folder: Path) -> int:
    """Return how many cards the first one has found; 0 as long as it has not said so."""
    try:
        return int((folder / _COUNT).read_text(encoding="ascii"))
    except (OSError, ValueError):
        return 0


def announce_end(folder: Path, card: int) -> None:
    """Say that a card's process has ended, however it did."""
    with contextlib.suppress(OSError):
        (folder / f"{_GONE}.{card}").touch()


@dataclass
class CardTurns:
    folder: Path
    card: int
    count: int
    patience_s: float
    _absent: set[int] = field(default_factory=set)

    def announce(self) -> None:
        """Say how many cards there are, so that the others are started."""
        files.write_atomically(self.folder / _COUNT, str(self.count))

    def meet(self, point: str) -> None:
        (self.folder / f"{point}.{self.card}").touch()
        until = time.monotonic() + self.patience_s
        while self._missing(point) and time.monotonic() < until:
            time.sleep(_POLL_S)
        self._absent |= self._missing(point)

    def _missing(self, point: str) -> set[int]:
        return {
            card for card in set(range(self.count)) - self._absent
            if not (self.folder / f"{point}.{card}").exists() and not (self.folder / f"{_GONE}.{card}").exists()
        }  # fmt: skip

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        """Be the only one that measures what shares the host."""
        with files.lock(self.folder / _TURN, self.patience_s) or contextlib.nullcontext():
            yield


Say = Callable[[str], None]
_POLL_S = 0.1


@dataclass(frozen=True)
class CardOrder:
    plan: FleetPlan
    folder: Path
    host: str
    scale: float = 1.0

    @property
    def stack(self) -> stacks.Stack:
        return stacks.load(self.plan.stack)

    @property
    def path(self) -> Path:
        return answers.record_path(self.folder, self.host)

    def child(self, card: int, out: Path) -> list[str]:
        """Return the command that works on one card; where it writes, all cards of the host meet."""
        asked = {
            "stack": self.plan.stack, "card": card, "profile": self.plan.profile, "out": str(out), "turns": str(out.parent),
            "without": self.plan.without,
        }  # fmt: skip
        return [sys.executable, "-m", "stackproof.extras.fleet.work", json.dumps(asked)]


def answered(order: CardOrder) -> bool:
    """Whether this host has answered already, as one whose job was started again may have; one that lacked its driver has not."""
    try:
        return answers.read(order.path, order.host, order.plan).record.verdict is not Verdict.UNAVAILABLE
    except Refusal:
        return False


@dataclass
class HostWork:
    """A host at work; logs lie on this host while it works, and only their end goes into the record."""

    order: CardOrder
    say: Say
    record: Record = field(init=False)
    _home: Path = field(init=False)
    _mark: str = field(default_factory=processes.new_mark)

    def __post_init__(self) -> None:
        os.environ.update(defaults(self.order.stack))
        os.environ[processes.MARK] = f"{os.environ.get(processes.MARK, '')}/{self._mark}".lstrip("/")
        self.record = writer.begin(plan.VERB, self.order.stack.name)

    def take(self) -> Record:
        """Do all of it and return the record; what goes wrong is in it."""
        began, order = time.monotonic(), self.order
        own = {"host": order.host, "profile": order.plan.profile, "plan": order.plan.id}
        self.record.provenance = {**provenance.host_facts(order.stack), **own, **set_facts()}
        try:
            with tempfile.TemporaryDirectory(prefix="stackproof-fleet-", ignore_cleanup_errors=True) as home:
                self._home = Path(home)
                if self._established():
                    self._work()
        except KeyboardInterrupt:
            self._add(Check("host", Verdict.INTERRUPTED, "interrupted from outside", 0.0))
        self.record.seconds = time.monotonic() - began
        self.record.verdict = self.record.overall
        return self.record

    def _established(self) -> bool:
        """Whether the host has the stack, and the environment is its lock or said not to be one."""
        began = time.monotonic()
        try:
            hosts.require(self.order.stack)
            proof = environment_proof.prove(self.order.stack)
        except Refusal as refusal:
            if (word := verbs.VERDICTS.get(refusal.exit_code)) is None:
                raise
            self._add(Check("environment", word, str(refusal), time.monotonic() - began))
            return False
        self.record.provenance |= provenance.proof_facts(proof)
        self._add(Check("environment", Verdict.PASSED, proof.sentence(self.order.stack), time.monotonic() - began))
        return True

    def _work(self) -> None:
        for name, stage in (("doctor", lambda: verbs.doctor(self.order.stack.name)), ("smoke", self._smoke)):
            if name in self.order.plan.without:
                self._add(Check(name, Verdict.SKIPPED, "left out by the plan", 0.0))
            else:
                self._stage(name, stage)
        self._cards()

    def _cards(self) -> None:
        with ThreadPoolExecutor(plan.table().limits.cards) as pool:
            try:
                works = [pool.submit(self._card, 0)]
                works += [pool.submit(self._card, card) for card in range(1, self._counted(works[0]))]
                for work in works:
                    self._take_over(work.result())
            except KeyboardInterrupt:
                processes.end_tree(self._mark)
                raise

    def _counted(self, first: Future[Record | Check]) -> int:
        while not first.done() and not card_count(self._home):
            time.sleep(_POLL_S)
        return min(card_count(self._home), plan.table().limits.cards)

    def _take_over(self, left: Record | Check) -> None:
        """Take over what a card's process left: its record, the card's own check last; or how it ended, where it left none."""
        if isinstance(left, Check):
            self._add(left)
            return
        self.record.checks += left.checks[:-1]
        self.record.measurements += left.measurements
        self.record.provenance |= left.provenance
        self._add(left.checks[-1])

    def _stage(self, name: str, stage: Callable[[], verbs.StageOutcome]) -> None:
        self.say(f"{name} ...")
        began = time.monotonic()
        ended = stage()
        self._add(Check(name, ended.verdict, ended.reason, time.monotonic() - began, dict(ended.figures)))

    def _add(self, check: Check) -> None:
        self.record.checks.append(check)
        self.say(f"{check.id}: {check.verdict.value}: {text.plain(check.reason, 600, lines=False)}")

    def _smoke(self) -> verbs.StageOutcome:
        words = ["smoke", "--stack", self.order.stack.name, "--results", str(self._home)]
        words += ["--deadline-scale", str(self.order.scale)] if self.order.scale != 1 else []
        return verbs.call(words, self._home / "smoke.log", self._deadline)

    @property
    def _deadline(self) -> float:
        return 60 * plan.profile(self.order.plan.profile).deadline * self.order.scale

    def _card(self, card: int) -> Record | Check:
        out, log, began = self._home / f"card-{card}.json", self._home / f"card-{card}.log", time.monotonic()
        self.say(f"card/{card} ...")
        code = verbs.run(self.order.child(card, out), log, self._deadline)
        announce_end(self._home, card)
        if code == 0:
            return reading.read(out)
        how, verdict = f"did not end in {self._deadline / 60:.0f} minutes", Verdict.HUNG
        if code is not None:
            how, verdict = f"ended with {processes.describe_exit(code)}", Verdict.CRASHED
        return Check(
            f"card/{card}", verdict, f"{how}; {verbs.last(log)}", time.monotonic() - began, {"card": str(card)}
        )


def defaults(stack: stacks.Stack) -> dict[str, str]:
    """Return what processes of the stack are started with, where the user has set nothing."""
    own = {name: value for name, value in plan.table().environment.items() if name not in os.environ}
    return {**own, **stack.process_environment()}


def set_facts() -> dict[str, Figure]:
    """Return what is set of the host's clocks, as far as it tells."""
    facts: dict[str, Figure] = {}
    for path in map(Path, plan.table().state.files):
        try:
            facts[f"set.{path.name}"] = path.read_text(encoding="ascii", errors="replace").strip()[:80]
        except OSError:
            continue
    return facts

"""A duel: a suspect beside healthy hosts, turn by turn, until what was suspected is confirmed or refuted; nobody is drained before.

Only what both sides have measured or computed confirms: a side that goes away, or says what cannot be, leaves it undecided.
"""

from __future__ import annotations

import contextlib
import math
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path

from stackproof.base import processes
from stackproof.base.errors import Refusal
from stackproof.base.files import write_atomically
from stackproof.base.text import counted, plain
from stackproof.extras.fleet import answers, duels, rules, ruling
from stackproof.extras.fleet.answers import HostAnswer
from stackproof.extras.fleet.bout import Bout
from stackproof.extras.fleet.far import FarSide, LeftOpenError, SideLostError
from stackproof.extras.fleet.judgement import FleetFinding, FleetJudgement, GroupTold, HostStanding, Standing
from stackproof.extras.fleet.launcher import Launcher
from stackproof.extras.fleet.rules import DuelRules
from stackproof.record import records, writer
from stackproof.record.records import Check, Record, Verdict

_LOGS, _LOG_LINES, _LOG_BYTES = "logs", 400, 1 << 16
Say = Callable[[str], None]


@dataclass(frozen=True)
class Challenge:
    """One suspect with what it is suspected of, and healthy hosts of its group, the nearest to the middle first."""

    host: HostStanding
    findings: tuple[FleetFinding, ...]
    partners: tuple[str, ...]


def challenges(found: FleetJudgement, planned: Sequence[str], suspects: Sequence[HostStanding]) -> Iterator[Challenge]:
    """Yield whom to put beside whom; only hosts of the plan take part, since commands are made from nothing else.

    Partners are of the suspect's group, which is of one state; a suspect may have none.
    """
    innocent = (Standing.PROVED, Standing.UNDECIDED)
    healthy = {one.host for one in found.hosts if one.standing in innocent and not one.findings} & set(planned)
    groups = {group.name: group for group in found.groups}
    for host in suspects:
        open_ = tuple(one for one in host.findings if one.duel == "open")
        if host.host in planned and open_:
            partners = _partners(groups[host.group], open_[0].subject, healthy) if host.group in groups else ()
            yield Challenge(host, open_, partners)


def _partners(group: GroupTold, subject: str, healthy: set[str]) -> tuple[str, ...]:
    """Return healthy hosts, those first that are nearest to the median where the suspect is odd; too few come again."""
    ratios = next((strip.ratios for strip in group.strips if strip.subject == subject), (1.0,) * len(group.cards))
    near: dict[str, float] = {}
    for card, ratio in zip(group.cards, ratios, strict=False):
        name = card.partition(":")[0]
        if name in healthy and ratio > 0:
            near[name] = min(abs(math.log(ratio)), near.get(name, math.inf))
    ranked = sorted(near, key=lambda name: (near[name], name))
    return tuple(ranked[number % len(ranked)] for number in range(rules.load().duel.partners)) if ranked else ()


@dataclass
class Duel:
    """One challenge under way, in the folder of its sweep: what is decided, and why the rest is not."""

    challenge: Challenge
    launcher: Launcher
    folder: Path
    say: Say
    plan: str = ""
    terms: DuelRules = field(default_factory=lambda: rules.load().duel)
    record: Record = field(init=False)
    _ratios: dict[FleetFinding, list[float]] = field(default_factory=dict)
    _why: dict[FleetFinding, str] = field(default_factory=dict)
    _pending: list[FleetFinding] = field(init=False)

    def __post_init__(self) -> None:
        told = self._answer(self.host)
        facts = {"host": self.host, "plan": self.plan, **({duels.SWEPT: told.began} if told else {})}
        self.record = writer.begin(duels.VERB, self.launcher.stack, facts)
        self._pending = list(self.challenge.findings)

    @property
    def host(self) -> str:
        """The suspect."""
        return self.challenge.host.host

    def fight(self) -> Record:
        """Stand beside one partner after the other until all is decided; where it is broken off, the record says so."""
        began, left = time.monotonic(), Verdict.INTERRUPTED
        try:
            with tempfile.TemporaryDirectory(prefix="stackproof-duel-") as logs:
                for card in sorted({one.card for one in self.challenge.findings}):
                    if not self._beside_all(card, Path(logs)):
                        break
            left = Verdict.INCONCLUSIVE
        finally:
            self._leave_open(left)
            self.record.seconds = time.monotonic() - began
            self.record.verdict = records.overall(check.verdict for check in self.record.checks)
        return self.record

    def _leave_open(self, verdict: Verdict) -> None:
        broken = "interrupted before it was decided"
        nobody = "" if self.challenge.partners else "no healthy host of its state is in the plan to stand beside it"
        for finding in list(self._pending):
            why = nobody or self._why.get(finding, "its partners do not agree")
            self._settle(finding, verdict, broken if verdict is Verdict.INTERRUPTED else f"not decided: {why}")

    def _beside_all(self, card: str, logs: Path) -> bool:
        """Return whether the suspect is still there; a partner that is lost is left for the next."""
        for number, partner in enumerate(self.challenge.partners, 1):
            mine = [one for one in self._pending if one.card == card]
            if not mine:
                break
            self.say(f"{self.host} beside {partner}, {number} of {len(self.challenge.partners)}")
            if self._beside(partner, card, mine, number == len(self.challenge.partners), logs) == self.host:
                return False
        return True

    def _beside(self, partner: str, card: str, mine: Sequence[FleetFinding], last: bool, logs: Path) -> str:
        """Return which of both was lost; an empty word for none."""
        bout: Bout | None = None
        try:
            with contextlib.ExitStack() as stack:
                suspect = stack.enter_context(FarSide(self.launcher, self.host, card, logs / f"{self.host}.log"))
                healthy = stack.enter_context(FarSide(self.launcher, partner, "0", logs / f"{partner}.log"))
                bout = Bout(suspect, healthy, self.terms, self.launcher.profile)
                if differs := bout.meet():
                    self._open(mine, f"{partner} and {self.host} are of different states now: {differs}")
                    return ""
                for finding in mine:
                    self._look(finding, bout, last)
        except SideLostError as lost:
            turns = counted(bout.turns if bout else 0, "turn")
            self._open(mine, f"{lost} after {turns} beside {partner}; its log {self._kept_log(lost.host, logs)}")
            return lost.host
        return ""

    def _open(self, mine: Sequence[FleetFinding], why: str) -> None:
        self.say(why)
        self._why |= dict.fromkeys(mine, why)

    def _kept_log(self, host: str, logs: Path) -> str:
        """Keep the end of what a side has printed, which is no word of ours, and say where."""
        path = self.folder / _LOGS / f"duel-{host}.log"
        lines = processes.last_lines(logs / f"{host}.log", _LOG_LINES, _LOG_BYTES)
        try:
            path.parent.mkdir(exist_ok=True)
            path.unlink(missing_ok=True)  # never through a link, nor into a pipe
            write_atomically(path, "".join(f"{plain(line, lines=False)}\n" for line in lines))
        except OSError as error:
            return f"could not be kept ({error.strerror})"
        return f"is {_LOGS}/{path.name}"

    def _look(self, finding: FleetFinding, bout: Bout, last: bool) -> None:
        try:
            if finding.standing is Standing.WRONG:
                self._compute(finding, bout)
            else:
                self._time(finding, bout, last)
        except LeftOpenError as open_:
            self._open([finding], str(open_))

    def _compute(self, finding: FleetFinding, bout: Bout) -> None:
        """Let both replay what the suspect was odd in."""
        kernel, _, pattern = finding.subject.partition(" ")
        if not pattern:
            raise LeftOpenError("no replay shows it; run `smoke` on the host")
        own, other = bout.replayed(kernel, pattern)
        partner = bout.healthy.host
        if other.odd or other.digest != self._recorded(partner, finding.subject):
            raise LeftOpenError(f"{partner} looked healthy, and computes other than in the sweep itself")
        if own.odd:
            said = f"{own.odd} of {own.products} products differ again, none of {other.products} beside it"
            self._settle(finding, Verdict.FAILED, f"transient: {said}")
        elif own.digest != other.digest:
            said = f"{own.products} products differ from those of {partner}, which are as in the sweep"
            self._settle(finding, Verdict.FAILED, f"persistent: {said}")
        else:
            said = f"seen in the sweep, and not again in {own.products} products"
            self._settle(finding, Verdict.INCONCLUSIVE, said)

    def _recorded(self, partner: str, row: str) -> str:
        """Return what a partner's own record says, which is what the majority said; nothing where it says nothing."""
        told = self._answer(partner)
        return next((card.replayed[row].digest for card in told.cards if row in card.replayed), "") if told else ""

    def _answer(self, host: str) -> HostAnswer | None:
        with contextlib.suppress(Refusal):
            return answers.read(answers.record_path(self.folder, host), host)
        return None

    def _time(self, finding: FleetFinding, bout: Bout, last: bool) -> None:
        """Take turns in one subject, and judge all turns until now."""
        ratios = self._ratios.setdefault(finding, [])
        ratios += bout.timed(finding.subject)
        said = ruling.ruled(ratios, self.terms, last)
        self.say(f"{finding.subject}: {said.said}")
        if said.verdict is Verdict.INCONCLUSIVE:
            self._why[finding] = said.said
        else:
            self._settle(finding, said.verdict, f"{said.said}, last with {bout.healthy.host}")

    def _settle(self, finding: FleetFinding, verdict: Verdict, said: str) -> None:
        figures = {"host": self.host, "card": finding.card, "of": finding.subject}
        name = f"duel/{self.host}::{finding.subject}[{finding.card}]"
        self.record.checks.append(Check(name, verdict, said, 0.0, dict(figures), subject=finding.subject))
        self._pending = [one for one in self._pending if one != finding]


def keep(record: Record, folder: Path) -> Path:
    """Write what a duel said into the folder of its sweep."""
    began = datetime.now(timezone.utc).strftime("%Y%m%dT%H%M%S")
    path = prepared(folder) / f"{began}-{record.provenance['host']}.json"
    return writer.keep(record, path)


def prepared(folder: Path) -> Path:
    """Return the folder in which duels are kept, made if it is not there.

    Raises:
        Refusal: nothing can be kept there.
    """
    path = folder / duels.FOLDER
    try:
        path.mkdir(exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            return path
    except OSError as error:
        raise Refusal(
            f"{path}: nothing can be kept there ({error.strerror}); make it a folder that can be written"
        ) from error

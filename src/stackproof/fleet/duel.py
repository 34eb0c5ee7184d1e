"""A duel: a suspect beside healthy hosts, turn by turn, until what was suspected is confirmed or refuted; nobody is drained before."""

from __future__ import annotations

import contextlib
import math
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path

from stackproof.base.errors import Refusal
from stackproof.fleet import duels, rules, ruling
from stackproof.fleet.far import FarSide, Launcher
from stackproof.fleet.judgement import FleetFinding, FleetJudgement, GroupTold, HostStanding, Standing
from stackproof.gate.live import Answer, LiveSide, SideEndedError
from stackproof.record import records, writer
from stackproof.record.records import Check, Record, Verdict

_OPEN_S, _WARM_S, _LEAST_BLOCK_S = 300.0, 3.0, 60.0
Say = Callable[[str], None]


@dataclass(frozen=True)
class Challenge:
    """One suspect with what it is suspected of, and healthy hosts of its group, the nearest to the middle first."""

    host: HostStanding
    findings: tuple[FleetFinding, ...]
    partners: tuple[str, ...]


def challenges(found: FleetJudgement, planned: Sequence[str], suspects: Sequence[HostStanding]) -> Iterator[Challenge]:
    """Yield whom to put beside whom; only hosts of the plan take part, since commands are made from nothing else.

    Raises:
        Refusal: a suspect has no healthy host of its group.
    """
    innocent = (Standing.PROVED, Standing.UNDECIDED)
    healthy = {one.host for one in found.hosts if one.standing in innocent and not one.findings} & set(planned)
    groups = {group.name: group for group in found.groups}
    for host in suspects:
        if host.host not in planned:
            continue
        open_ = tuple(one for one in host.findings if one.duel == "open")
        partners = _partners(groups[host.group], open_[0].subject, healthy) if host.group in groups else ()
        if not partners:
            raise Refusal(
                f"{host.host}: no host of its group is proved or undecided, and in the plan, so there is nobody healthy to stand beside it"
            )
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
    """One challenge under way: turns so far, and what is decided."""

    challenge: Challenge
    launcher: Launcher
    say: Say
    plan: str = ""
    record: Record = field(init=False)
    _ratios: dict[str, list[float]] = field(default_factory=dict)
    _pending: list[FleetFinding] = field(init=False)
    _both_up: bool = False

    def __post_init__(self) -> None:
        self.record = writer.begin(
            duels.VERB, self.launcher.stack, {"host": self.challenge.host.host, "plan": self.plan}
        )
        self._pending = list(self.challenge.findings)

    def fight(self) -> Record:
        """Stand beside one partner after the other until all is decided; a side that dies is a verdict too."""
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="stackproof-duel-") as logs:
            for card in sorted({one.card for one in self.challenge.findings}):
                self._beside_all(card, Path(logs))
        for finding in self._pending:
            self._settle(finding, Verdict.INCONCLUSIVE, "could not be decided")
        self.record.seconds = time.monotonic() - began
        self.record.verdict = records.overall(check.verdict for check in self.record.checks)
        return self.record

    def _beside_all(self, card: str, logs: Path) -> None:
        for number, partner in enumerate(self.challenge.partners, 1):
            mine = [one for one in self._pending if one.card == card]
            if not mine:
                return
            self.say(f"{self.challenge.host.host} beside {partner}, {number} of {len(self.challenge.partners)}")
            try:
                self._beside(partner, card, mine, number == len(self.challenge.partners), logs)
            except SideEndedError as ended:
                if self._ended(ended, mine):
                    return

    def _ended(self, ended: SideEndedError, mine: Sequence[FleetFinding]) -> bool:
        """Take it for a verdict if the suspect itself computes wrong or dies; a partner that fails is not healthy, and is left.

        Before both have come up it says nothing of the host: whatever starts them may be what fails.
        """
        self.say(str(ended))
        if ended.side != self.challenge.host.host:
            return False
        failed = self._both_up and ended.verdict is not Verdict.INCONCLUSIVE
        for finding in mine:
            self._settle(finding, Verdict.FAILED if failed else Verdict.INCONCLUSIVE, str(ended))
        return True

    def _beside(self, partner: str, card: str, mine: Sequence[FleetFinding], last: bool, logs: Path) -> None:
        self._both_up = False
        with contextlib.ExitStack() as stack:
            suspect = stack.enter_context(FarSide(self.launcher, self.challenge.host.host, card, logs / "suspect.log"))
            healthy = stack.enter_context(FarSide(self.launcher, partner, "0", logs / "partner.log"))
            for side in (suspect, healthy):
                side.hello()
            self._both_up = True
            for finding in mine:
                if finding.standing is Standing.WRONG:
                    self._compute(finding, suspect, healthy)
                else:
                    self._time(finding, suspect, healthy, last)

    def _compute(self, finding: FleetFinding, suspect: LiveSide, healthy: LiveSide) -> None:
        """Let both replay what the suspect was odd in."""
        kernel, _, pattern = finding.subject.partition(" ")
        if not pattern:
            self._settle(finding, Verdict.INCONCLUSIVE, "no replay shows it; run `smoke` on the host")
            return
        products = rules.load().duel.products
        told = _both(suspect, healthy, "replay", kernel=kernel, pattern=pattern, products=products)
        own, other = told
        if own["odd"]:
            said = f"transient: {own['odd']} of {own['products']} products differ again, none of {other['products']} beside it"
            self._settle(finding, Verdict.FAILED if not other["odd"] else Verdict.INCONCLUSIVE, said)
        elif own["digest"] != other["digest"]:
            self._settle(
                finding,
                Verdict.FAILED,
                f"persistent: {own['products']} products differ from those of {healthy.spec.name}",
            )
        else:
            self._settle(
                finding, Verdict.INCONCLUSIVE, f"seen in the sweep, and not again in {own['products']} products"
            )

    def _time(self, finding: FleetFinding, suspect: LiveSide, healthy: LiveSide, last: bool) -> None:
        """Take turns A B B A in one subject, and judge all turns until now."""
        terms, ratios = rules.load().duel, self._ratios.setdefault(f"{finding.card} {finding.subject}", [])
        _both(suspect, healthy, "open", subject=finding.subject, preset=self.launcher.profile)
        took = max(side.ask("warm", _OPEN_S, seconds=_WARM_S)["seconds"] for side in (suspect, healthy))
        runs = max(1, round(terms.block / took))
        deadline = _LEAST_BLOCK_S + 20 * runs * took
        ratios += [_turn(suspect, healthy, runs, deadline, number % 2 == 1) for number in range(terms.turns)]
        _both(suspect, healthy, "close")
        said = ruling.ruled(ratios, terms, last)
        self.say(f"{finding.subject}: {said.said}")
        if said.verdict is not Verdict.INCONCLUSIVE or last:
            self._settle(finding, said.verdict, f"{said.said}, last with {healthy.spec.name}")

    def _settle(self, finding: FleetFinding, verdict: Verdict, said: str) -> None:
        host = self.challenge.host.host
        figures = {"host": host, "card": finding.card, "of": finding.subject}
        name = f"duel/{host}::{finding.subject}[{finding.card}]"
        self.record.checks.append(Check(name, verdict, said, 0.0, dict(figures), subject=finding.subject))
        self._pending = [one for one in self._pending if one != finding]


def _turn(suspect: LiveSide, healthy: LiveSide, runs: int, deadline: float, mirrored: bool) -> float:
    """Return the ratio of one turn A B B A, or B A A B: drift within it cancels."""
    order = (suspect, healthy, healthy, suspect) if not mirrored else (healthy, suspect, suspect, healthy)
    logs = [
        math.log(side.ask("block", deadline, runs=runs)["seconds"]) * (1 if side is suspect else -1) for side in order
    ]
    return math.exp(sum(logs) / 2)


def _both(suspect: LiveSide, healthy: LiveSide, request: str, **arguments: object) -> list[Answer]:
    """Let both work on one request at once; both answers are taken before one that is bad is raised."""
    for side in (suspect, healthy):
        side.send(request, _OPEN_S, **arguments)
    answers, bad = list[Answer](), list[SideEndedError]()
    for side in (suspect, healthy):
        try:
            answers.append(side.receive())
        except SideEndedError as ended:
            bad.append(ended)
    if bad:
        raise bad[0]
    return answers


def keep(record: Record, folder: Path) -> Path:
    """Write what a duel said into the folder of its sweep."""
    began = datetime.now(timezone.utc).strftime("%Y%m%dT%H%M%S")
    path = folder / duels.FOLDER / f"{began}-{record.provenance['host']}.json"
    path.parent.mkdir(exist_ok=True)
    return writer.keep(record, path)

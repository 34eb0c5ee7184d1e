"""A fleet is judged from what its hosts have left, at any time: compared within a state, and nobody is green who was not heard."""

from __future__ import annotations

import string
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from statistics import median

from stackproof.base.units import shown
from stackproof.fleet import majority, outliers, rules
from stackproof.fleet.answers import CardAnswer, FleetAnswers, HostAnswer, SubjectKey, subjects
from stackproof.fleet.duels import DuelKey, DuelSaid
from stackproof.fleet.judgement import (
    GRAVEST,
    SCHEMA,
    FleetFinding,
    FleetJudgement,
    GroupTold,
    HostStanding,
    Standing,
    Strip,
)
from stackproof.fleet.majority import Vote
from stackproof.record import store
from stackproof.record.records import Verdict

_MOST_TOLD = 4
_ENDED = {
    Verdict.FAILED: Standing.WRONG, Verdict.CRASHED: Standing.WRONG, Verdict.HUNG: Standing.WRONG, Verdict.MISMATCHED: Standing.UNLIKE,
}  # fmt: skip
"""What a host is called whose own checks ended so; any other end that is no pass leaves it not reached."""


@dataclass(frozen=True)
class _Group:
    name: str
    hosts: tuple[HostAnswer, ...]
    differs: str

    @property
    def cards(self) -> list[CardAnswer]:
        return [card for host in self.hosts for card in host.cards]


@dataclass
class FleetCourt:
    """What is judged: the answers, who was to answer, and what duels have said."""

    fleet: str
    answers: FleetAnswers
    expected: Sequence[str]
    duels: Mapping[DuelKey, DuelSaid]
    problems: Sequence[str] = ()

    def judge(self) -> FleetJudgement:
        """Return what is said of every host."""
        groups, alone = _grouped(self.answers.hosts.values())
        votes = {group.name: majority.vote(group.cards) for group in groups}
        told = [_Told(group, votes[group.name], self.duels) for group in groups]
        hosts = {one.host: one for group in told for one in group.hosts()}
        hosts |= {one.host: one for one in alone} | {one.host: one for one in self._missing()}
        took = [host.took / 60 for host in self.answers.hosts.values()]
        return FleetJudgement(
            SCHEMA, self.fleet, datetime.now(timezone.utc).isoformat(timespec="seconds"), median(took) if took else 0.0,
            max(took, default=0.0), tuple(hosts[name] for name in sorted(hosts)), tuple(one.told() for one in told),
            (*self.problems, *_notes(groups, votes, told)),
        )  # fmt: skip

    def _missing(self) -> Iterator[HostStanding]:
        heard = self.answers.hosts
        for host in sorted({*self.expected, *self.answers.refused, *self.answers.begun} - set(heard)):
            why = self.answers.refused.get(host)
            began = (
                "began, and left no record: it died, was cancelled, or is at it still"
                if host in self.answers.begun
                else ""
            )
            yield HostStanding(host, Standing.NOT_REACHED, "", why or began or "left nothing")


def _grouped(hosts: Iterable[HostAnswer]) -> tuple[list[_Group], list[HostStanding]]:
    """Return the groups, the largest first, and those that are like no group."""
    by_kind: dict[str, dict[str, list[HostAnswer]]] = {}
    for host in hosts:
        by_kind.setdefault(host.architecture, {}).setdefault(host.state.digest, []).append(host)
    total = sum(len(one) for states in by_kind.values() for one in states.values())
    groups, alone = list[_Group](), list[HostStanding]()
    largest = max((max(states.values(), key=len) for states in by_kind.values()), key=len, default=[])
    for states in sorted(by_kind.values(), key=lambda found: -sum(map(len, found.values()))):
        ranked = sorted(states.values(), key=lambda those: (-len(those), those[0].host))
        enough = rules.load().judging.enough(sum(map(len, ranked)))
        for those in ranked:
            differs = _differs(ranked[0][0] if len(ranked[0]) >= enough else largest[0], those[0])
            if len(those) >= enough:
                groups.append(_Group(_name(len(groups)), tuple(sorted(those, key=lambda one: one.host)), differs))
            else:
                alone += [_unlike(host, differs, len(those), total) for host in those]
    return groups, alone


def _name(number: int) -> str:
    letters = string.ascii_uppercase
    return (
        letters[number]
        if number < len(letters)
        else f"{_name(number // len(letters) - 1)}{letters[number % len(letters)]}"
    )


def _differs(first: HostAnswer, other: HostAnswer) -> str:
    """Say what sets a host apart from one of the largest group."""
    found = [f"{first.architecture} -> {other.architecture}"] if first.architecture != other.architecture else []
    changed = store.changes(first.state, other.state)
    found += [phrase for group, phrases in changed.items() if group != store.CODE for phrase in phrases]
    more = f" and {len(found) - _MOST_TOLD} more" if len(found) > _MOST_TOLD else ""
    return "; ".join(found[:_MOST_TOLD]) + more


def _unlike(host: HostAnswer, differs: str, like: int, total: int) -> HostStanding:
    word = _ENDED.get(host.verdict, Standing.NOT_REACHED) if host.verdict.exit_code else Standing.UNLIKE
    if word in (Standing.WRONG, Standing.NOT_REACHED):
        return HostStanding(host.host, word, "", host.reason)
    why = differs or f"{total} in all, and so few cannot be compared"
    return HostStanding(host.host, Standing.UNLIKE, "", f"{like} of this state, not compared: {why}")


class _Told:
    """One group as it is judged."""

    def __init__(self, group: _Group, votes: Sequence[Vote], duels: Mapping[DuelKey, DuelSaid]) -> None:
        self.group, self.votes, self._duels = group, votes, duels
        self._rules = rules.load().judging
        cards = group.cards
        self.subjects = subjects(cards)
        self.limit = outliers.limit(self._rules.family, len(cards) * max(len(self.subjects), 1))
        self.found: dict[str, list[FleetFinding]] = {}
        self.strips = [self._strip(key, cards) for key in self.subjects]
        for odd in majority.odd(cards, votes):
            self._add(odd.host, FleetFinding(Standing.WRONG, odd.card, odd.row, f"{odd.oddness.value}: {odd.sentence}"))

    def _strip(self, key: SubjectKey, cards: Sequence[CardAnswer]) -> Strip:
        spread = outliers.spread([card.seconds[key] for card in cards if key in card.seconds], self._rules.floor)
        slow = [card for card in cards if key in card.seconds and self._odd(spread, card.seconds[key])]
        split = len(slow) >= max(3, self._rules.split * len(cards)) and len(cards) > 2 * self._rules.least
        for card in slow:
            self._add(card.host, self._slow(key, card, spread, split))
        ratios = tuple(round(spread.ratio(card.seconds[key]), 5) if key in card.seconds else 0.0 for card in cards)
        middle = median([card.seconds[key] for card in cards if key in card.seconds])
        return Strip(key.name, key.unit, middle, spread.scale, ratios, split)

    def _odd(self, spread: outliers.RobustSpread, seconds: float) -> bool:
        return spread.z(seconds) >= self._rules.suspect and spread.ratio(seconds) - 1 >= self._rules.effect

    def _slow(self, key: SubjectKey, card: CardAnswer, spread: outliers.RobustSpread, split: bool) -> FleetFinding:
        seconds = card.seconds[key]
        ratio, z = spread.ratio(seconds), spread.z(seconds)
        said = f"{100 * (ratio - 1):.1f} % slower than the median ({shown(seconds, key.unit)}), z {z:.1f}"
        said += "; one of many, so there may be two populations" if split else ""
        word = Standing.SLOW if z >= self.limit else Standing.SUSPECTED
        return FleetFinding(word, card.number, key.name, said, round(ratio, 5), round(z, 2))

    def _add(self, host: str, finding: FleetFinding) -> None:
        said = self._duels.get((host, finding.card, finding.subject))
        if said and not (finding.standing is Standing.WRONG and said.word == "refuted"):  # it has computed wrong, once
            word = (
                Standing.SLOW
                if said.word == "confirmed" and finding.standing is Standing.SUSPECTED
                else finding.standing
            )
            sentence = f"{finding.sentence}; duel: {said.sentence}"
            finding = FleetFinding(word, finding.card, finding.subject, sentence, finding.ratio, finding.z, said.word)
        self.found.setdefault(host, []).append(finding)

    def hosts(self) -> Iterator[HostStanding]:
        """Yield the word on each host."""
        most = max((len(host.cards) for host in self.group.hosts), default=0)
        cards = [card for host in self.group.hosts for card in host.cards]
        rows = {one.row for one in self.votes if 2 * sum(one.row in card.replayed for card in cards) >= len(cards)}
        for host in self.group.hosts:
            yield self._host(host, most, rows)

    def _host(self, host: HostAnswer, most: int, rows: set[str]) -> HostStanding:
        findings = sorted(self.found.get(host.host, []), key=lambda one: (GRAVEST.index(one.standing), -one.z))
        standing = [one for one in findings if one.duel != "refuted"]
        own = _ENDED.get(host.verdict, Standing.NOT_REACHED) if host.verdict.exit_code else Standing.PROVED
        if standing and GRAVEST.index(standing[0].standing) <= GRAVEST.index(own):
            return HostStanding(host.host, standing[0].standing, self.group.name, _agreeing(standing), tuple(findings))
        if own is not Standing.PROVED:
            return HostStanding(host.host, own, self.group.name, host.reason, tuple(findings))
        if lacks := self._lacks(host, most, rows):
            return HostStanding(host.host, Standing.NOT_REACHED, self.group.name, lacks, tuple(findings))
        said = f"; {len(findings)} suspicions refuted beside a healthy host" if findings else ""
        return HostStanding(host.host, Standing.PROVED, self.group.name, f"as its group{said}", tuple(findings))

    def _lacks(self, host: HostAnswer, most: int, rows: set[str]) -> str:
        """Say what a host has not done that half of its group's cards have; what nobody replayed proves nobody."""
        if not rows:
            return "nothing was replayed, so nothing is known of what it computes"
        if len(host.cards) < most:
            return f"{len(host.cards)} of {most} cards answered"
        told = {key.name for card in host.cards for key in card.seconds}
        lacking = sorted({key.name for key in self.subjects if self._usual(key)} - told)
        lacking += sorted(row for row in rows if not all(row in card.replayed for card in host.cards))
        return f"lacks {', '.join(lacking[:_MOST_TOLD])}, which its group has" if lacking else ""

    def _usual(self, key: SubjectKey) -> bool:
        """Whether half of the hosts have it: what one host did beyond the others makes nobody less than proved."""
        having = sum(any(key in card.seconds for card in host.cards) for host in self.group.hosts)
        return 2 * having >= len(self.group.hosts)

    def told(self) -> GroupTold:
        """Return it as it is kept."""
        several = max((len(host.cards) for host in self.group.hosts), default=0) > 1
        names = tuple(f"{card.host}:{card.number}" if several else card.host for card in self.group.cards)
        kernels = {one.row.split(" ")[0] for one in self.votes}
        return GroupTold(
            self.group.name, self.group.hosts[0].architecture, self.group.differs, len(self.group.hosts), round(self.limit, 3), names,
            tuple(self.strips), len(kernels), sum(one.products for one in self.votes),
        )  # fmt: skip


def _agreeing(findings: Sequence[FleetFinding]) -> str:
    more = f" (and {len(findings) - 1} more)" if len(findings) > 1 else ""
    return f"{findings[0].subject}: {findings[0].sentence}{more}"


def _notes(groups: Sequence[_Group], votes: Mapping[str, list[Vote]], told: Sequence[_Told]) -> Iterator[str]:
    """Yield what is true of whole groups."""
    for kind in dict.fromkeys(group.hosts[0].architecture for group in groups):
        those = [(f"group {group.name}", votes[group.name]) for group in groups if group.hosts[0].architecture == kind]
        yield from majority.software(those)
    for one in told:
        for strip in one.strips:
            if strip.split:
                slow = sum(ratio - 1 >= rules.load().judging.effect for ratio in strip.ratios)
                yield f"group {one.group.name}: {slow} of {len(strip.ratios)} cards are slow in {strip.subject}: two populations?"

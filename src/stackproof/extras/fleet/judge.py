"""A fleet is judged from what its hosts have left, at any time: compared within a state, and nobody is green who was not heard."""

from __future__ import annotations

import string
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from statistics import median

from stackproof.api.base import counted, shown
from stackproof.api.record import Verdict, store
from stackproof.extras.fleet import agreement, majority, rules
from stackproof.extras.fleet.agreement import Yardstick
from stackproof.extras.fleet.answers import CardAnswer, FleetAnswers, HostAnswer, SubjectKey, subjects
from stackproof.extras.fleet.judgement import (
    GRAVEST,
    LIMITLESS,
    SCHEMA,
    FleetFinding,
    FleetJudgement,
    GroupTold,
    HostStanding,
    Standing,
    Strip,
)
from stackproof.extras.fleet.majority import Vote

_MOST_TOLD = 4
_LEAST_RATIO = 1e-5
"""Nothing that was measured is shown as 0, which is what was not."""
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
    """What is judged: the answers, and who was to answer."""

    fleet: str
    answers: FleetAnswers
    expected: Sequence[str]
    problems: Sequence[str] = ()
    unplanned: str = ""
    """Why nothing says who was to answer, or what; then nobody is proved."""

    def judge(self) -> FleetJudgement:
        """Return what is said of every host."""
        groups, alone = _grouped(self.answers.hosts.values())
        votes = {group.name: majority.vote(group.cards) for group in groups}
        told = [_Told(group, votes[group.name], self.unplanned) for group in groups]
        hosts = {one.host: one for group in told for one in group.hosts()}
        hosts |= {one.host: one for one in alone} | {one.host: one for one in self._missing()}
        took = [host.took / 60 for host in self.answers.hosts.values()]
        return FleetJudgement(
            SCHEMA, self.fleet, datetime.now(timezone.utc).isoformat(timespec="seconds"), median(took) if took else 0.0,
            max(took, default=0.0), tuple(hosts[name] for name in sorted(hosts)), tuple(one.told() for one in told),
            (*self.problems, *_unpinned(self.answers.hosts.values()), *_notes(groups, votes, told)),
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

    def __init__(self, group: _Group, votes: Sequence[Vote], unplanned: str) -> None:
        self.group, self.votes, self._unplanned = group, votes, unplanned
        self._rules = rules.load().judging
        cards = group.cards
        self.subjects = subjects(cards)
        self._looks = len(cards) * max(len(self.subjects), 1)
        self.limit = 0.0
        self.found: dict[str, list[FleetFinding]] = {}
        self.doubts: dict[str, str] = {}
        """By subject or row of the replay, why this group proves nobody in it."""
        self.faster: dict[str, list[CardAnswer]] = {}
        """By subject, the cards that are so much faster that the others may be the slow ones."""
        self.strips = [self._strip(key, cards) for key in self.subjects]
        for odd in majority.odd(cards, votes):
            self._add(odd.host, FleetFinding(Standing.WRONG, odd.card, odd.row, f"{odd.oddness.value}: {odd.sentence}"))
        self.doubts |= {
            one.row: f"no majority: {one.answers} answers of {one.cards} cards" for one in votes if one.torn
        }

    def _strip(self, key: SubjectKey, cards: Sequence[CardAnswer]) -> Strip:
        seconds = [card.seconds[key] for card in cards if key in card.seconds]
        measure = agreement.yardstick(seconds, self._looks)
        spread, self.limit = measure.spread, max(self.limit, measure.limit)
        if measure.doubt:
            self.doubts[key.name] = measure.doubt
        slow = [card for card in cards if key in card.seconds and measure.odd(card.seconds[key])]
        if not measure.doubt and (
            fast := [card for card in cards if key in card.seconds and measure.faster(card.seconds[key])]
        ):
            self.faster[key.name] = fast
        split = len(slow) >= max(3, self._rules.split * len(cards)) and len(cards) > 2 * self._rules.least
        for card in slow:
            self._add(card.host, self._slow(key, card, measure, split))
        ratios = tuple(
            max(_LEAST_RATIO, round(spread.ratio(card.seconds[key]), 5)) if key in card.seconds else 0.0
            for card in cards
        )
        return Strip(key.name, key.unit, median(seconds), spread.scale, ratios, split)

    def _slow(self, key: SubjectKey, card: CardAnswer, measure: Yardstick, split: bool) -> FleetFinding:
        seconds = card.seconds[key]
        ratio, z = measure.spread.ratio(seconds), measure.spread.z(seconds)
        said = f"{100 * (ratio - 1):.1f} % slower than the median ({shown(seconds, key.unit)}), z {z:.1f}"
        said += "; one of many, so there may be two populations" if split else ""
        word = Standing.SLOW if z >= measure.limit else Standing.SUSPECTED
        return FleetFinding(word, card.number, key.name, said, round(ratio, 5), round(z, 2))

    def _add(self, host: str, finding: FleetFinding) -> None:
        self.found.setdefault(host, []).append(finding)

    def hosts(self) -> Iterator[HostStanding]:
        """Yield the word on each host."""
        yield from map(self._host, self.group.hosts)

    def _host(self, host: HostAnswer) -> HostStanding:
        findings = sorted(self.found.get(host.host, []), key=lambda one: (GRAVEST.index(one.standing), -one.z))
        own = _ENDED.get(host.verdict, Standing.NOT_REACHED) if host.verdict.exit_code else Standing.PROVED
        if findings and GRAVEST.index(findings[0].standing) <= GRAVEST.index(own):
            return HostStanding(host.host, findings[0].standing, self.group.name, _agreeing(findings), tuple(findings))
        if own is not Standing.PROVED:
            return HostStanding(host.host, own, self.group.name, host.reason, tuple(findings))
        if lacks := self._lacks(host):
            return HostStanding(host.host, Standing.INCOMPLETE, self.group.name, lacks, tuple(findings))
        if doubt := self._doubt(host):
            return HostStanding(host.host, Standing.UNDECIDED, self.group.name, doubt, tuple(findings))
        return HostStanding(host.host, Standing.PROVED, self.group.name, "as its group", tuple(findings))

    def _doubt(self, host: HostAnswer) -> str:
        """Say in what this host's group proves nobody: it is too small, or does not agree with itself."""
        did = {name for card in host.cards for name in (*card.replayed, *(key.name for key in card.seconds))}
        found = [f"{name}: {why}" for name, why in self.doubts.items() if name in did]
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        return f"{found[0]}{more}" if found else self._unplanned

    def _lacks(self, host: HostAnswer) -> str:
        """Say what a host has not done, or otherwise than it was asked; where nothing was replayed nobody is proved."""
        if host.lacks:
            more = f" and {len(host.lacks) - _MOST_TOLD} more" if len(host.lacks) > _MOST_TOLD else ""
            return f"{'; '.join(host.lacks[:_MOST_TOLD])}{more}"
        return "" if self.votes else "nothing was replayed, so nothing is known of what it computes"

    def told(self) -> GroupTold:
        """Return it as it is kept."""
        several = max((len(host.cards) for host in self.group.hosts), default=0) > 1
        names = tuple(f"{card.host}:{card.number}" if several else card.host for card in self.group.cards)
        kernels = {one.row.split(" ")[0] for one in self.votes}
        limit = round(min(self.limit, LIMITLESS), 3)
        return GroupTold(
            self.group.name, self.group.hosts[0].architecture, self.group.differs, len(self.group.hosts), limit,
            names, tuple(self.strips), len(kernels), sum(one.products for one in self.votes),
        )  # fmt: skip


def _unpinned(hosts: Iterable[HostAnswer]) -> list[str]:
    """Say how many environments are nobody's lock."""
    names = [host.host for host in hosts if not host.pinned]
    if not names:
        return []
    what = "in an environment that is no lock of ours: only its flavour of torch is proved, not its packages"
    return [f"unpinned: {counted(len(names), 'host')}, such as {min(names)}, {what}"]


def _agreeing(findings: Sequence[FleetFinding]) -> str:
    more = f" (and {len(findings) - 1} more)" if len(findings) > 1 else ""
    return f"{findings[0].subject}: {findings[0].sentence}{more}"


def _notes(groups: Sequence[_Group], votes: Mapping[str, list[Vote]], told: Sequence[_Told]) -> Iterator[str]:
    """Yield what is true of whole groups."""
    for kind in dict.fromkeys(group.hosts[0].architecture for group in groups):
        those = [(f"group {group.name}", votes[group.name]) for group in groups if group.hosts[0].architecture == kind]
        yield from majority.software(those)
    for one in told:
        yield from _doubts(one)
        yield from _faster(one)
        for strip in one.strips:
            if strip.split:
                slow = sum(ratio - 1 >= rules.load().judging.effect for ratio in strip.ratios)
                yield f"group {one.group.name}: {slow} of {len(strip.ratios)} cards are slow in {strip.subject}: two populations?"


def _faster(told: _Told) -> Iterator[str]:
    """Yield in what a few cards are much faster than all others, which are called proved, and might be the slow ones."""
    for strip in told.strips:
        if not (fast := told.faster.get(strip.subject, [])):
            continue
        ratios = sorted(ratio for ratio in strip.ratios if ratio)
        gap, hosts = 1 / median(ratios[: len(fast)]) - 1, list(dict.fromkeys(card.host for card in fast))
        more = f" and {len(hosts) - _MOST_TOLD} more" if len(hosts) > _MOST_TOLD else ""
        said = f"{counted(len(fast), 'card')} {'is' if len(fast) == 1 else 'are'} {gap:.1%} faster than the other {len(ratios) - len(fast)}"
        yield (
            f"group {told.group.name}: {said} in {strip.subject} ({', '.join(hosts[:_MOST_TOLD])}{more}): "
            "which of them are as they should be no comparison within the group tells; hold them against earlier records"
        )


def _doubts(told: _Told) -> Iterator[str]:
    """Yield why nobody of a group is proved, once for each reason."""
    by_reason: dict[str, list[str]] = {}
    for name, why in told.doubts.items():
        by_reason.setdefault(why, []).append(name)
    for why, names in by_reason.items():
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        yield f"group {told.group.name}: nobody is proved: {names[0]}{more}: {why}"

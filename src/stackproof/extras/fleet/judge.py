"""A fleet is judged from what its hosts have left: equal cards are compared, and nobody is green who did not answer.

Where a group does not agree with itself, or is too small, its middle is no reference, and nobody is proved by it. There is no golden file.
"""

from __future__ import annotations

import math
import string
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from itertools import combinations
from pathlib import Path
from statistics import NormalDist, median, quantiles

from stackproof.api.base import files, statistics, text
from stackproof.api.record import Verdict, store
from stackproof.extras.fleet import answers, plan
from stackproof.extras.fleet.answers import CardAnswer, HostAnswer
from stackproof.extras.fleet.judgement import (
    LIMITLESS,
    NAME,
    SCHEMA,
    FleetFinding,
    FleetJudgement,
    HostVerdict,
    JudgedGroup,
    JudgedHost,
    SubjectStrip,
    as_json,
)  # fmt: skip
from stackproof.extras.fleet.plan import FleetPlan

_QUARTILES = 1.3489795
"""The distance of the quartiles of normal numbers over their standard deviation."""
_CUTS = 16
_MAJORITY = 3
"""So many cards have a majority; of two that differ nobody can say which one is right."""


def limit(family: float, comparisons: int) -> float:
    """Return the z that the largest of so many comparisons exceeds by chance with this probability (Sidak 1967), if noise is normal.

    Heavy tails exceed it more often, which is why suspects are swept again before anybody is drained.
    """
    each = -math.expm1(math.log1p(-family) / max(comparisons, 1))
    return NormalDist().inv_cdf(1 - each)


@dataclass(frozen=True)
class TwoModes:
    """Figures of a group as two: how many are slower, by which share, and how far both are apart over their spread."""

    slower: int
    apart: float
    distance: float


def modes(seconds: Sequence[float], share: float, floor: float) -> TwoModes:
    """Return the two halves, of this share of all at least, that stand furthest apart (Ashman's D, of medians and quartiles).

    Normal figures reach 2.4 in a large group, and more in a small one; two populations that do not overlap reach 5 and more.
    """
    ordered = sorted(map(math.log, seconds))
    least = max(2, math.ceil(share * len(ordered)))
    cuts = sorted({least + (len(ordered) - 2 * least) * number // _CUTS for number in range(_CUTS + 1)})
    return max((_cut(ordered, at, floor) for at in cuts), key=lambda pair: pair.distance)


def _cut(ordered: Sequence[float], at: int, floor: float) -> TwoModes:
    middle, high, widths = median(ordered[:at]), median(ordered[at:]), []
    for half in (ordered[:at], ordered[at:]):
        first, _, third = quantiles(half, n=4, method="inclusive")
        widths.append((third - first) / _QUARTILES)
    slower = sum(value > (middle + high) / 2 for value in ordered)
    distance = (high - middle) / max(math.hypot(*widths) / math.sqrt(2), floor)
    return TwoModes(slower, math.expm1(high - middle), distance)


@dataclass(frozen=True)
class Yardstick:
    """How one subject of a group is measured: median and spread of its cards, in logarithms of seconds, and from which z one is odd."""

    centre: float
    scale: float
    suspect: float
    limit: float
    doubt: str
    """What speaks against the median itself."""
    fast: float = float("inf")
    """From this z on, below the median, a card is so fast that the others may be slow."""

    def z(self, seconds: float) -> float:
        """Return by how many spreads a card is slower (above 0) or faster."""
        return (math.log(seconds) - self.centre) / self.scale

    def ratio(self, seconds: float) -> float:
        return math.exp(math.log(seconds) - self.centre)

    def faster(self, seconds: float) -> bool:
        """Whether a card is as much faster than the middle as would make a slow one odd, and beyond chance in a fleet of this size."""
        gain = 1 / self.ratio(seconds) - 1
        return gain >= plan.table().judging.effect and self.z(seconds) <= -self.fast

    def slow(self, seconds: float) -> bool:
        """Whether a card is slow enough to be suspected; what is slower than the blind share needs no more than in a large group."""
        judging, slower = plan.table().judging, self.ratio(seconds) - 1
        least = judging.suspect if slower >= judging.blind else self.suspect
        return slower >= judging.effect and self.z(seconds) >= least


def yardstick(seconds: Sequence[float], comparisons: int) -> Yardstick:
    """Return the yardstick of a subject; `comparisons`: cards times subjects of the group, for the error of all together.

    Equal cards are taken to differ by the floor at least. Half of the cards may be anything before median or spread moves without bound
    (Huber and Ronchetti, Robust Statistics, section 5.2).
    """
    judging, small = plan.table().judging, plan.small(len(seconds))
    logs = list(map(math.log, seconds))
    centre, scale = median(logs), max(statistics.robust_sigma(logs), judging.floor)
    if small is None:
        first = plan.table().small[0]
        doubt = f"{len(seconds)} cards are too few to compare; {first.cards} are needed"
        return Yardstick(centre, scale, judging.suspect * first.suspect, float("inf"), doubt)
    chance = limit(judging.family, comparisons)
    suspect = judging.suspect * small.suspect
    measure = Yardstick(centre, scale, suspect, chance * small.limit, "", max(suspect, chance))
    return replace(measure, doubt=_two(seconds, small.modes) or _blind(measure) or _faster(seconds, measure))


def _two(seconds: Sequence[float], beyond: float) -> str:
    """Say that there are two populations, of which nobody can say which one is right."""
    judging = plan.table().judging
    if not beyond:
        return ""
    pair = modes(seconds, judging.half, judging.floor)
    if pair.distance < beyond or pair.apart < judging.effect:
        return ""
    return f"two populations: {pair.slower} of {len(seconds)} cards are {pair.apart:.1%} slower than the others"


def _blind(measure: Yardstick) -> str:
    """Say that cards differ so much that the comparison cannot see what it must."""
    most = plan.table().judging.blind
    if measure.suspect * measure.scale <= most:
        return ""
    return f"its cards differ by {measure.scale:.1%}, so that one which is {most:.0%} slow would not be seen"


def _faster(seconds: Sequence[float], measure: Yardstick) -> str:
    """Say that several are faster than the middle by as much as a slow one is slower: the middle may be the slow ones."""
    judging = plan.table().judging
    gains = [1 / measure.ratio(second) - 1 for second in seconds if measure.z(second) <= -measure.limit]
    gains = sorted(gain for gain in gains if gain >= judging.effect)
    if not gains or len(gains) < judging.split * len(seconds):
        return ""
    gap = gains[(len(gains) - 1) // 2]
    return f"two populations: {len(seconds) - len(gains)} of {len(seconds)} cards are {gap:.1%} slower than the others"


@dataclass(frozen=True)
class DigestVote:
    """What the cards of a group say of one row; without a majority `digest` is empty, and nobody is odd by it."""

    row: str
    digest: str
    cards: int
    products: int
    answers: int
    """How many different digests there are."""


def vote(cards: Sequence[CardAnswer]) -> list[DigestVote]:
    votes = []
    for row in sorted({row for card in cards for row in card.replayed}):
        seen = [card.replayed[row] for card in cards if row in card.replayed]
        counts = Counter(answer.digest for answer in seen)
        digest, most = counts.most_common(1)[0]
        clear = 2 * most > len(seen) and len(seen) >= _MAJORITY
        products = sum(answer.products for answer in seen)
        votes.append(DigestVote(row, digest if clear else "", len(seen), products, len(counts)))
    return votes


def wrong_digests(cards: Sequence[CardAnswer], votes: Sequence[DigestVote]) -> Iterator[tuple[str, FleetFinding]]:
    """Yield by host every card that computes wrong in a row: transient by its own repeats, or persistent by the majority."""
    chosen = {ballot.row: ballot for ballot in votes}
    for card in cards:
        for row, seen in card.replayed.items():
            voted = chosen[row]
            sentence = ""
            if seen.odd:
                sentence = f"transient: {seen.odd} of {seen.products} equal products differ on this card"
            elif voted.digest and seen.digest != voted.digest:
                other = f"the majority of {voted.cards} cards {voted.digest}"
                sentence = f"persistent: {seen.products} products gave {seen.digest}, and {other}"
            if sentence:
                yield card.host, FleetFinding(HostVerdict.WRONG, card.number, row, sentence)


_GRAVEST = list(HostVerdict)
_ENDED = {
    Verdict.FAILED: HostVerdict.WRONG, Verdict.CRASHED: HostVerdict.WRONG, Verdict.HUNG: HostVerdict.WRONG,
    Verdict.MISMATCHED: HostVerdict.UNLIKE, Verdict.INCONCLUSIVE: HostVerdict.INCOMPLETE,
}  # fmt: skip


def judge(folder: Path) -> FleetJudgement:
    chosen = plan.load(folder)
    left, refused = answers.gather(folder, chosen)
    groups, alone = _grouped(left.values())
    hosts = {row.host: row for group in groups for row in map(group.host, group.hosts)}
    hosts |= {row.host: row for row in alone}
    for name in {*chosen.hosts, *refused} - set(left):
        hosts[name] = JudgedHost(name, HostVerdict.NOT_REACHED, "", refused.get(name, "left nothing"))
    minutes = [host.record.seconds / 60 for host in left.values()]
    notes = *_notes(left, chosen), *_software(groups), *(note for group in groups for note in group.notes())
    return FleetJudgement(
        SCHEMA, text.plain(folder.absolute().name, 80, lines=False), datetime.now(timezone.utc).isoformat(timespec="seconds"),
        median(minutes) if minutes else 0.0, max(minutes, default=0.0), tuple(hosts[name] for name in sorted(hosts)),
        tuple(group.summary() for group in groups), notes, chosen.stack,
    )  # fmt: skip


def _notes(left: Mapping[str, HostAnswer], chosen: FleetPlan) -> Iterator[str]:
    if chosen.without:
        yield f"the plan leaves out {' and '.join(chosen.without)}: nothing is proved of these"
    if unpinned := [host.host for host in left.values() if host.record.provenance.get("pinned") is False]:
        what = "in an environment that was not built from a lock: only its kind of torch is proved, not its packages"
        yield f"unpinned: {text.counted(len(unpinned), 'host')}, such as {min(unpinned)}, {what}"


def keep(judgement: FleetJudgement, folder: Path) -> str:
    """Keep a judgement beside its records, for the site; return why that cannot be, which spoils nothing."""
    path = folder / NAME
    try:
        files.write_atomically(path, as_json(judgement))
    except OSError as error:
        return f"{path}: the judgement cannot be kept ({error.strerror}); it is shown all the same"
    return ""


def _grouped(hosts: Iterable[HostAnswer]) -> tuple[list[_GroupJudge], list[JudgedHost]]:
    by_kind: dict[str, dict[str, list[HostAnswer]]] = {}
    for host in hosts:
        by_kind.setdefault(host.architecture, {}).setdefault(host.state.digest, []).append(host)
    total = sum(len(state) for states in by_kind.values() for state in states.values())
    groups, alone = list[_GroupJudge](), list[JudgedHost]()
    largest = max((max(states.values(), key=len) for states in by_kind.values()), key=len, default=[])
    for states in sorted(by_kind.values(), key=lambda table: -sum(map(len, table.values()))):
        ranked = sorted(states.values(), key=lambda those: (-len(those), those[0].host))
        enough = plan.table().judging.enough(sum(map(len, ranked)))
        for those in ranked:
            differs = _differs(ranked[0][0] if len(ranked[0]) >= enough else largest[0], those[0])
            if len(those) >= enough:
                groups.append(_GroupJudge(_name(len(groups)), sorted(those, key=lambda answer: answer.host), differs))
            else:
                alone += [_unlike(host, differs, len(those), total) for host in those]
    return groups, alone


def _name(number: int) -> str:
    letters = string.ascii_uppercase
    first = _name(number // len(letters) - 1) if number >= len(letters) else ""
    return first + letters[number % len(letters)]


def _differs(first: HostAnswer, other: HostAnswer) -> str:
    """Say what sets a host apart from one of the largest group."""
    lines = [f"{first.architecture} -> {other.architecture}"] if first.architecture != other.architecture else []
    changed = store.changes(first.state, other.state)
    lines += [phrase for group, phrases in changed.items() if group != store.CODE for phrase in phrases]
    return text.first_few(lines, between="; ")


def _own(host: HostAnswer) -> HostVerdict:
    """Return what a host's own checks make of it; an end that is neither a pass nor its fault leaves it not reached."""
    verdict = host.record.verdict
    return _ENDED.get(verdict, HostVerdict.NOT_REACHED) if verdict.exit_code else HostVerdict.PROVED


def _unlike(host: HostAnswer, differs: str, like: int, total: int) -> JudgedHost:
    if (own := _own(host)) is not HostVerdict.PROVED:
        return JudgedHost(host.host, own, "", answers.reason(host.record))
    why = differs or f"{total} in all, and so few cannot be compared"
    return JudgedHost(host.host, HostVerdict.UNLIKE, "", f"{like} of this state, not compared: {why}")


class _GroupJudge:
    """One group as it is judged: findings by host, and why the group proves nobody in a subject or a row of the replay."""

    def __init__(self, name: str, hosts: Sequence[HostAnswer], differs: str) -> None:
        self.name, self.hosts, self.kind, self._differs = name, hosts, hosts[0].architecture, differs
        self._cards = [card for host in hosts for card in host.cards]
        self.votes, names = vote(self._cards), sorted({name for card in self._cards for name in card.seconds})
        self._comparisons = len(self._cards) * max(len(names), 1)
        self._limit = 0.0
        self._found: dict[str, list[FleetFinding]] = {}
        self._doubts: dict[str, str] = {}
        self._faster = list[str]()
        """Where cards are so much faster that the others may be the slow ones, in a sentence for each subject."""
        self._strips = [self._strip(name, answers.subjects(hosts[0].record.stack)[name].unit) for name in names]
        for host, finding in wrong_digests(self._cards, self.votes):
            self._add(host, finding)
        torn = (ballot for ballot in self.votes if not ballot.digest and ballot.answers > 1)
        self._doubts |= {row.row: f"no majority: {row.answers} answers of {row.cards} cards" for row in torn}

    def _strip(self, name: str, unit: str) -> SubjectStrip:
        cards = [card for card in self._cards if name in card.seconds]
        seconds = [card.seconds[name] for card in cards]
        measure = yardstick(seconds, self._comparisons)
        self._limit = max(self._limit, measure.limit)
        if measure.doubt:
            self._doubts[name] = measure.doubt
        elif fast := [card for card in cards if measure.faster(card.seconds[name])]:
            self._faster.append(_gap(name, cards, fast))
        slow = [card for card in cards if measure.slow(card.seconds[name])]
        for card in slow:
            self._add(card.host, self._slow(name, unit, card, measure))
        slowest = round(measure.ratio(max(seconds)), 5)
        return SubjectStrip(name, unit, median(seconds), measure.scale, slowest, len(cards))

    def _slow(self, name: str, unit: str, card: CardAnswer, measure: Yardstick) -> FleetFinding:
        seconds = card.seconds[name]
        ratio, z = measure.ratio(seconds), measure.z(seconds)
        sentence = f"{100 * (ratio - 1):.1f} % slower than the median ({text.shown(seconds, unit)}), z {z:.1f}"
        word = HostVerdict.SLOW if z >= measure.limit else HostVerdict.SUSPECTED
        return FleetFinding(word, card.number, name, sentence, round(z, 2))

    def _add(self, host: str, finding: FleetFinding) -> None:
        self._found.setdefault(host, []).append(finding)

    def host(self, host: HostAnswer) -> JudgedHost:
        """Return the word on one host: the gravest of what is odd, how its own checks ended, what it lacks, and the group's doubts."""
        findings = self._found.get(host.host, [])
        findings.sort(key=lambda finding: (_GRAVEST.index(finding.standing), -finding.z))
        own = _own(host)
        if findings and _GRAVEST.index(findings[0].standing) <= _GRAVEST.index(own):
            word, why = findings[0].standing, f"{findings[0].subject}: {findings[0].sentence}{_and_more(findings)}"
        elif own is not HostVerdict.PROVED:
            word, why = own, answers.reason(host.record)
        elif lacks := text.first_few(host.lacks, between="; "):
            word, why = HostVerdict.INCOMPLETE, lacks
        elif not self.votes:
            word, why = HostVerdict.INCOMPLETE, "nothing was replayed, so nothing is known of what it computes"
        elif doubt := self._doubt(host):
            word, why = HostVerdict.UNDECIDED, doubt
        else:
            word, why = own, "like its group"
        return JudgedHost(host.host, word, self.name, why, tuple(findings))

    def _doubt(self, host: HostAnswer) -> str:
        """Say in what this host's group proves nobody: it is too small, or does not agree with itself."""
        did = {name for card in host.cards for name in (*card.replayed, *card.seconds)}
        lines = [f"{name}: {why}" for name, why in self._doubts.items() if name in did]
        return f"{lines[0]}{_and_more(lines)}" if lines else ""

    def summary(self) -> JudgedGroup:
        kernels = {ballot.row.split(" ")[0] for ballot in self.votes}
        limit = round(min(self._limit, LIMITLESS), 3)
        return JudgedGroup(
            self.name, self.kind, self._differs, len(self.hosts), limit,
            len(self._cards), tuple(self._strips), len(kernels), sum(ballot.products for ballot in self.votes),
        )  # fmt: skip

    def notes(self) -> Iterator[str]:
        """Yield what is true of the whole group: why it proves nobody, who is much faster, where there are two populations."""
        group, by_reason = f"group {self.name}", dict[str, list[str]]()
        for name, why in self._doubts.items():
            by_reason.setdefault(why, []).append(name)
        for why, names in by_reason.items():
            yield f"{group}: proves no host: {text.first_few(names, 1)}: {why}"
        yield from (f"{group}: {sentence}" for sentence in self._faster)


def _gap(name: str, cards: Sequence[CardAnswer], fast: Sequence[CardAnswer]) -> str:
    gap = median(card.seconds[name] for card in cards) / median(card.seconds[name] for card in fast) - 1
    hosts = text.first_few(list(dict.fromkeys(card.host for card in fast)))
    return (
        f"{text.counted(len(fast), 'card')} of {len(cards)} {gap:.1%} faster than the median in {name} ({hosts}): no comparison "
        "within the group can say which of them are as they should be; compare them with earlier records"
    )


def _software(groups: Iterable[_GroupJudge]) -> Iterator[str]:
    """Yield in what whole groups of one architecture differ: all cards of one lock compute otherwise, by its kernels and no defect."""
    for other, group in combinations(groups, 2):
        digests = {ballot.row: ballot.digest for ballot in group.votes if ballot.digest}
        theirs = [(ballot.row, ballot.digest) for ballot in other.votes if ballot.digest and other.kind == group.kind]
        if rows := [row for row, digest in theirs if digests.get(row, digest) != digest]:
            why = f"in {len(rows)} rows, such as {rows[0]}"
            yield f"software: all of group {group.name} differ from all of group {other.name} {why}"


def _and_more(words: Sequence[object]) -> str:
    return f" (and {len(words) - 1} more)" if len(words) > 1 else ""

"""A judged fleet for people: lines of a terminal and a page of Markdown, the gravest first; and as figures for Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime

from stackproof.api.base import advice, in_markdown, plain, shown
from stackproof.extras import exposition
from stackproof.extras.exposition import Gauge, Labels
from stackproof.extras.fleet.judgement import LIMITLESS, FleetJudgement, HostVerdict, JudgedGroup, JudgedHost

_MOST = 60
_WIDE = 24
_MOST_NAMED = 8
_TITLES = {
    HostVerdict.WRONG: "compute wrong", HostVerdict.SLOW: "slow", HostVerdict.SUSPECTED: "suspected",
    HostVerdict.UNLIKE: "unlike, and not compared", HostVerdict.NOT_REACHED: "not reached", HostVerdict.INCOMPLETE: "incomplete",
    HostVerdict.UNDECIDED: "undecided: nothing is odd, and the group cannot prove it",
}  # fmt: skip
_Line = tuple[int, str]
_HELP = {
    "fleet_hosts": "Hosts by what they are called.",
    "fleet_host": "1 for what a host is called, 0 for what it is not.",
    "fleet_ratio": "Seconds of a card over the median's of its group; above 1 is slower.",
    "fleet_products": "Products that a group replayed.",
    "fleet_timestamp_seconds": "When the fleet was judged.",
}


def terminal(found: FleetJudgement, folder: str = "FOLDER") -> str:
    """Return the lines of a terminal, the gravest first."""
    return "\n".join(f"{'  ' * depth}{plain(text, lines=False)}" for depth, text in _lines(found, folder))


def markdown(found: FleetJudgement, folder: str = "FOLDER") -> str:
    """Return the same as a page."""
    lines = [f"# {in_markdown(found.headline)}", ""]
    for depth, text in list(_lines(found, folder))[1:]:
        lines.append(f"\n## {in_markdown(text)}\n" if depth == 0 else f"{'  ' * (depth - 1)}- {in_markdown(text)}")
    return "\n".join(lines) + "\n"


def _lines(found: FleetJudgement, folder: str) -> Iterator[_Line]:
    yield 0, found.headline
    cost = f"it cost a host {found.minutes:.1f} minutes (median; the longest {found.longest:.1f})"
    yield from _section("the sweep", [*([cost] if found.longest else []), *found.notes], lambda one: [one])
    by_word = {word: [host for host in found.hosts if host.standing is word] for word in _TITLES}
    for word in (
        HostVerdict.WRONG,
        HostVerdict.SLOW,
        HostVerdict.NOT_REACHED,
        HostVerdict.UNLIKE,
        HostVerdict.SUSPECTED,
    ):
        yield from _section(_TITLES[word], by_word[word], _host)
    for word in (HostVerdict.INCOMPLETE, HostVerdict.UNDECIDED):
        yield from _alike(_TITLES[word], by_word[word])
    for group in found.groups:
        yield from _group(group)
    if suspects := _suspects(found):
        again = f"sweep them again with healthy hosts of their group, five in all at least: {', '.join(suspects[:_MOST_NAMED])}"
        line = advice.step(found.stack, "fleet", "plan", f"{folder}-again", "--hosts", "LIST") if found.stack else ""
        yield from _section("to confirm, before anybody is drained", [again, *filter(None, [line])], lambda one: [one])
    drains = list(found.drains())
    yield from _section("to take them out of service, where the second sweep says the same", drains, lambda one: [one])


def _suspects(found: FleetJudgement) -> list[str]:
    """Return the hosts with something odd, the oddest first."""
    return [host.host for host in sorted((one for one in found.hosts if one.findings), key=_oddness)]


def _oddness(host: JudgedHost) -> tuple[bool, int, float, str]:
    """Rank by being wrong, then by how many subjects agree, then by how odd the oddest is."""
    wrong = any(one.standing is HostVerdict.WRONG for one in host.findings)
    return not wrong, -len(host.findings), -max((one.z for one in host.findings), default=0.0), host.host


def _section(title: str, rows: Sequence[object], told: Callable[..., Iterable[str]]) -> Iterator[_Line]:
    if rows:
        yield 0, f"{title} ({len(rows)})" if len(rows) > 1 else title
    for row in rows[:_MOST]:
        first, *rest = told(row)
        yield 1, first
        yield from ((2, line) for line in rest)
    if len(rows) > _MOST:
        yield 1, f"and {len(rows) - _MOST} more, which the JSON and the page have"


def _host(host: JudgedHost) -> list[str]:
    return [f"{host.host}: {host.reason}", *(f"{one.subject}: {one.sentence}" for one in host.findings[1:])]


def _alike(title: str, hosts: Sequence[JudgedHost]) -> Iterator[_Line]:
    """Yield hosts of which one thing is said in one line."""
    by_reason: dict[str, list[str]] = {}
    for host in hosts:
        by_reason.setdefault(host.reason, []).append(host.host)
    if hosts:
        yield 0, f"{title} ({len(hosts)})"
    for why, names in list(by_reason.items())[:_MOST]:
        more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
        yield 1, f"{', '.join(names[:_MOST_NAMED])}{more}: {why}"
    if len(by_reason) > _MOST:
        yield 1, f"and more for {len(by_reason) - _MOST} other reasons, which the JSON and the page have"


def _group(group: JudgedGroup) -> Iterator[_Line]:
    yield 0, f"group {group.name}: {group.hosts} hosts, {len(group.cards)} cards, {group.architecture}"
    if group.differs:
        yield 1, f"differs: {group.differs}"
    limit = f"slow from z {group.limit:.1f} on" if group.limit < LIMITLESS else "too few to call one slow"
    yield 1, f"replayed: {group.products:,} products of {group.kernels} kernels; {limit}"
    for strip in group.strips:
        slowest = max(strip.ratios, default=1.0)
        known = [ratio for ratio in strip.ratios if ratio]
        said = f"{shown(strip.median, strip.unit)}, hosts differ by {strip.spread:.2%}, slowest {100 * (slowest - 1):+.1f} %"
        yield 1, f"{strip.subject.ljust(_WIDE)} {said}, {len(known)} cards"


def prometheus(found: FleetJudgement) -> str:
    """Return the same as figures for the textfile collector of a node exporter."""
    return exposition.text(_HELP, _gauges(found))


def _gauges(found: FleetJudgement) -> Iterator[Gauge]:
    own = {"fleet": found.fleet}
    yield Gauge("fleet_timestamp_seconds", own, datetime.fromisoformat(found.judged).timestamp())
    for word in HostVerdict:
        yield Gauge("fleet_hosts", {**own, "standing": word.value}, found.counts.get(word, 0))
    for host in found.hosts:
        of = {**own, "node": host.host}
        for word in HostVerdict:
            yield Gauge("fleet_host", {**of, "standing": word.value}, host.standing is word)
    for group in found.groups:
        yield from _gauges_of(group, own)


def _gauges_of(group: JudgedGroup, own: Labels) -> Iterator[Gauge]:
    yield Gauge("fleet_products", {**own, "group": group.name}, group.products)
    for strip in group.strips:
        for card, ratio in zip(group.cards, strip.ratios, strict=False):
            if ratio:
                node, _, number = card.partition(":")
                labels = {**own, "node": node, "card": number or "0", "subject": strip.subject}
                yield Gauge("fleet_ratio", labels, ratio)

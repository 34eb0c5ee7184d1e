"""A judged fleet for people, the gravest first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stackproof.api.base import advice, text
from stackproof.api.record import outline
from stackproof.extras.fleet.judgement import LIMITLESS, FleetJudgement, HostVerdict, JudgedGroup, JudgedHost

_MOST = 60
_WIDE = 24
_MOST_NAMED = 8
_TITLES = {
    HostVerdict.WRONG: "compute wrong", HostVerdict.SLOW: "slow", HostVerdict.NOT_REACHED: "not reached",
    HostVerdict.UNLIKE: "unlike, and not compared", HostVerdict.SUSPECTED: "suspected", HostVerdict.INCOMPLETE: "incomplete",
    HostVerdict.UNDECIDED: "undecided: nothing is odd, and the group cannot prove it",
}  # fmt: skip


def terminal(found: FleetJudgement, folder: str = "FOLDER") -> str:
    """Return the lines of a terminal, the gravest first."""
    return outline.text(parts(found, folder))


def parts(found: FleetJudgement, folder: str = "FOLDER") -> Iterator[outline.Part]:
    """Yield what there is to say, the gravest first."""
    yield outline.Heading(found.headline)
    cost = f"it cost a host {found.minutes:.1f} minutes (median; the longest {found.longest:.1f})"
    yield from _section("the sweep", [[one] for one in (*([cost] if found.longest else []), *found.notes)])
    for word, title in _TITLES.items():
        hosts = [host for host in found.hosts if host.standing is word]
        if word in (HostVerdict.INCOMPLETE, HostVerdict.UNDECIDED):
            yield from _alike(title, hosts)
        else:
            yield from _section(title, [_host(host) for host in hosts])
    for group in found.groups:
        yield from _group(group)
    if suspects := _suspects(found):
        again = f"sweep them again with healthy hosts of their group, five in all at least: {', '.join(suspects[:_MOST_NAMED])}"
        line = advice.step(found.stack, "fleet", "plan", f"{folder}-again", "--hosts", "LIST") if found.stack else ""
        yield from _section("to confirm, before anybody is drained", [[one] for one in (again, line) if one])
    title = "to take them out of service, where the second sweep says the same"
    yield from _section(title, [[line] for line in found.drains()])


def _suspects(found: FleetJudgement) -> list[str]:
    """Return the hosts with something odd, the oddest first."""
    return [host.host for host in sorted((one for one in found.hosts if one.findings), key=_oddness)]


def _oddness(host: JudgedHost) -> tuple[bool, int, float, str]:
    """Rank by being wrong, then by how many subjects agree, then by how odd the oddest is."""
    wrong = any(one.standing is HostVerdict.WRONG for one in host.findings)
    return not wrong, -len(host.findings), -max((one.z for one in host.findings), default=0.0), host.host


def _section(title: str, rows: Sequence[Sequence[str]]) -> Iterator[outline.Part]:
    """Yield a title and its rows, of each the first line and what belongs to it one deeper."""
    if rows:
        yield outline.Heading(f"{title} ({len(rows)})" if len(rows) > 1 else title, 2)
    for first, *rest in rows[:_MOST]:
        yield outline.TextLine(first, 1)
        yield from (outline.TextLine(line, 2) for line in rest)
    if len(rows) > _MOST:
        yield outline.TextLine(f"and {len(rows) - _MOST} more, which judgement.fleet.json has", 1)


def _host(host: JudgedHost) -> list[str]:
    return [f"{host.host}: {host.reason}", *(f"{one.subject}: {one.sentence}" for one in host.findings[1:])]


def _alike(title: str, hosts: Sequence[JudgedHost]) -> Iterator[outline.Part]:
    """Yield hosts of which one thing is said in one line."""
    by_reason: dict[str, list[str]] = {}
    for host in hosts:
        by_reason.setdefault(host.reason, []).append(host.host)
    lines = []
    for why, names in by_reason.items():
        more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
        lines.append([f"{', '.join(names[:_MOST_NAMED])}{more}: {why}"])
    yield from _section(title, lines)


def _group(group: JudgedGroup) -> Iterator[outline.Part]:
    yield outline.Heading(f"group {group.name}: {group.hosts} hosts, {len(group.cards)} cards, {group.architecture}", 2)
    if group.differs:
        yield outline.TextLine(f"differs: {group.differs}", 1)
    limit = f"slow from z {group.limit:.1f} on" if group.limit < LIMITLESS else "too few to call one slow"
    yield outline.TextLine(f"replayed: {group.products:,} products of {group.kernels} kernels; {limit}", 1)
    for strip in group.strips:
        slowest, known = max(strip.ratios, default=1.0), [ratio for ratio in strip.ratios if ratio]
        rate = f"{text.shown(strip.median, strip.unit)}, hosts differ by {strip.spread:.2%}, slowest {100 * (slowest - 1):+.1f} %"
        yield outline.TextLine(f"{strip.subject.ljust(_WIDE)} {rate}, {len(known)} cards", 1)

"""The fleet as an SVG picture: a square for each host, and a strip for each subject in which outliers are named."""

from __future__ import annotations

import math
from collections.abc import Iterator, Set

from stackproof.api.base import plain
from stackproof.api.record import Markup, charts, el
from stackproof.extras.fleet.judgement import FleetJudgement, HostVerdict, JudgedGroup, JudgedHost, SubjectStrip

_WIDTH, _LEFT, _STRIP, _HEAD, _LINE = 960, 170, 66, 40, 13
_SPAN = 0.10
"""A strip shows this much above and below the median; what is beyond stands at its edge."""
_MOST_NAMED, _MOST_TITLED = 6, 500
_SIZES, _HIGH = (12, 10, 8, 6, 4, 3, 2), 84
"""A square's width: the largest with which all hosts stand within so much height."""
_RED, _BROWN, _GREY, _INK = "#d1242f", "#bf8700", "#57606a", "currentColor"
_COLOURS = {
    HostVerdict.PROVED: "#2da44e", HostVerdict.WRONG: _RED, HostVerdict.SLOW: _RED, HostVerdict.SUSPECTED: _BROWN,
    HostVerdict.UNDECIDED: _BROWN, HostVerdict.UNLIKE: "#8250df", HostVerdict.INCOMPLETE: _GREY, HostVerdict.NOT_REACHED: _GREY,
}  # fmt: skip
_HOLLOW = (HostVerdict.NOT_REACHED, HostVerdict.INCOMPLETE, HostVerdict.UNDECIDED)
_CardOf = tuple[str, str, str]
"""Host, card, subject."""


def svg(found: FleetJudgement) -> str:
    """Return the picture: all hosts, then their groups, one below the other."""
    squares, y = _squares(found)
    body = [*squares]
    odd = {(host.host, one.card, one.subject) for host in found.hosts for one in host.findings}
    for group in found.groups:
        body += _head(group, found, y)
        y += _HEAD
        for strip in group.strips:
            body += _strip(group, strip, y + _STRIP // 2, odd)
            y += _STRIP
    return charts.picture(found.headline, *body, width=_WIDTH, height=max(y + 10, 40))


def _squares(found: FleetJudgement) -> tuple[list[Markup], int]:
    """Return a square for each host with what each colour means, and where they end."""
    count = max(len(found.hosts), 1)
    size = next((one for one in _SIZES if math.ceil(count / (_WIDTH // one)) * one <= _HIGH), _SIZES[-1])
    across = _WIDTH // size
    places = {host.host: (size * (at % across), 10 + size * (at // across)) for at, host in enumerate(found.hosts)}
    body, titled = list[Markup](), 0
    for word in found.counts:
        hosts = [host for host in found.hosts if host.standing is word]
        alone = hosts[: _MOST_TITLED - titled] if word is not HostVerdict.PROVED or count <= _MOST_TITLED else []
        titled += len(alone)
        body += [_square(host, *places[host.host], size) for host in alone]
        dots = "".join(
            f"M{x + 1} {y + size // 2}h{max(size - 2, 1)}"
            for x, y in (places[host.host] for host in hosts[len(alone) :])
        )
        body += [el("path", d=dots, stroke=_COLOURS[word], stroke_width=max(size - 2, 1), fill="none")] if dots else []
    y = 25 + size * math.ceil(count / across)
    counts = (el("tspan", f"{count} {word.value}", fill=_COLOURS[word], dx=12) for word, count in found.counts.items())
    return [*body, el("text", *counts, x=-12, y=y)], y + 15


def _square(host: JudgedHost, x: int, y: int, size: int) -> Markup:
    colour, inner = _COLOURS[host.standing], max(size - 2, 1)
    dress = {"fill": "none", "stroke": colour} if host.standing in _HOLLOW else {"fill": colour}
    title = el("title", plain(f"{host.host}: {host.standing.value}", 120, lines=False))
    return el("rect", title, x=x + 0.5, y=y + 0.5, width=inner, height=inner, **dress)


def _head(group: JudgedGroup, found: FleetJudgement, y: int) -> Iterator[Markup]:
    """Yield what the group is, and who of it computes wrong, which no strip shows."""
    title = f"group {group.name}: {group.hosts} hosts, {plain(group.architecture, 100, lines=False)}"
    yield el("text", title, x=0, y=y + 12, font_weight=600, fill=_INK)
    wrong = [host.host for host in found.hosts if host.group == group.name and host.standing is HostVerdict.WRONG]
    if wrong:
        more = f" and {len(wrong) - _MOST_NAMED} more" if len(wrong) > _MOST_NAMED else ""
        yield el(
            "text", f"wrong: {plain(', '.join(wrong[:_MOST_NAMED]), 300, lines=False)}{more}", x=0, y=y + 28, fill=_RED
        )


def _strip(group: JudgedGroup, strip: SubjectStrip, middle: int, odd: Set[_CardOf]) -> Iterator[Markup]:
    """Yield the middle line, a dot for each card, slower ones higher; the outliers last and named, the slowest first."""
    step = (_WIDTH - _LEFT - 20) / max(len(strip.ratios), 1)
    points = [(round(_LEFT + 10 + step * (at + 0.5), 1), _y(ratio, middle)) for at, ratio in enumerate(strip.ratios)]
    outliers = [
        at for at, card in enumerate(group.cards) if strip.ratios[at] and (*card_of(card), strip.subject) in odd
    ]
    yield el("text", plain(strip.subject, 26, lines=False), x=0, y=middle + 4, fill=_INK)
    yield el("path", d=f"M{_LEFT} {middle}H{_WIDTH}", stroke="#8c959f")
    dots = "".join(f"M{x} {y}h0" for at, (x, y) in enumerate(points) if strip.ratios[at] and at not in outliers)
    if dots:
        yield el("path", d=dots, stroke="#7d8590", stroke_width=3, stroke_linecap="round", fill="none")
    colour = "#9a6700" if strip.split else _RED
    for number, at in enumerate(sorted(outliers, key=lambda at: -strip.ratios[at])):
        (x, y), name = points[at], f"{plain(group.cards[at], 40, lines=False)} {100 * (strip.ratios[at] - 1):+.1f} %"
        yield el("circle", el("title", name), cx=x, cy=y, r=4, fill=colour)
        if number < _MOST_NAMED:
            place = {"x": x + 7} if x < _WIDTH - 180 else {"x": x - 7, "text_anchor": "end"}
            yield el("text", name, y=y + 4 + _LINE * (number % 3), fill=colour, **place)


def card_of(name: str) -> tuple[str, str]:
    """Return the host and the number of a card by its name in a group."""
    host, _, number = name.partition(":")
    return host, number or "0"


def _y(ratio: float, middle: int) -> float:
    return round(middle - min(max((ratio - 1) / _SPAN, -1.0), 1.0) * (_STRIP / 2 - 8), 1)

"""The fleet as a picture: a strip for each subject, hosts in place, the same in each; outliers stand out and are named. Plain SVG."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set

from stackproof.api.base import in_html, plain
from stackproof.extras.fleet import roster
from stackproof.extras.fleet.judgement import FleetJudgement, HostVerdict, JudgedGroup, SubjectStrip

_WIDTH, _LEFT, _STRIP, _HEAD = 960, 170, 66, 40
_SPAN = 0.10
"""A strip shows this much above and below the median; what is beyond stands at its edge."""
_MOST_NAMED = 6
_LINE = 13
_Odd = tuple[str, str, str]
"""Host, card, subject."""
_COLOURS = {"plain": "#7d8590", "odd": "#d1242f", "split": "#9a6700", "ink": "currentColor", "line": "#8c959f"}


def svg(found: FleetJudgement) -> str:
    """Return the picture of all groups, one below the other; a title says what is to be seen, to those who hear it too."""
    body, high = roster.drawn(found, _WIDTH, 10)
    y = high + 20
    odd = {(host.host, one.card, one.subject) for host in found.hosts for one in host.findings}
    for group in found.groups:
        body += _head(group, found, y)
        y += _HEAD
        for strip in group.strips:
            body += _strip(group, strip, y, odd)
            y += _STRIP
    height = max(y + 10, 40)
    title = in_html(found.headline)
    size = f'viewBox="0 0 {_WIDTH} {height}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{title}" class="fleet">'
    return "\n".join([head, f"<title>{title}</title>", *body, "</svg>", ""])


def _head(group: JudgedGroup, found: FleetJudgement, y: int) -> Iterator[str]:
    """Yield what the group is, and who of it computes wrong, which no strip shows."""
    yield _text(
        0,
        y + 12,
        f"group {group.name}: {group.hosts} hosts, {plain(group.architecture, 100, lines=False)}",
        "ink",
        bold=True,
    )
    wrong = [host.host for host in found.hosts if host.group == group.name and host.standing is HostVerdict.WRONG]
    if wrong:
        more = f" and {len(wrong) - _MOST_NAMED} more" if len(wrong) > _MOST_NAMED else ""
        yield _text(0, y + 28, f"wrong: {plain(', '.join(wrong[:_MOST_NAMED]), 300, lines=False)}{more}", "odd")


def _strip(group: JudgedGroup, strip: SubjectStrip, y: int, odd: Set[_Odd]) -> Iterator[str]:
    """Yield the middle line, a dot for each card, the outliers last and named."""
    middle, place = y + _STRIP // 2, _places(len(strip.ratios))
    yield _text(0, middle + 4, plain(strip.subject, 26, lines=False), "ink")
    yield f'<path d="M{_LEFT} {middle}H{_WIDTH}" stroke="{_COLOURS["line"]}"/>'
    named = _outliers(group, strip, odd)
    dots = [f"M{place[at]} {_y(ratio, middle)}h0" for at, ratio in enumerate(strip.ratios) if ratio and at not in named]
    if dots:
        yield f'<path d="{"".join(dots)}" stroke="{_COLOURS["plain"]}" stroke-width="3" stroke-linecap="round" fill="none"/>'
    for number, at in enumerate(named):
        name = f"{plain(group.cards[at], 40, lines=False)} {100 * (strip.ratios[at] - 1):+.1f} %"
        y_name = _y(strip.ratios[at], middle) + 4 + _LINE * (number % 3)
        colour = "split" if strip.split else "odd"
        yield from _outlier(place[at], _y(strip.ratios[at], middle), y_name, name, colour, number < _MOST_NAMED)


def _outliers(group: JudgedGroup, strip: SubjectStrip, odd: Set[_Odd]) -> list[int]:
    """Return the places of cards that something is odd about in this subject, the slowest first."""
    found = [at for at, card in enumerate(group.cards) if (*_named(card), strip.subject) in odd and strip.ratios[at]]
    return sorted(found, key=lambda at: -strip.ratios[at])


def _named(card: str) -> tuple[str, str]:
    host, _, number = card.partition(":")
    return host, number or "0"


def _outlier(x: float, y: float, y_name: float, name: str, colour: str, named: bool) -> Iterator[str]:
    yield f'<circle cx="{x}" cy="{y}" r="4" fill="{_COLOURS[colour]}"><title>{in_html(name)}</title></circle>'
    if named:
        left = x < _WIDTH - 180
        yield _text(x + 7 if left else x - 7, y_name, name, colour, end=not left)


def _places(count: int) -> Sequence[float]:
    step = (_WIDTH - _LEFT - 20) / max(count, 1)
    return [round(_LEFT + 10 + step * (at + 0.5), 1) for at in range(count)]


def _y(ratio: float, middle: int) -> float:
    """Slower stands higher."""
    share = min(max((ratio - 1) / _SPAN, -1.0), 1.0)
    return round(middle - share * (_STRIP / 2 - 8), 1)


def _text(x: float, y: float, words: str, colour: str, *, bold: bool = False, end: bool = False) -> str:
    more = (' font-weight="600"' if bold else "") + (' text-anchor="end"' if end else "")
    dress = f'font-size="12" font-family="sans-serif" fill="{_COLOURS[colour]}"{more}'
    return f'<text x="{x}" y="{y}" {dress}>{in_html(words)}</text>'

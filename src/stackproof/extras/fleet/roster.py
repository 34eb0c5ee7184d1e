"""All hosts of a fleet in place, a square each in the colour of its word, also those that no strip shows: alone, unlike or not reached."""

from __future__ import annotations

import math
from collections.abc import Iterator

from stackproof.api.base import in_html, plain
from stackproof.extras.fleet.judgement import FleetJudgement, HostVerdict, JudgedHost

_SIZES = (12, 10, 8, 6, 4, 3, 2)
_HIGH, _LINE = 84, 15
_MOST_TITLED = 500
_COLOURS = {
    HostVerdict.PROVED: "#2da44e", HostVerdict.WRONG: "#d1242f", HostVerdict.SLOW: "#d1242f", HostVerdict.SUSPECTED: "#bf8700",
    HostVerdict.UNDECIDED: "#bf8700", HostVerdict.UNLIKE: "#8250df", HostVerdict.INCOMPLETE: "#57606a", HostVerdict.NOT_REACHED: "#57606a",
}  # fmt: skip
_HOLLOW = (HostVerdict.NOT_REACHED, HostVerdict.INCOMPLETE, HostVerdict.UNDECIDED)


def drawn(found: FleetJudgement, width: int, y: int) -> tuple[list[str], int]:
    """Return the squares with what each colour means, and how high they stand."""
    count = max(len(found.hosts), 1)
    size = next((one for one in _SIZES if math.ceil(count / (width // one)) * one <= _HIGH), _SIZES[-1])
    across = width // size
    places = {host.host: (size * (at % across), y + size * (at // across)) for at, host in enumerate(found.hosts)}
    body, titled = list[str](), 0
    for word in found.counts:
        hosts = [host for host in found.hosts if host.standing is word]
        alone = hosts[: _MOST_TITLED - titled] if word is not HostVerdict.PROVED or count <= _MOST_TITLED else []
        titled += len(alone)
        body += [_square(host, *places[host.host], size) for host in alone]
        if rest := [places[host.host] for host in hosts[len(alone) :]]:
            body.append(_many(rest, size, _COLOURS[word]))
    high = size * math.ceil(count / across) + _LINE
    return [*body, *_legend(found, y + high)], high + 10


def _square(host: JudgedHost, x: int, y: int, size: int) -> str:
    colour, inner = _COLOURS[host.standing], max(size - 2, 1)
    dress = f'fill="none" stroke="{colour}"' if host.standing in _HOLLOW else f'fill="{colour}"'
    said = in_html(plain(f"{host.host}: {host.standing.value}", 120, lines=False))
    return f'<rect x="{x + 0.5}" y="{y + 0.5}" width="{inner}" height="{inner}" {dress}><title>{said}</title></rect>'


def _many(places: list[tuple[int, int]], size: int, colour: str) -> str:
    half, inner = size / 2, max(size - 2, 1)
    dots = "".join(f"M{x + half - inner / 2} {y + half}h{inner}" for x, y in places)
    return f'<path d="{dots}" stroke="{colour}" stroke-width="{inner}" fill="none"/>'


def _legend(found: FleetJudgement, y: int) -> Iterator[str]:
    spans = "".join(
        f'<tspan fill="{_COLOURS[word]}" dx="12">{count} {word.value}</tspan>' for word, count in found.counts.items()
    )
    yield f'<text x="-12" y="{y}" font-size="12" font-family="sans-serif">{spans}</text>'

"""A gate for other places than a terminal: Markdown for a pull request or a job's summary, and a picture."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from pathlib import Path

from ..plaintext import plain
from ..records import Check, Record
from .showing import cell_name, footer, headline, ordered, sees, split, strip, word


def markdown(record: Record) -> str:
    """Return a comment for a pull request: the verdict, the cells that matter, everything else folded."""
    shown, equal = split(record)
    loud = [check for check in shown if word(check) not in ("SAME", "not judged")]
    parts = [f"### stackproof gate: {escape(headline(record).plain)}", ""]
    parts += _rows(loud) if loud else ["Every cell is the same within its minimum effect."]
    for line, _ in footer(record, equal):
        parts += ["", f"_{escape(line)}_"]
    parts += ["", f"<details><summary>all {len(ordered(record))} cells, and what was compared</summary>", ""]
    parts += [*_rows(ordered(record)), ""]
    parts += [f"- {escape(f'{name}: {value}')}" for name, value in sorted(record.provenance.items())]
    return "\n".join([*parts, "", "</details>", ""])


def _rows(checks: Sequence[Check]) -> list[str]:
    head = ["| | cell | better < same > worse | what was seen | sees from |", "|---|---|---|---|---:|"]
    return head + [
        f"| {word(check)} | {escape(cell_name(check))} | `{strip(check).replace('|', '¦')}` | {escape(check.reason)} | {sees(check)} |"
        for check in checks
    ]


def escape(text: str) -> str:
    """Names and reasons come from other people's machines: they are text, never markup."""
    shown = html.escape(plain(text), quote=False)
    for character in "\\`*_[]|#~":
        shown = shown.replace(character, f"\\{character}")
    return shown.replace("@", "@\u200b")


def picture(record: Record, path: Path) -> None:
    """Write an SVG with one strip per cell: a dot a launch, the interval as a bar, the minimum effect shaded."""
    checks = [check for check in ordered(record) if "ratio" in check.figures]
    high, wide, left = 26, 760, 300
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high * (len(checks) + 2)}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{wide}" height="{high * (len(checks) + 2)}" fill="white"/>',
        f'<text x="12" y="17" font-weight="bold">{html.escape(headline(record).plain[:110])}</text>',
    ]
    for number, check in enumerate(checks):
        parts += _drawn(check, high * (number + 1), left, wide - 12)
    foot = high * (len(checks) + 1) + 16
    parts.append(f'<text x="{left}" y="{foot}" fill="#666">better</text>')
    parts.append(f'<text x="{wide - 12}" y="{foot}" fill="#666" text-anchor="end">worse</text></svg>\n')
    path.write_text("\n".join(parts), encoding="utf-8")


def _drawn(check: Check, top: int, left: int, right: int) -> list[str]:
    reach = 3 * math.log1p(float(check.figures["minimum effect"]))
    middle = top + 13

    def x(ratio: float) -> float:
        return left + (right - left) * min(1.0, max(0.0, (math.log(ratio) / reach + 1) / 2))

    effect = 1 + float(check.figures["minimum effect"])
    low, high, centre = (float(check.figures[name]) for name in ("ratio, low", "ratio, high", "ratio"))
    colour = {"SLOWER": "#c0392b", "FASTER": "#27803a"}.get(word(check), "#555")
    dots = [float(value) for name, value in check.figures.items() if name.startswith("launch ")]
    return [
        f'<text x="{left - 10}" y="{middle + 4}" text-anchor="end">{html.escape(cell_name(check))} '
        f'<tspan fill="{colour}" font-weight="bold">{word(check)}</tspan></text>',
        f'<rect x="{x(1 / effect):.1f}" y="{top + 2}" width="{x(effect) - x(1 / effect):.1f}" height="22" fill="#eef1f4"/>',
        f'<line x1="{x(1):.1f}" x2="{x(1):.1f}" y1="{top + 2}" y2="{top + 24}" stroke="#999"/>',
        f'<rect x="{x(low):.1f}" y="{middle - 4}" width="{max(1.0, x(high) - x(low)):.1f}" height="8" fill="{colour}" opacity="0.35"/>',
        *(f'<circle cx="{x(dot):.1f}" cy="{middle}" r="2.2" fill="{colour}" opacity="0.6"/>' for dot in dots),
        f'<circle cx="{x(centre):.1f}" cy="{middle}" r="4" fill="{colour}"/>',
    ]

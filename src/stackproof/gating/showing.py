"""What people see of a gate: one line that says whether to merge, a table, Markdown for a pull request, a picture per cell.

Everything is made from the record, so that one from another machine shows the same.
"""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..console import plain, plain_console
from ..records import Check, Record, Verdict

_WIDTH = 31
_WORDS = {
    Verdict.PASSED: ("nothing is worse", "green"),
    Verdict.FAILED: ("DO NOT MERGE: worse", "bold red"),
    Verdict.CRASHED: ("DO NOT MERGE: a side crashed", "bold red"),
    Verdict.HUNG: ("DO NOT MERGE: a side hung", "bold red"),
    Verdict.INCONCLUSIVE: ("CANNOT SAY", "yellow"),
}
_REMEDY = (
    "inconclusive: the noise hides an answer. Run it again with more --minutes on a quieter machine, or judge the cells by eye; "
    "--allow-inconclusive lets such a gate pass"
)


def show(record: Record, console: Console | None = None) -> None:
    """Print the verdict first, then the cells, the worst on top, then what to do."""
    console = console or plain_console()
    console.print(headline(record))
    table = Table(box=box.SIMPLE_HEAD, expand=False)
    for title, extra in (("", {}), ("cell", {"overflow": "fold"}), ("better  <  same  >  worse", {"no_wrap": True})):
        table.add_column(title, **extra)  # type: ignore[arg-type]
    table.add_column("what was seen", overflow="fold", ratio=1)
    for check in ordered(record):
        verdict = Text(_word(check), style=_style(check))
        table.add_row(verdict, plain(_cell(check)), strip(check), Text(plain(check.reason)))
    console.print(table)
    if record.verdict is Verdict.INCONCLUSIVE:
        console.print(Text(_REMEDY, style="yellow"), soft_wrap=True)


def headline(record: Record) -> Text:
    """Return the one line that decides: the verdict, how many cells say what, between what."""
    words, style = _WORDS.get(record.verdict, (record.verdict.value, "bold red"))
    between = f"{record.provenance.get('head', 'head')} against {record.provenance.get('base', 'base')}"
    how = record.provenance.get("method", "")
    return Text(plain(f"{words}: {_tally(record)} - {record.stack}: {between} ({how})"), style=style)


def _tally(record: Record) -> str:
    counts: dict[str, int] = {}
    for check in record.checks:
        if check.id.startswith("gate/"):
            counts[_word(check)] = counts.get(_word(check), 0) + 1
    return ", ".join(f"{count} {word}" for word, count in sorted(counts.items(), key=lambda item: _RANK.index(item[0])))


_RANK = ["HUNG", "CRASHED", "WRONG", "SLOWER", "INCONCLUSIVE", "FASTER", "SAME", "blind", "not judged"]


def _word(check: Check) -> str:
    first = check.reason.split(" ", 1)[0]
    if first in ("FASTER", "SAME", "SLOWER") and check.verdict in (Verdict.PASSED, Verdict.FAILED):
        return first
    special = {
        Verdict.FAILED: "WRONG",
        Verdict.CRASHED: "CRASHED",
        Verdict.HUNG: "HUNG",
        Verdict.INCONCLUSIVE: "INCONCLUSIVE",
        Verdict.SKIPPED: "blind" if "ratio" in check.figures else "not judged",
    }
    return special.get(check.verdict, "not judged")


def ordered(record: Record) -> list[Check]:
    """Return the gate's checks, those first that a reader must see."""
    own = [check for check in record.checks if check.id.startswith("gate/")]
    return sorted(own, key=lambda check: (_RANK.index(_word(check)), -float(check.figures.get("ratio", 1.0)), check.id))


def strip(check: Check) -> str:
    """Return a line of characters: the launches' ratios (:), the interval (=), equality (|); the edges are three minimum effects away."""
    ratios = [float(value) for name, value in check.figures.items() if name.startswith("launch ")]
    if "ratio" not in check.figures or not ratios:
        return " " * _WIDTH
    reach = 3 * math.log1p(float(check.figures["minimum effect"]))
    cells = [" "] * _WIDTH
    low, high = (_place(float(check.figures[f"ratio, {end}"]), reach) for end in ("low", "high"))
    for place in range(low, high + 1):
        cells[place] = "="
    for ratio in ratios:
        cells[_place(ratio, reach)] = ":"
    cells[_place(1.0, reach)] = "|"
    cells[_place(float(check.figures["ratio"]), reach)] = "o"
    return "".join(cells)


def _place(ratio: float, reach: float) -> int:
    share = (math.log(ratio) / reach + 1) / 2
    return min(_WIDTH - 1, max(0, round(share * (_WIDTH - 1))))


def _cell(check: Check) -> str:
    return check.id.removeprefix("gate/").replace("::", " ")


def _style(check: Check) -> str:
    return {"SAME": "dim", "FASTER": "green", "blind": "yellow", "INCONCLUSIVE": "yellow"}.get(_word(check), "")  or (
        "bold red" if check.verdict.exit_code else "dim"
    )  # fmt: skip


def markdown(record: Record) -> str:
    """Return a comment for a pull request: the verdict, the cells that matter, everything else folded."""
    checks = ordered(record)
    loud = [check for check in checks if _word(check) not in ("SAME", "not judged")]
    parts = [f"### stackproof gate: {_escape(headline(record).plain)}", ""]
    parts += _rows(loud) if loud else ["Every cell is the same within its minimum effect."]
    if record.verdict is Verdict.INCONCLUSIVE:
        parts += ["", f"_{_escape(_REMEDY)}_"]
    parts += ["", f"<details><summary>all {len(checks)} cells, and what was compared</summary>", "", *_rows(checks), ""]
    parts += [f"- {_escape(f'{name}: {value}')}" for name, value in sorted(record.provenance.items())]
    return "\n".join([*parts, "", "</details>", ""])


def _rows(checks: Sequence[Check]) -> list[str]:
    head = ["| | cell | better < same > worse | what was seen |", "|---|---|---|---|"]
    return head + [
        f"| {_word(check)} | {_escape(_cell(check))} | `{strip(check).replace('|', '¦')}` | {_escape(check.reason)} |"
        for check in checks
    ]


def _escape(text: str) -> str:
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
    colour = {"SLOWER": "#c0392b", "FASTER": "#27803a"}.get(_word(check), "#555")
    dots = [float(value) for name, value in check.figures.items() if name.startswith("launch ")]
    return [
        f'<text x="{left - 10}" y="{middle + 4}" text-anchor="end">{html.escape(_cell(check))} '
        f'<tspan fill="{colour}" font-weight="bold">{_word(check)}</tspan></text>',
        f'<rect x="{x(1 / effect):.1f}" y="{top + 2}" width="{x(effect) - x(1 / effect):.1f}" height="22" fill="#eef1f4"/>',
        f'<line x1="{x(1):.1f}" x2="{x(1):.1f}" y1="{top + 2}" y2="{top + 24}" stroke="#999"/>',
        f'<rect x="{x(low):.1f}" y="{middle - 4}" width="{max(1.0, x(high) - x(low)):.1f}" height="8" fill="{colour}" opacity="0.35"/>',
        *(f'<circle cx="{x(dot):.1f}" cy="{middle}" r="2.2" fill="{colour}" opacity="0.6"/>' for dot in dots),
        f'<circle cx="{x(centre):.1f}" cy="{middle}" r="4" fill="{colour}"/>',
    ]

"""What people see of a gate in a terminal: one line that says whether to merge, the cells that matter, and what to do.

Everything is made from the record, so that one from another machine shows the same.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..console import plain, plain_console
from ..records import Check, Record, Verdict
from .concluding import CONDITIONS

_WIDTH = 31
_WORDS = {
    Verdict.PASSED: ("OK TO MERGE: nothing is worse", "bold green"),
    Verdict.FAILED: ("DO NOT MERGE", "bold red"),
    Verdict.CRASHED: ("DO NOT MERGE: a side crashed", "bold red"),
    Verdict.HUNG: ("DO NOT MERGE: a side hung", "bold red"),
    Verdict.INCONCLUSIVE: ("CANNOT SAY", "bold yellow"),
    Verdict.INTERRUPTED: ("INTERRUPTED: says nothing", "bold yellow"),
}
_REMEDIES = {
    Verdict.INCONCLUSIVE: "the noise hides an answer: run it again with more --minutes on a quieter machine, or compare fewer subjects "
    "with --only; the counters above are exact whatever the noise. --allow-inconclusive lets such a gate pass",
    Verdict.FAILED: "look at the cells on top; `--only SUBJECT` compares one alone. A retry until it passes is no evidence: more launches "
    "than were declared make the promise void",
    Verdict.HUNG: "the sentence says where the side was; on a slow host --deadline-scale 3 gives more time",
    Verdict.CRASHED: "the sentence has the side's last words; its whole output is beside the record",
}
_RANK = ["HUNG", "CRASHED", "INTERRUPTED", "WRONG", "SLOWER", "INCONCLUSIVE", "FASTER", "SAME", "blind", "not judged"]


def show(record: Record, console: Console | None = None) -> None:
    """Print the verdict, the cells with the worst on top, what is equal in one line, what disturbed it, and what to do."""
    console = console or plain_console()
    console.print(headline(record), soft_wrap=True)
    shown, equal = split(record)
    table = Table(box=box.SIMPLE_HEAD, expand=False)
    for title, extra in (
        ("", {"no_wrap": True}), ("cell", {"overflow": "fold"}), ("better  <  same  >  worse", {"no_wrap": True}),
        ("what was seen", {"overflow": "fold", "ratio": 1}), ("sees from", {"justify": "right", "no_wrap": True}),
    ):  # fmt: skip
        table.add_column(title, **extra)
    for check in shown:
        reason = Text(plain(check.reason.removeprefix(f"{word(check)} ")))
        table.add_row(
            Text(word(check), style=_style(check)), plain(cell_name(check)), strip(check), reason, sees(check)
        )
    if shown:
        console.print(table)
    for line, style in footer(record, equal):
        console.print(Text(plain(line), style=style), soft_wrap=True)


def headline(record: Record) -> Text:
    """Return the one line that decides: the verdict, how many cells say what, between what."""
    words, style = _WORDS.get(record.verdict, (record.verdict.value, "bold red"))
    between = f"{record.provenance.get('head', 'head')} against {record.provenance.get('base', 'base')}"
    how = record.provenance.get("method", "")
    return Text(plain(f"{words} ({tally(cells(record))}) - {record.stack}: {between} ({how})"), style=style)


def footer(record: Record, equal: list[Check]) -> list[tuple[str, str]]:
    """Return the lines below the cells, with a style each: what is exactly equal, what disturbed the run, what to do."""
    lines = []
    if equal:
        names = dict.fromkeys(check.id.rpartition("::")[2] for check in equal)
        lines.append((f"equal to the count in {len(equal)} cells: {', '.join(names)}", "dim"))
    blind = [cell_name(check) for check in cells(record) if word(check) == "blind"]
    if blind:
        lines.append((f"does not gate, because its noise hides the minimum effect: {', '.join(blind)}", "yellow"))
    conditions = next((check.reason for check in record.checks if check.id == CONDITIONS), "")
    if conditions:
        lines.append((f"conditions: {conditions}", "dim"))
    if remedy := _REMEDIES.get(record.verdict):
        lines.append((f"what to do: {remedy}", "yellow"))
    return lines


def cells(record: Record) -> list[Check]:
    """Return the checks that compare something."""
    return [check for check in record.checks if check.id.startswith("gate/") and check.id != CONDITIONS]


def split(record: Record) -> tuple[list[Check], list[Check]]:
    """Return what is worth a row, the worst first, and the counters that are equal on both sides."""
    own = ordered(record)
    equal = [check for check in own if word(check) == "SAME" and "ratio" not in check.figures]
    return [check for check in own if check not in equal], equal


def ordered(record: Record) -> list[Check]:
    """Return the gate's checks, those first that a reader must see."""
    return sorted(
        cells(record), key=lambda check: (_RANK.index(word(check)), -float(check.figures.get("ratio", 1.0)), check.id)
    )


def tally(checks: Iterable[Check]) -> str:
    """Return how many cells say what."""
    counts: dict[str, int] = {}
    for check in checks:
        counts[word(check)] = counts.get(word(check), 0) + 1
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items(), key=lambda item: _RANK.index(item[0])))


def word(check: Check) -> str:
    """Return the one word of a cell."""
    first = check.reason.split(" ", 1)[0]
    if first in ("FASTER", "SAME", "SLOWER") and check.verdict in (Verdict.PASSED, Verdict.FAILED):
        return first
    special = {
        Verdict.FAILED: "WRONG",
        Verdict.CRASHED: "CRASHED",
        Verdict.HUNG: "HUNG",
        Verdict.INTERRUPTED: "INTERRUPTED",
        Verdict.INCONCLUSIVE: "INCONCLUSIVE",
        Verdict.SKIPPED: "blind" if "ratio" in check.figures else "not judged",
    }
    return special.get(check.verdict, "not judged")


def cell_name(check: Check) -> str:
    """Return a cell's name for people."""
    return check.id.removeprefix("gate/").replace("::", " ")


def sees(check: Check) -> str:
    """Return the smallest change that this cell would have found with a power of 0.8; nothing for what is exact."""
    visible = check.figures.get("minimum detectable effect")
    return f"{100 * float(visible):.1f} %" if visible is not None else ""


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


def _style(check: Check) -> str:
    calm = {"SAME": "dim", "FASTER": "green", "blind": "yellow", "INCONCLUSIVE": "yellow"}
    return calm.get(word(check), "") or ("bold red" if check.verdict.exit_code else "dim")

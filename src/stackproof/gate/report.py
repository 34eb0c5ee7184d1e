"""A gate for people, from its record alone: lines in a terminal, and Markdown for a pull request or a job's summary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from rich.console import Console

from stackproof.record import outline
from stackproof.record.console import plain_console
from stackproof.record.outline import Fold, Heading, Span, TextLine, TextTable
from stackproof.record.records import CellWord, Check, Kind, Record, Verdict

FLAG = "--accept-changed"
"""What lets sides that compute different things pass, if they are meant to; the page says so."""
SMALLEST = "finds from"
"""The title of the column of the smallest change that a row would have found."""
UNVERIFIED = "nothing was verified"
"""What a gate says of a command that reported no figure to compare; it stands in the first line of every output."""
_WORDS = {
    Verdict.PASSED: ("OK TO MERGE: nothing is worse", "bold green", "not compared"),
    Verdict.FAILED: ("DO NOT MERGE", "bold red", "WRONG"),
    Verdict.CRASHED: ("DO NOT MERGE: a side crashed", "bold red", "CRASHED"),
    Verdict.HUNG: ("DO NOT MERGE: a side hung", "bold red", "HUNG"),
    Verdict.INCONCLUSIVE: ("CANNOT SAY", "bold yellow", "INCONCLUSIVE"),
    Verdict.INTERRUPTED: ("INTERRUPTED: says nothing", "bold yellow", "INTERRUPTED"),
}
"""The first words of a gate by its verdict, their style, and the word of a row that could not be compared."""
_PLAIN = {CellWord.BLIND: "too noisy", CellWord.NOT_JUDGED: "not compared"}
"""What people read in place of a word of the record."""
_REMEDIES = {
    Verdict.INCONCLUSIVE: "too few launches or too much noise to tell: run it again on a quieter machine (with more --minutes where they "
    "were over), or compare less: fewer benchmarks with --only, or a metric that varies less. --allow-inconclusive lets such a gate pass",
    Verdict.FAILED: "look at the rows on top; what each side printed is beside the record. Running it again until it passes proves nothing",
    Verdict.HUNG: "the sentence says where the side was; on a slow host --deadline-scale 3 gives more time",
    Verdict.CRASHED: "the sentence has the side's last words; its whole output is beside the record",
}
_RANK = (
    *("HUNG", "CRASHED", "INTERRUPTED", "WRONG", "CHANGED", "SLOWER", "INCONCLUSIVE", "FASTER", "SAME", "too noisy"),
    "not compared",
)


def show(record: Record, console: Console | None = None) -> None:
    """Print the verdict, the rows with the worst on top, what is equal or was not compared in a line each, and what to do."""
    shown, rest = split(record)
    table = [_table(shown)] if shown else []
    outline.show([TextLine(headline(record)), *table, *footer(record, rest)], console or plain_console())


def markdown(record: Record) -> str:
    """Return a comment for a pull request: the verdict, the cells that matter, everything else folded."""
    shown, rest = split(record)
    loud = [check for check in shown if word(check) != "SAME"]
    facts = [TextLine(f"{name}: {value}", 1) for name, value in sorted(record.provenance.items())]
    same = any(word(check) == "SAME" for check in cells(record))
    return outline.markdown([
        Heading(("stackproof gate: ", headline(record)), 3),
        _table(loud) if loud else TextLine("Whatever could be compared is the same." if same else "Nothing could be compared."),
        *footer(record, rest),
        Fold(f"all {len(cells(record))} rows, and what was compared", [_table(ordered(record)), *facts]),
    ])  # fmt: skip


def _table(checks: Sequence[Check]) -> TextTable:
    rows = [
        (
            Span(word(check), _style(check)), cell_name(check), check.reason.removeprefix(f"{word(check)} "), sees(check),
        )
        for check in checks
    ]  # fmt: skip
    return TextTable(("", "compared", "result", SMALLEST), rows, right={3}, wide={2})


def headline(record: Record) -> Span:
    """Return the one line that decides: the verdict, how many rows say what, between what."""
    words, style, _ = _WORDS.get(record.verdict, (record.verdict.value, "bold red", ""))
    exact = {word(check) for check in cells(record) if check.subject != "run" and "ratio" not in check.figures}
    if record.verdict is Verdict.INCONCLUSIVE and "SAME" in exact and "INCONCLUSIVE" not in exact:
        words = "CANNOT SAY of speed; results and counts are the same"
    if changed := [check for check in cells(record) if word(check) == "CHANGED"]:
        words, style = _with_changes(record, changed, words, style)
    between = f"{record.provenance.get('head', 'head')} against {record.provenance.get('base', 'base')}"
    how = record.provenance.get("method", "")
    if str(record.provenance.get("verified", "")).startswith(UNVERIFIED):
        how = f"{how}; {UNVERIFIED.upper()}"
    times = f"; {record.provenance['times']}" if "times" in record.provenance else ""
    return Span(f"{words} ({tally(cells(record))}){times} - {record.stack}: {between} ({how})", style)


def _with_changes(record: Record, changed: list[Check], words: str, style: str) -> tuple[str, str]:
    """CHANGED is a word of its own, and stays in the first line when it was accepted."""
    if record.verdict is not Verdict.FAILED:
        return f"{words}, but CHANGED, which was accepted", "bold yellow"
    alone = all(check in changed for check in cells(record) if check.verdict is Verdict.FAILED)
    return ("CHANGED: the sides do not compute the same", style) if alone else (f"{words}, and CHANGED", style)


def footer(record: Record, rest: Sequence[Check]) -> Iterator[TextLine]:
    """Yield the lines below the rows: what is exactly equal, what was not compared, what disturbed the run, what to do."""
    for title, reason in dict.fromkeys(map(_folded, rest)):
        alike = [check for check in rest if _folded(check) == (title, reason)]
        counts, last = Counter(check.aspect for check in alike), {check.aspect: cell_name(check) for check in alike}
        shown = ", ".join(last[name] if count == 1 else f"{name} ({count})" for name, count in counts.items())
        yield TextLine(Span(f"{title}: {shown}{reason}", "dim"))
    if conditions := next((check.reason for check in record.checks if check.kind is Kind.CONDITIONS), ""):
        yield TextLine(Span(f"conditions: {conditions}", "dim"))
    remedy = _REMEDIES.get(record.verdict, "")
    if any(word(check) == "CHANGED" and check.verdict.exit_code for check in cells(record)):
        remedy = f"if the change is meant, {FLAG} lets it pass and the page says so; else find it"
    if remedy:
        yield TextLine(Span(f"what to do: {remedy}", "yellow"))


def _folded(check: Check) -> tuple[str, str]:
    """Return the line that a check is only counted in, and the reason that stands there; nothing for one that has a row of its own."""
    if word(check) == "SAME" and "ratio" not in check.figures:
        return "exactly equal", ""
    if word(check) == "not compared" and not check.verdict.exit_code:
        return "not compared", f": {check.reason}"
    return "", ""


def cells(record: Record) -> list[Check]:
    """Return the checks that compare something."""
    return [check for check in record.checks if check.kind is Kind.CELL]


def split(record: Record) -> tuple[list[Check], list[Check]]:
    """Return what is worth a row, the worst first, and what a line below the rows sums up."""
    own = ordered(record)
    return [check for check in own if not _folded(check)[0]], [check for check in own if _folded(check)[0]]


def ordered(record: Record) -> list[Check]:
    """Return the gate's checks, those first that a reader must see."""
    return sorted(
        cells(record), key=lambda check: (_RANK.index(word(check)), -float(check.figures.get("ratio", 1.0)), check.id)
    )


def tally(checks: Iterable[Check]) -> str:
    counts = Counter(map(word, checks))
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items(), key=lambda item: _RANK.index(item[0])))


def word(check: Check) -> str:
    """Return the one word of a cell: its own, or what became of a subject that could not be compared."""
    if check.outcome:
        return _PLAIN.get(check.outcome, check.outcome.value)
    return _WORDS.get(check.verdict, ("", "", "not compared"))[2]


def cell_name(check: Check) -> str:
    return f"{check.subject} {check.aspect}"


def sees(check: Check) -> str:
    """Return the smallest change that this cell would have found with a power of 0.8; nothing for what is exact."""
    visible = check.figures.get("minimum detectable effect")
    return f"{100 * float(visible):.1f} %" if visible is not None else ""


def _style(check: Check) -> str:
    calm = {"SAME": "dim", "CHANGED": "bold yellow", "FASTER": "green", "too noisy": "yellow", "INCONCLUSIVE": "yellow"}
    return calm.get(word(check), "") or ("bold red" if check.verdict.exit_code else "dim")

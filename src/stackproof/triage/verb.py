"""The verb: reads what is named, shows the root cause first, then why, what to do and the lines that prove it; writes a record if asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from rich.console import Console

from stackproof.base.text import first_few, plain
from stackproof.record import outline
from stackproof.record.console import plain_console
from stackproof.record.outline import Span, TextLine
from stackproof.record.records import Verdict, overall
from stackproof.triage import logs as sources
from stackproof.triage import reports
from stackproof.triage.causes import Incident
from stackproof.triage.facts import NO
from stackproof.triage.reports import Report
from stackproof.triage.rules import UNKNOWN
from stackproof.triage.search import Hit

_LONGEST = 240
_MOST = 12
_GOOD, _BAD, _DIM = "bold green", "bold red", "dim"
_STYLES = {"CLEAN": _GOOD, "HELD": _GOOD, "CANNOT SAY": "bold yellow", "ONLY A CONSEQUENCE": "bold yellow"}


def triage(
    logs: Sequence[str],
    expected: Sequence[str] = (),
    *,
    together: bool = False,
    json: Path | None = None,
    stack: str = "unknown",
) -> int:
    """Return 0 if all ended well, 1 if a run failed, contradicts itself or an expectation does not hold, 6 if no log says so.

    Raises:
        Refusal: a log cannot be read, or an expectation is not known.
    """
    reports.check_expectations(expected)
    rows = [reports.report(run, expected) for run in sources.runs(logs, together)]
    if json:
        from stackproof.record import writer

        writer.keep(reports.record(rows, stack), json)
    show(rows)
    return overall(row.verdict for row in rows).exit_code


def show(rows: Sequence[Report], console: Console | None = None) -> None:
    """Print the reports; nothing of a log is taken for markup or obeyed by the terminal."""
    parts = list[TextLine]()
    for report in rows:
        parts += [TextLine("")] if parts else []
        parts += _page(report, f"{report.name}: " if len(rows) > 1 else "")
    if len(rows) > 1:
        counts = Counter(report.verdict for report in rows)
        wrong, well, unsaid = (counts[word] for word in (Verdict.FAILED, Verdict.PASSED, Verdict.INCONCLUSIVE))
        summary = f"{len(rows)} runs: {wrong} with something wrong, {well} that ended well, {unsaid} of which the logs do not say"
        parts += [TextLine(""), _line("", summary, "bold")]
    outline.show(parts, console or plain_console())


def safe(text: str) -> str:
    """Return a line of a log so that it can be shown: short, on one line, without control characters."""
    flat = plain(text.replace("\n", " / ").replace("\t", " "))
    return flat if len(flat) <= _LONGEST else flat[: _LONGEST - 1] + "\u2026"


def _line(label: str, text: str, style: str = "default") -> TextLine:
    return TextLine((Span(f"  {label:<18} " if label else "", _DIM), Span(safe(text), f"{_DIM} {style}")))


def _page(report: Report, name: str) -> Iterator[TextLine]:
    judgement = report.judgement
    word, sentence = reports.headline(report)
    yield TextLine((Span(f"{word}  ", _STYLES.get(word, _BAD)), Span(safe(name + sentence), "bold default")))
    files = report.evidence.files
    names = first_few([file.name for file in files])
    damage = "".join(f"; {file.name} {file.damage}" for file in files if file.damage)
    yield _line("log", f"{names}: {sum(file.lines for file in files)} lines{damage}")
    yield from _root(report, judgement.root) if judgement.root else ()
    for label, incidents in (
        ("also failed", judgement.others),
        ("follows from it", judgement.consequences),
        ("seen, and survived", judgement.survived),
        ("in an earlier run", judgement.earlier),
    ):
        yield from _failures(report, label, incidents)
    hits = sorted(
        (hit for tally in report.evidence.mentioned.values() for hit in tally.kept), key=lambda hit: hit.place
    )
    for text in list(dict.fromkeys(f"{reports.place(report, hit)}: {hit.text.strip()}" for hit in hits))[:_MOST]:
        yield _line("only mentioned", text, _DIM)
    yield from _expectations(report)
    if report.training:
        yield _line("training", reports.training(report.training))
    for oddity in report.oddities:
        yield _line("wrong" if oddity.wrong else "odd", oddity.sentence, _BAD if oddity.wrong else "yellow")
    yield from _facts(report)
    odd = {row.first.place for row in report.shown if row.fact.odd}
    for noise in [row for row in judgement.noise if row.first.place not in odd][:_MOST]:
        yield _line("harmless", f"{noise.title}{_times(noise)}", _DIM)
    if report.verdict is Verdict.INCONCLUSIVE:
        yield from (_line("do", step) for step in reports.next_steps(report))


def _root(report: Report, root: Incident) -> Iterator[TextLine]:
    signature = f"{root.signature}, " if root.signature else ""
    yield _line("cause", root.cause)
    yield _line("do", root.remedy)
    if root.link:
        yield _line("link", root.link)
    yield _line("confidence", f"{signature}{reports.confidence(root, report.judgement)}")
    if report.judgement.collective:
        yield _line("last collective", report.judgement.collective)
    yield from _proof(report, root.hits)


def _proof(report: Report, hits: Iterable[Hit]) -> Iterator[TextLine]:
    for hit in hits:
        yield _line("", f"    {reports.place(report, hit)}: {hit.text.strip()}")
        if hit.block and hit.block.exception:
            yield from (_line("", f"        {text}") for text in (*hit.block.frames[-1:], hit.block.exception))


def _failures(report: Report, label: str, rows: Sequence[Incident]) -> Iterator[TextLine]:
    for row in rows[:_MOST]:
        who = reports.people(row.who)
        name = f" [{row.signature}]" if row.signature else f" ({UNKNOWN})"
        at = f"; {reports.place(report, row.first)}"
        yield _line(label, f"{f'{who}: ' if who else ''}{row.title}{name}{_times(row)}{at}")
    if len(rows) > _MOST:
        yield _line(label, f"and {len(rows) - _MOST} more")


def _expectations(report: Report) -> Iterator[TextLine]:
    for conflict in report.conflicts:
        yield _line("contradiction", conflict.title, "yellow")
        if conflict.remedy:
            yield _line("do", conflict.remedy)
        yield from _proof(report, (conflict.asked, conflict.shown))
    for answer in report.answers:
        yield _line(f"expected {answer.expectation.name}", answer.sentence, _GOOD if answer.holds else _BAD)
        for part in answer.parts:
            yield _line("", f"    {part.name}: {part.answer}")
            yield from _proof(report, part.against if part.answer == NO else part.for_it)


def _facts(report: Report) -> Iterator[TextLine]:
    for row in report.shown:
        if row.fact.odd:
            seen = ", ".join(value for value, _ in row.values)
            yield _line("odd", f"{row.fact.name} {seen}: {row.fact.odd}; {reports.place(report, row.first)}", "yellow")
    for group in ("versions", "topology"):
        shown = [row for row in report.shown if row.fact.group == group and not row.fact.odd]
        if shown:
            yield _line(group, "; ".join(f"{row.fact.name} {reports.values(row)}" for row in shown))


def _times(row: Incident) -> str:
    return f" ({row.count} lines)" if row.count > 1 else ""

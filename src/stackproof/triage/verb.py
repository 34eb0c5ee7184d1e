"""The verb: reads what is named, shows the root cause first, then why, what to do and the lines that prove it; writes a record if asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.text import Text

from stackproof.base.text import first_few, plain
from stackproof.record.console import plain_console
from stackproof.triage import logs as sources
from stackproof.triage import reports
from stackproof.triage.causes import Incident
from stackproof.triage.facts import NO, YES
from stackproof.triage.reports import Answered, Report
from stackproof.triage.rules import UNKNOWN
from stackproof.triage.search import Hit

_WORST_FIRST = (Answered.FAULTY, Answered.CANNOT_SAY)
_LONGEST = 240
_MOST = 12
_GOOD, _BAD, _DIM = "bold green", "bold red", "dim"
_STYLES = {"CLEAN": _GOOD, "HELD": _GOOD, "CANNOT SAY": "bold yellow", "ONLY A CONSEQUENCE": "bold yellow"}


@dataclass(frozen=True)
class Question:
    """What the command line asks."""

    logs: tuple[str, ...]
    expected: tuple[str, ...] = ()
    together: bool = False
    json: Path | None = None
    stack: str = "unknown"


def triage(question: Question) -> int:
    """Return 0 if all ended well, 1 if a run failed, contradicts itself or an expectation does not hold, 6 if no log says so.

    Raises:
        Refusal: a log cannot be read, or an expectation is not known.
    """
    reports.check_expectations(question.expected)
    rows = [reports.report(run, question.expected) for run in sources.runs(question.logs, question.together)]
    if question.json:
        from stackproof.record import writer

        writer.keep(reports.record(rows, question.stack), question.json)
    show(rows)
    verdicts = [row.verdict for row in rows]
    return int(next((verdict for verdict in _WORST_FIRST if verdict in verdicts), Answered.CLEAN))


def show(rows: Sequence[Report], console: Console | None = None) -> None:
    """Print the reports; nothing of a log is taken for markup or obeyed by the terminal."""
    console = console or plain_console()
    for number, report in enumerate(rows):
        if number:
            console.print()
        _Page(report, console).show(f"{report.name}: " if len(rows) > 1 else "")
    if len(rows) > 1:
        counts = Counter(report.verdict for report in rows)
        summary = "{} runs: {} with something wrong, {} that ended well, {} of which the logs do not say"
        console.print()
        _print(console, "", summary.format(len(rows), *(counts[Answered(code)] for code in (1, 0, 6))), "bold")


def safe(text: str) -> str:
    """Return a line of a log so that it can be shown: short, on one line, without control characters."""
    flat = plain(text.replace("\n", " / ").replace("\t", " "))
    return flat if len(flat) <= _LONGEST else flat[: _LONGEST - 1] + "\u2026"


def _print(console: Console, label: str, text: str, style: str = "default") -> None:
    console.print(Text(f"  {label:<18} " if label else "", style=_DIM).append(safe(text), style), soft_wrap=True)


class _Page:
    def __init__(self, report: Report, console: Console) -> None:
        self.report, self.console = report, console

    def show(self, name: str) -> None:
        report, judgement = self.report, self.report.judgement
        word, sentence = reports.headline(report)
        verdict = Text(f"{word}  ", style=_STYLES.get(word, _BAD)).append(safe(name + sentence), "default")
        self.console.print(verdict, soft_wrap=True)
        files = report.evidence.files
        names = first_few([file.name for file in files], 3)
        damage = "".join(f"; {file.name} {file.damage}" for file in files if file.damage)
        self.line("log", f"{names}: {sum(file.lines for file in files)} lines{damage}")
        if judgement.root:
            self.root(judgement.root)
        self.failures("also failed", judgement.others)
        self.failures("follows from it", judgement.consequences)
        self.failures("seen, and survived", judgement.survived)
        self.failures("in an earlier run", judgement.earlier)
        hits = sorted(
            (hit for tally in report.evidence.mentioned.values() for hit in tally.kept), key=lambda hit: hit.place
        )
        for text in list(dict.fromkeys(f"{reports.place(report, hit)}: {hit.text.strip()}" for hit in hits))[:_MOST]:
            self.line("only mentioned", text, _DIM)
        self.expectations()
        if report.training:
            self.line("training", reports.training(report.training))
        for oddity in report.oddities:
            self.line("wrong" if oddity.wrong else "odd", oddity.sentence, _BAD if oddity.wrong else "yellow")
        self.facts()
        odd = {row.first.place for row in report.shown if row.odd}
        for noise in [row for row in judgement.noise if row.first.place not in odd][:_MOST]:
            self.line("harmless", f"{noise.title}{_times(noise)}", _DIM)

    def line(self, label: str, text: str, style: str = "default") -> None:
        _print(self.console, label, text, style)

    def root(self, root: Incident) -> None:
        self.line("cause", root.cause)
        self.line("do", root.remedy)
        if root.link:
            self.line("link", root.link)
        signature = f"{root.signature}, " if root.signature else ""
        self.line("confidence", f"{signature}{reports.confidence(root, self.report.judgement)}")
        if self.report.judgement.collective:
            self.line("last collective", self.report.judgement.collective)
        self.proof(root.hits)

    def proof(self, hits: Iterable[Hit]) -> None:
        for hit in hits:
            self.line("", f"    {reports.place(self.report, hit)}: {hit.text.strip()}")
            if hit.block and hit.block.exception:
                for text in (*hit.block.frames[-1:], hit.block.exception):
                    self.line("", f"        {text}")

    def failures(self, label: str, rows: Sequence[Incident]) -> None:
        for row in rows[:_MOST]:
            who = reports.people(row.who)
            name = f" [{row.signature}]" if row.signature else f" ({UNKNOWN})"
            at = f"; {reports.place(self.report, row.first)}"
            self.line(label, f"{f'{who}: ' if who else ''}{row.title}{name}{_times(row)}{at}")
        if len(rows) > _MOST:
            self.line(label, f"and {len(rows) - _MOST} more")

    def expectations(self) -> None:
        for conflict in self.report.conflicts:
            self.line("contradiction", conflict.title, "yellow")
            if conflict.remedy:
                self.line("do", conflict.remedy)
            self.proof((conflict.asked, conflict.shown))
        for answer in self.report.answers:
            self.line(f"expected {answer.expectation.name}", answer.sentence, _GOOD if answer.holds else _BAD)
            for part in answer.parts:
                mixed = part.answer != YES and all(part.counts)
                counts = f" ({part.counts[0]} lines for it, {part.counts[1]} against)" if mixed else ""
                self.line("", f"    {part.name}: {part.answer}{counts}")
                self.proof(part.against if part.answer == NO else part.for_it)

    def facts(self) -> None:
        for row in self.report.shown:
            if row.odd:
                seen = ", ".join(value for value, _ in row.values)
                at = reports.place(self.report, row.first)
                self.line("odd", f"{row.name} {seen}: {row.odd}; {at}", "yellow")
        for group in ("versions", "topology"):
            shown = [row for row in self.report.shown if row.group == group and not row.odd]
            if shown:
                self.line(group, "; ".join(f"{row.name} {reports.values(row)}" for row in shown))


def _times(row: Incident) -> str:
    return f" ({row.count} lines)" if row.count > 1 else ""

"""A report on the terminal: the root cause on the first line, then why, what to do, and the lines that prove it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.text import Text

from stackproof.base.text import plain
from stackproof.record.console import plain_console
from stackproof.triage import reports as words
from stackproof.triage.facts import NO, YES, Answer, Part
from stackproof.triage.incidents import UNKNOWN, Incident
from stackproof.triage.probes import Hit
from stackproof.triage.reports import Answered, Report

_LONGEST = 240
_MOST = 12
_GOOD, _BAD, _DIM = "bold green", "bold red", "dim"
_STYLES = {"CLEAN": _GOOD, "HELD": _GOOD, "CANNOT SAY": "bold yellow", "ONLY A CONSEQUENCE": "bold yellow"}
# Marks that turn the direction of text, and separators that some terminals take for the end of a line.


def show(reports: Sequence[Report], console: Console | None = None) -> None:
    """Print the reports; nothing of a log is taken for markup or obeyed by the terminal."""
    console = console or plain_console()
    for number, report in enumerate(reports):
        if number:
            console.print()
        _show(report, console, f"{report.name}: " if len(reports) > 1 else "")
    if len(reports) > 1:
        counts = Counter(report.verdict for report in reports)
        said = f"{counts[Answered.FAULTY]} with something wrong, {counts[Answered.CLEAN]} that ended well"
        console.print()
        _line(
            console,
            "",
            f"{len(reports)} runs: {said}, {counts[Answered.CANNOT_SAY]} of which the logs do not say",
            "bold",
        )


def safe(text: str) -> str:
    """Return a line of a log so that it can be shown: short, on one line, without control characters."""
    flat = plain(text.replace("\n", " / ").replace("\t", " "))
    return flat if len(flat) <= _LONGEST else flat[: _LONGEST - 1] + "\u2026"


def _show(report: Report, console: Console, name: str) -> None:
    word, sentence = words.headline(report)
    console.print(
        Text(f"{word}  ", style=_STYLES.get(word, _BAD)).append(safe(name + sentence), "default"), soft_wrap=True
    )
    _line(console, "log", _files(report))
    if root := report.judgement.root:
        _root(root, report, console)
    _failures("also failed", report.judgement.others, report, console)
    _failures("follows from it", report.judgement.consequences, report, console)
    _failures("seen, and survived", report.judgement.survived, report, console)
    _failures("in an earlier run", report.judgement.earlier, report, console)
    _mentioned(report, console)
    _asked(report, console)
    for answer in report.answers:
        _answer(answer, report, console)
    _training(report, console)
    _facts(report, console)
    odd = {row.first.place for row in report.shown if row.odd}
    for noise in [row for row in report.judgement.noise if row.first.place not in odd][:_MOST]:
        _line(console, "harmless", f"{noise.title}{_times(noise)}", _DIM)


def _line(console: Console, label: str, text: str, style: str = "default") -> None:
    console.print(Text(f"  {label:<18} " if label else "", style=_DIM).append(safe(text), style), soft_wrap=True)


def _files(report: Report) -> str:
    files = report.evidence.files
    names = ", ".join(file.name for file in files[:3]) + (f" and {len(files) - 3} more" if len(files) > 3 else "")
    damage = "".join(f"; {file.name} {file.damage}" for file in files if file.damage)
    return f"{names}: {sum(file.lines for file in files)} lines{damage}"


def _root(root: Incident, report: Report, console: Console) -> None:
    _line(console, "cause", root.cause)
    _line(console, "do", root.remedy)
    if root.link:
        _line(console, "link", root.link)
    signature = f"{root.signature}, " if root.signature else ""
    _line(console, "confidence", f"{signature}{words.confidence(root, report.judgement)}")
    if report.judgement.collective:
        _line(console, "last collective", report.judgement.collective)
    _proof(root.hits, report, console)


def _proof(hits: Iterable[Hit], report: Report, console: Console) -> None:
    for hit in hits:
        _line(console, "", f"    {words.place(report, hit)}: {hit.text.strip()}")
        if hit.block and hit.block.exception:
            frames = (*hit.block.frames[-1:], hit.block.exception)
            for text in frames:
                _line(console, "", f"        {text}")


def _times(row: Incident) -> str:
    return f" ({row.count} lines)" if row.count > 1 else ""


def _failures(label: str, rows: Sequence[Incident], report: Report, console: Console) -> None:
    for row in rows[:_MOST]:
        who = words.people(row.who)
        name = f" [{row.signature}]" if row.signature else f" ({UNKNOWN})"
        at = f"; {words.place(report, row.first)}"
        _line(console, label, f"{f'{who}: ' if who else ''}{row.title}{name}{_times(row)}{at}")
    if len(rows) > _MOST:
        _line(console, label, f"and {len(rows) - _MOST} more")


def _mentioned(report: Report, console: Console) -> None:
    hits = sorted(
        (hit for tally in report.evidence.mentioned.values() for hit in tally.kept), key=lambda hit: hit.place
    )
    for place, text in list(dict.fromkeys((words.place(report, hit), hit.text.strip()) for hit in hits))[:_MOST]:
        _line(console, "only mentioned", f"{place}: {text}", _DIM)


def _asked(report: Report, console: Console) -> None:
    for conflict in report.conflicts:
        _line(console, "contradiction", conflict.rule.title, "yellow")
        _line(console, "do", f"{conflict.rule.remedy} ({conflict.rule.link})")
        _proof((conflict.asked, conflict.shown), report, console)
    for row in report.settings:
        sentence = f"{row.name}={row.asked} was asked for, {row.in_effect} is in effect"
        _line(console, "contradiction", sentence, "yellow")
        _proof((row.asked_at, row.in_effect_at), report, console)


def _answer(answer: Answer, report: Report, console: Console) -> None:
    _line(console, f"expected {answer.expectation.name}", answer.sentence, _GOOD if answer.holds else _BAD)
    for part in answer.parts:
        _line(console, "", f"    {part.name}: {part.answer}{_split(part)}")
        _proof(part.against if part.answer == NO else part.for_it, report, console)


def _split(part: Part) -> str:
    return (
        f" ({part.counts[0]} lines for it, {part.counts[1]} against)" if part.answer != YES and all(part.counts) else ""
    )


def _training(report: Report, console: Console) -> None:
    if report.training:
        _line(console, "training", words.training(report.training))
    for oddity in report.oddities:
        _line(console, "wrong" if oddity.wrong else "odd", oddity.sentence, _BAD if oddity.wrong else "yellow")


def _facts(report: Report, console: Console) -> None:
    for row in report.shown:
        if row.odd:
            seen = ", ".join(value for value, _ in row.values)
            _line(console, "odd", f"{row.name} {seen}: {row.odd}; {words.place(report, row.first)}", "yellow")
    for group in ("versions", "topology"):
        rows = [f"{row.name} {words.values(row)}" for row in report.shown if row.group == group and not row.odd]
        if rows:
            _line(console, group, "; ".join(rows))

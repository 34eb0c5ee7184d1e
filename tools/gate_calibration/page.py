"""The page of a calibration: tables for `docs/how-good.md`. What was not measured says so."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median

from stackproof.base.errors import Refusal
from stackproof.record import outline
from stackproof.record.outline import Part, Span, TextLine, TextTable
from tools.gate_calibration.calibrate import OURS, Trial, by_others, failing, found, unsure
from tools.gate_calibration.doses import Calibration
from tools.gate_calibration.others import JUDGES

BEGIN, END = "<!-- calibration: begin -->", "<!-- calibration: end -->"
_NONE = "not yet measured"


def tables(calibration: Calibration, trials: Sequence[Trial]) -> str:
    """Return the tables as Markdown: whole gates by dose and by tool, single cells by dose, and what a gate costs."""
    rows = {dose.name: [trial for trial in trials if trial.dose == dose.name] for dose in calibration.doses}
    return outline.markdown([
        *_where(trials),
        TextLine("Gates that fail, of so many (95 % interval), each tool on the same seconds:"), _whole(rows),
        TextLine("Cells that are called SLOWER, by subject, and the median of the minimum detectable effect with equal sides:"),
        _cells(calibration, rows), TextLine("What a gate costs:"), _costs(rows),
    ]).rstrip()  # fmt: skip


def _where(trials: Sequence[Trial]) -> Iterator[Part]:
    if not trials:
        yield TextLine((Span(_NONE, strong=True), ": run `nox -s gate-calibration` on a quiet machine."))
        return
    load = max(float(trial.facts.get("load", 0.0)) for trial in trials)
    yield TextLine(f"{len(trials)} gates; what did not belong to them used at most {load:.0%} of a host's cores.")
    for place, many in sorted(Counter(map(_place, trials)).items()):
        yield TextLine(f"{many} on {place}", 1)


def _place(trial: Trial) -> str:
    facts = trial.facts
    parts = (
        facts.get("cpu.name", "a CPU without a name"),
        f"torch {facts.get('torch', 'unknown')}",
        facts.get("at once"),
    )
    return ", ".join(str(part) for part in parts if part)


def _whole(rows: Mapping[str, list[Trial]]) -> TextTable:
    lines = [
        (name, str(failing(trials)), str(unsure(trials)),
         *(str(by_others(trials, judge)) if trials else _NONE for judge in JUDGES))
        for name, trials in rows.items()
    ]  # fmt: skip
    return TextTable(("planted", OURS, "it cannot say", *JUDGES), lines)


def _cells(calibration: Calibration, rows: Mapping[str, list[Trial]]) -> TextTable:
    subjects = calibration.gate.subjects
    lines = [(name, *(str(found(trials, subject)) for subject in subjects)) for name, trials in rows.items()]
    equal = rows[calibration.doses[0].name]
    return TextTable(("planted", *subjects), [*lines, ("finds from", *(_visible(equal, one) for one in subjects))])


def _visible(trials: Sequence[Trial], subject: str) -> str:
    values = [trial.visible[f"{subject}::time"] for trial in trials if f"{subject}::time" in trial.visible]
    return f"{median(values):.1%}" if values else _NONE


def _costs(rows: Mapping[str, list[Trial]]) -> TextTable:
    lines = []
    for name, trials in rows.items():
        minutes, cells = [trial.seconds / 60 for trial in trials], [_NONE] * 3
        if trials:
            launches = median(trial.launches for trial in trials)
            cells = [f"{median(minutes):.1f}", f"{max(minutes):.1f}", f"{launches:g}"]
        lines.append((name, *cells))
    return TextTable(("planted", "median minutes", "longest", "median launches"), lines, right={1, 2, 3})


def put(page: Path, text: str) -> None:
    """Replace what stands between the marks of a page; the rest is people's own."""
    whole = page.read_text(encoding="utf-8")
    before, begin, rest = whole.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise Refusal(f"{page}: has no '{BEGIN}' and '{END}' to put the tables between; add both lines")
    page.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}", encoding="utf-8")

"""The page of a record: its verdict, what is not good, figures with their samples, provenance, and the command that repeats it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence

from stackproof.api.base import Interval, advice, median_interval, shown
from stackproof.api.gate import plan as gate_plan
from stackproof.api.pages import console
from stackproof.api.record import (
    SUITE_VERBS,
    Check,
    Kind,
    Markup,
    Measurement,
    Record,
    Verdict,
    charts,
    el,
    group_of,
    joined,
    repeat,
)
from stackproof.extras.nights.site import html
from stackproof.extras.nights.site.drawing import value
from stackproof.extras.nights.site.html import link, page, table
from stackproof.extras.nights.site.model import SiteModel
from stackproof.extras.nights.site.shelf import ShelvedRun

_MOST = 250
"""Rows of a table on the page; the JSON beside it has all."""
_GATE, _NIGHT = "gate", "night"


def render(site: SiteModel, run: ShelvedRun) -> str:
    """Return the page of one record."""
    record = run.record
    rest = (
        _cells(record),
        _counts(record),
        _figures(record.measurements),
        _others(record),
        _provenance(record),
        _logs(record),
    )
    return page(
        f"{record.verb}: {console.label(record)}, {run.day}", el("p", run.place.label, class_="dim"),
        el("p", word_of(record.verdict), f" {console.verdict_line(record).partition('  ')[2]}"),
        _ways(site, run), _bad(record), *rest, name=run.page,
    )  # fmt: skip


def word_of(verdict: Verdict) -> Markup:
    """Return a verdict's word with its shape and colour."""
    kind = {Verdict.PASSED: "passed", Verdict.KNOWN_ISSUE: "known"}.get(
        verdict, "failed" if verdict.exit_code else "dim"
    )
    if verdict in (Verdict.INCONCLUSIVE, Verdict.INTERRUPTED, Verdict.UNAVAILABLE):
        kind = "unverified"
    return el("span", verdict.value, class_=f"word {kind}")


def _ways(site: SiteModel, run: ShelvedRun) -> Markup:
    """Return what leads on: the JSON, the run before, the command."""
    own = run.page.rpartition("/")[2].removesuffix(".html")
    ways = [link(f"{own}.json", "the record as JSON"), " (", el("code", run.shown), ")"]
    if before := site.before.get(run.path):
        ways += ["; ", link(f"../compare/{own}.html", f"compared with the one before, {before.day}")]
    told = command(run.record)
    again = html.command(told) if told else el("p", "The record does not say how to repeat it.", class_="dim")
    return joined((el("p", *ways), el("h2", "Run it again"), again))


def command(record: Record) -> str:
    """Return the command that makes such a record: as it was typed, else as far as the record tells."""
    if typed := repeat.command_of_record(record):
        return typed
    if record.verb in SUITE_VERBS:
        return repeat.command_of_check(record, Check("run", record.verdict, "", 0.0))
    if record.verb == _NIGHT:
        return repeat.command_with(record, [*_night(record)])
    sides = {name: str(record.provenance.get(name, "")).partition(",")[0] for name in ("base", "head")}
    if record.verb != _GATE or not all(side.isalnum() for side in sides.values()):
        return ""
    return repeat.command_with(record, [word for name, side in sides.items() for word in (f"--{name}", side)])


def _night(record: Record) -> Iterator[str]:
    """Yield the flags of a night that its facts name; an older record keeps no others."""
    usual = {"profile": gate_plan.load().profile(str(record.provenance.get("verified on", ""))), "device": "the first"}
    for name in ("profile", "device"):
        if (fact := str(record.provenance.get(name, usual[name]))) != usual[name]:
            yield from (f"--{name}", fact)
    for name, flag in (("only", "--only"), ("without", "--without")):
        yield from (word for one in str(record.provenance.get(name, "")).split() for word in (flag, one))
    if record.provenance.get("pinned") is False:
        yield "--unpinned"


def _bad(record: Record) -> Markup:
    bad = [check for check in record.checks if check.verdict.exit_code and check.kind is not Kind.CELL]
    rows = [[check.id, word_of(check.verdict), f"{check.seconds:.1f}", _reason(check)] for check in bad[:_MOST]]
    return joined((_titled("What is not good", table("Checks that are not good", _HEADS, rows, (2,))), _more(len(bad))))


_HEADS = ("check", "verdict", "s", "what was seen")


def _reason(check: Check) -> object:
    repro = str(check.figures.get("repro", ""))
    if not repro:
        return check.reason
    return joined(
        (check.reason, el("details", el("summary", "code that repeats it"), el("pre", el("code", repro), tabindex=0)))
    )


def _others(record: Record) -> Markup:
    fine = [check for check in record.checks if not check.verdict.exit_code and check.kind is not Kind.CELL]
    rows = [[check.id, word_of(check.verdict), f"{check.seconds:.1f}", check.reason] for check in fine[:_MOST]]
    if not rows:
        return Markup("")
    inner = table("Other checks", _HEADS, rows, (2,))
    summary = f"The other {len(fine)} checks" if len(fine) > 1 else "The other check"
    return el("details", el("summary", summary), inner, _more(len(fine)), open=len(fine) <= 20)


def _more(count: int) -> Markup:
    return el("p", f"and {count - _MOST} more, in the JSON", class_="dim") if count > _MOST else Markup("")


def _titled(title: str, inner: Markup) -> Markup:
    return joined((el("h2", title), inner)) if inner else Markup("")


def _counts(record: Record) -> Markup:
    """Return how many checks of each suite ended how."""
    occurred = [verdict for verdict in Verdict if any(check.verdict is verdict for check in record.checks)]
    groups: dict[str, list[Check]] = {}
    for check in record.checks:
        if check.kind is Kind.SUITE:
            groups.setdefault(check.id.partition("::")[0], []).append(check)
    rows = []
    for name, checks in groups.items():
        counts = Counter(check.verdict for check in checks)
        rows.append(
            [name, *(counts[verdict] or "" for verdict in occurred), f"{sum(one.seconds for one in checks):.1f}"]
        )
    heads = ["suite", *(verdict.value for verdict in occurred), "s"]
    return _titled("Suites", table("How many checks ended how", heads, rows, range(1, len(heads))))


def _cells(record: Record) -> Markup:
    """Return what a gate or a sweep compared: head over base with its interval, and the smallest change that it would have seen."""
    cells = [check for check in record.checks if check.kind is Kind.CELL]
    cells.sort(key=lambda check: (not check.verdict.exit_code, -_number(check, "ratio"), check.id))
    rows = [
        [f"{check.subject} {check.aspect}".strip() or check.id, _outcome(check), *_ratio(check), check.reason]
        for check in cells
    ]
    heads = ("cell", "word", "head over base", "better < same > worse", "sees from", "what was seen")
    return joined((_titled("Cells", table("Cells of the comparison", heads, rows[:_MOST], (2, 4))), _more(len(cells))))


def _outcome(check: Check) -> Markup:
    word = check.outcome.value if check.outcome else check.verdict.value
    kind = {"SLOWER": "failed", "FASTER": "passed", "CHANGED": "failed", "SAME": "dim"}.get(word, "unverified")
    return el("span", word, class_=f"word {kind}")


def _ratio(check: Check) -> Iterator[object]:
    ratio, low, high = (_number(check, name) for name in ("ratio", "ratio, low", "ratio, high"))
    if not 0 < low <= ratio <= high < math.inf:
        yield from ("", "", "")
        return
    yield value(Interval(ratio, low, high))
    yield _strip(check, (low, ratio, high))
    visible = _number(check, "minimum detectable effect")
    yield f"{visible:.1%}" if visible else ""


def _number(check: Check, name: str) -> float:
    found = check.figures.get(name)
    return float(found) if isinstance(found, (int, float)) and math.isfinite(found) else 0.0


def _strip(check: Check, ends: tuple[float, float, float]) -> Markup:
    effect = min(max(_number(check, "minimum effect"), 0.01), 10.0)
    launches = [_number(check, name) for name in check.figures if name.startswith("launch ")]
    drawn = charts.strip(ends, launches, effect, 100, 12)
    return el("svg", drawn, viewBox="-3 0 106 12", class_="strip", aria_hidden="true")


def interval(row: Measurement) -> Interval:
    """Return the median of a measurement between the bounds that it was stored with, or those of its samples."""
    low, high = row.figures.get("low"), row.figures.get("high")
    if isinstance(low, (int, float)) and isinstance(high, (int, float)) and 0 < low <= row.value <= high < math.inf:
        return Interval(row.value, low, high)
    usable = row.samples and all(math.isfinite(one) and one > 0 for one in row.samples)
    return median_interval(row.samples) if usable else Interval(row.value, row.value, row.value)


def _figures(rows: Sequence[Measurement]) -> Markup:
    told = [
        [
            f"{row.workload} {row.metric}", row.preset, row.dtype, row.world_size, shown(row.value, row.unit),
            f"{interval(row).relative:.1%}" if row.value > 0 else "", len(row.samples), console.sparkline(row.samples), row.note,
        ]
        for row in rows[:_MOST]
    ]  # fmt: skip
    heads = ("what", "preset", "dtype", "ranks", "rate", "±", "n", "fast to slow", "note")
    return joined((_titled("Figures", table("What was measured", heads, told, (3, 4, 5, 6))), _more(len(rows))))


def _provenance(record: Record) -> Markup:
    facts = [[name, str(fact), group_of(name) or "not compared"] for name, fact in sorted(record.provenance.items())]
    facts += [[f"digest of {name}", digest, ""] for name, digest in sorted(record.digests.items())]
    inner = table("Everything that could explain a figure", ("fact", "value", "group"), facts)
    return el("details", el("summary", f"Provenance: {len(facts)} facts"), inner) if facts else Markup("")


def _logs(record: Record) -> Markup:
    return el("p", "Logs beside the record: ", ", ".join(record.logs[:20]), class_="dim") if record.logs else Markup("")


def listing(site: SiteModel) -> str:
    """Return the page of all runs that have one, newest first."""
    rows = [
        [link(run.page, run.record.started[:16].replace("T", " ")), run.record.verb, console.label(run.record), run.place.host,
         word_of(run.record.verdict), console.verdict_line(run.record).partition(": ")[2]]
        for run in site.kept.values()
    ]  # fmt: skip
    hidden = len(site.shelf.runs) - len(rows)
    note = f"{hidden} older runs have no page; what they measured is in the series." if hidden else ""
    empty = (
        el("p", "There are no records yet. ", el("code", advice.command("NAME", "smoke")), " makes the first.")
        if not rows
        else ""
    )
    heads = ("begun (UTC)", "verb", "stack", "host", "verdict", "checks")
    told = table("Runs, newest first", heads, rows)
    return page(
        "Runs",
        el("p", "Of each verb and place the newest, and every run that proves a cell or a change. ", note),
        empty,
        told,
        name="runs.html",
    )

"""Two records side by side: facts that differ first, then ratios with intervals and how many minimum effects each is.

A pair that follows each other has a page; of any other two the script `compare.js` makes the same from their data files.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass

from stackproof.api.base import RATES, plain, shown
from stackproof.api.gate import plan
from stackproof.api.record import Markup, Record, el, group_of, joined
from stackproof.extras.nights.drift.nights import SIDE
from stackproof.extras.nights.site import runs
from stackproof.extras.nights.site.html import link, page, table
from stackproof.extras.nights.site.model import SiteModel
from stackproof.extras.nights.site.shelf import ShelvedRun

_GROUPS = ("driver", "toolkit", "wheels", "settings", "code", "host", "place", "")
"""Facts in the order in which they explain most."""
_MOST, _FEWEST = 250, 30
"""Rows of a table at most; and of figures so many, though they differ by less than a gate would speak of."""
_CAUTION = (
    "Two runs at two times: what differs may be the machine. A gate measures both in turn; figures are seconds, so above 1 is slower. "
    "A factor of 1 is the smallest change that the gate would speak of."
)


@dataclass(frozen=True)
class FigureSummary:
    """One figure of a record: seconds for each unit of work, between bounds."""

    unit: str
    seconds: float
    low: float
    high: float


@dataclass(frozen=True)
class FigureRatio:
    """The second record's figure over the first one's; `factor` counts minimum effects, and is 0 where the interval holds 1."""

    name: str
    before: FigureSummary
    after: FigureSummary
    ratio: float
    low: float
    high: float
    factor: float


def figures(record: Record) -> dict[str, FigureSummary]:
    """Return the figures that can be compared, by what they are of."""
    found = {}
    for row in record.measurements:
        bounds = runs.interval(row)
        if 0 < bounds.low <= bounds.median <= bounds.high < math.inf:
            ranks = f", {row.world_size} ranks" if row.world_size > 1 else ""
            side = f", {row.figures[SIDE]}" if row.figures.get(SIDE) else ""
            name = f"{row.workload} {row.metric} ({row.preset}, {row.dtype}{ranks}{side}) in {row.unit}"
            found[name] = FigureSummary(row.unit, bounds.median, bounds.low, bounds.high)
    return found


def effect(record: Record) -> float:
    """Return the smallest change that the gate would speak of on such a device."""
    return plan.load().effect("", str(record.provenance.get("verified on", "other")))


def ratios(before: Record, after: Record) -> list[FigureRatio]:
    """Return the ratio of each figure that both have, those first that stand out most."""
    one, other = figures(before), figures(after)
    least = math.log1p(max(effect(before), effect(after)))
    found = [_ratio(name, one[name], other[name], least) for name in one if name in other]
    return sorted(found, key=lambda row: (-row.factor, row.name))


def _ratio(name: str, before: FigureSummary, after: FigureSummary, least: float) -> FigureRatio:
    """Return a ratio whose interval adds the variances of both logarithms."""
    middle = math.log(after.seconds / before.seconds)
    half = math.hypot(*(math.log(one.high / one.low) / 2 for one in (before, after)))
    factor = abs(middle) / least if abs(middle) > half else 0.0
    return FigureRatio(name, before, after, math.exp(middle), math.exp(middle - half), math.exp(middle + half), factor)


def facts(before: Record, after: Record) -> list[tuple[str, str, str, str]]:
    """Return what differs: group, fact, and both values, in the order in which groups explain most."""
    one, other = before.provenance, after.provenance
    rows = [
        (group_of(name) or "", name, _fact(one, name), _fact(other, name))
        for name in sorted({*one, *other})
        if one.get(name) != other.get(name)
    ]
    return sorted(rows, key=lambda row: (_GROUPS.index(row[0]) if row[0] in _GROUPS else len(_GROUPS), row[1]))


def _fact(told: Mapping[str, object], name: str) -> str:
    return str(told[name]) if name in told else "absent"


def render(run: ShelvedRun, before: ShelvedRun) -> str:
    """Return the page of a run and the one before it."""
    one, other = before.record, run.record
    sides = [el("p", word, " ", link(f"../{side.page}", f"{side.record.verb}, {side.record.started[:16].replace('T', ' ')}"))
             for word, side in (("Before:", before), ("After:", run))]  # fmt: skip
    return page(
        f"{run.record.verb} of {run.record.stack}: {before.day} and {run.day}", *sides, el("p", _CAUTION, class_="dim"),
        _facts(facts(one, other)), _ratios(ratios(one, other)), _checks(one, other), name=f"compare/{run.id}.html",
    )  # fmt: skip


def _facts(rows: list[tuple[str, str, str, str]]) -> Markup:
    told = [[name, group or "not compared", before, after] for group, name, before, after in rows]
    inner = table("Facts that differ", ("fact", "group", "before", "after"), told)
    return joined((el("h2", "What differs"), inner or el("p", "Every fact is the same.")))


def _ratios(rows: list[FigureRatio]) -> Markup:
    clear = [row for row in rows if row.factor >= 1]
    listed = rows[: max(min(len(clear), _MOST), _FEWEST)]
    told = [
        [
            row.name, shown(row.before.seconds, row.before.unit), shown(row.after.seconds, row.after.unit),
            f"{row.ratio:.4f} [{row.low:.4f}, {row.high:.4f}]", _factor(row),
        ]
        for row in listed
    ]  # fmt: skip
    less = len(rows) - len(told)
    note = (
        el("p", f"and {less} figures that differ by less than a factor of 1, or within noise", class_="dim")
        if less
        else ""
    )
    inner = table(
        "Ratios of figures", ("figure", "before", "after", "seconds, after over before", "factor"), told, (1, 2, 3, 4)
    )
    return joined((el("h2", "Figures"), inner or el("p", "No figure is in both."), note))


def _factor(row: FigureRatio) -> object:
    if not row.factor:
        return "within noise"
    kind = "failed" if row.ratio > 1 else "passed"
    return el(
        "span",
        f"{row.factor:.1f} {'slower' if row.ratio > 1 else 'faster'}",
        class_=f"word {kind}" if row.factor >= 1 else "",
    )


def _checks(one: Record, other: Record) -> Markup:
    before = {check.id: check for check in one.checks}
    rows = [
        [check.id, runs.word_of(before[check.id].verdict), runs.word_of(check.verdict), check.reason]
        for check in other.checks
        if check.id in before and before[check.id].verdict is not check.verdict
    ]
    inner = table("Checks that ended differently", ("check", "before", "after", "what was seen"), rows[:_MOST])
    return joined((el("h2", "Checks"), inner or el("p", "Every check that both have ended the same way.")))


def data(run: ShelvedRun) -> str:
    """Return what the script needs of a run: one call with a JSON literal, which no HTML parser ever sees as markup."""
    record = run.record
    told = {
        "id": run.id, "verb": record.verb, "stack": record.stack, "started": record.started, "effect": effect(record),
        "facts": {plain(name): [group_of(name) or "", plain(str(fact))] for name, fact in sorted(record.provenance.items())},
        "figures": {plain(name): [one.unit, *map(_short, (one.seconds, one.low, one.high))] for name, one in figures(record).items()},
        "checks": {check.id: check.verdict.value for check in record.checks if check.verdict.exit_code},
    }  # fmt: skip
    text = json.dumps(told, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return f"stackproofData({text.replace('<', chr(92) + 'u003c')});\n"


def _short(figure: float) -> float:
    return float(f"{figure:.7g}")


def chooser(site: SiteModel) -> str:
    """Return the page on which any two runs are chosen; without scripts it lists the pairs that have a page."""
    known = [run for run in site.kept.values() if run.record.measurements or run.record.checks]
    pairs = [
        el("li", link(f"compare/{run.id}.html", f"{run.record.verb} of {run.record.stack} on {run.place.host}: {before.day} and {run.day}"))
        for run in known if (before := site.before.get(run.path))
    ]  # fmt: skip
    options = [
        el(
            "option",
            f"{run.record.started[:16].replace('T', ' ')} {run.record.verb} {run.record.stack} {run.place.host}",
            value=run.id,
        )
        for run in known
    ]
    form = el(
        "div", *(el("label", f"{word} ", el("select", *options, id=side)) for side, word in (("a", "Before"), ("b", "After"))),
        id="chooser", class_="chooser", hidden=True, data_rates=json.dumps(RATES, sort_keys=True),
    )  # fmt: skip
    listed = el("ul", *pairs) if pairs else el("p", "No two runs of one verb at one place have a page yet.")
    return page(
        "Compare", el("p", _CAUTION, class_="dim"), form, el("div", id="result", aria_live="polite"),
        el("h2", "A run and the one before it"), listed, name="compare.html", scripts=("compare.js",),
    )  # fmt: skip

"""The drill's page: every fault that is planted, and whether the newest record of a drill saw it caught."""

from __future__ import annotations

from collections.abc import Mapping

from stackproof.api.base import advice
from stackproof.api.record import Check, Kind, Markup, Verdict, el, joined
from stackproof.api.runs import table as faults
from stackproof.extras.nights.site.html import link, page, table
from stackproof.extras.nights.site.model import SiteModel
from stackproof.extras.nights.site.shelf import ShelvedRun

_VERB = "drill"
_RULE = "The check that is named has to go red for the reason that is named, and everything else has to stay green."


def render(site: SiteModel) -> str:
    """Return the page."""
    found = faults.load()
    newest = next((run for run in reversed(site.shelf.runs) if run.record.verb == _VERB), None)
    checks = {check.subject: check for check in newest.record.checks if check.kind is Kind.FAULT} if newest else {}
    parts = [_area(area, [row for row in found.rows if row.area == area], checks) for area in faults.AREAS]
    told = f"{len(found.rows)} faults are planted, each in a run of a public verb. {_RULE}"
    return page(
        "Drill: every check is seen to fail", el("p", told),
        _newest(site, newest, checks), *parts, name="drill.html",
    )  # fmt: skip


def _newest(site: SiteModel, run: ShelvedRun | None, checks: Mapping[str, Check]) -> Markup:
    if run is None:
        return el(
            "p",
            "No record of a drill is here, so none is shown as caught. ",
            el("code", "nox -s drill"),
            f"{'' if advice.sessions() else ' in a checkout of stackproof'} makes one.",
            class_="dim",
        )
    caught = sum(check.verdict is Verdict.PASSED for check in checks.values())
    when = link(run.page, f"the drill of {run.day}") if run.path in site.kept else f"the drill of {run.day}"
    return el("p", f"{caught} of {len(checks)} were caught in ", when, ".")


def _area(area: str, rows: list[faults.Fault], checks: Mapping[str, Check]) -> Markup:
    told = [[row.id, row.imitates, _caught(row), _word(checks.get(row.id))] for row in rows]
    inner = table(f"Faults: {area}", ("fault", "imitates", "has to be caught by", "seen"), told)
    return joined((el("h2", area.capitalize()), inner)) if inner else Markup("")


def _caught(row: faults.Fault) -> str:
    return " ".join((*row.expected.red, *(f"note of {name}" for name in row.expected.noted)))


def _word(check: Check | None) -> Markup:
    if check is None:
        return el("span", "not in the record", class_="dim")
    passed = check.verdict is Verdict.PASSED
    return el(
        "span",
        "caught" if passed else check.verdict.value,
        class_=f"word {'passed' if passed else 'failed'}",
        title=check.reason,
    )

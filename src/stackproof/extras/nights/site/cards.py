"""What a wall shows: a card a stack, with its word, its scope and a mark for each suite; and the same as badges."""

from __future__ import annotations

from collections.abc import Iterator

from stackproof.api.base import plain
from stackproof.api.record import Markup, badge, el
from stackproof.extras.nights.site.html import link
from stackproof.extras.nights.site.matrix import CellState
from stackproof.extras.nights.site.model import SiteModel
from stackproof.extras.nights.site.standing import StackStanding, StackWord, standings

SHAPES = {
    "passed": "✓", "known issue": "◆", "rehearsed": "◐", "unverified": "○", "failed": "✕", "stale": "◌", "in part": "◔", "never run": "○",
}  # fmt: skip
_COLOURS = {StackWord.PASSED: "#1a7f37", StackWord.KNOWN_ISSUE: "#8a5a00", StackWord.FAILED: "#b42318"}
_GREY = "#57606a"
_ON_DEVICE = {StackWord.REHEARSED: "on a CPU, not on its device"}


def cards(site: SiteModel) -> Markup:
    """Return a card of each stack."""
    return el("ul", *(_card(site, one) for one in standings(site.matrix, site.doubles)), class_="cards")


def _card(site: SiteModel, one: StackStanding) -> Markup:
    kind = one.word.value.replace(" ", "-")
    name = link(one.run.page, one.stack) if one.run else one.stack
    told = [
        el("strong", name, class_="name"),
        el("span", el("span", SHAPES[one.word.value], aria_hidden="true"), f" {one.word.value}", class_="word"),
        el("span", one.scope, class_="scope"),
    ]
    told += [el("span", *(el("span", remark) for remark in filter(None, _remarks(one))), class_="scope")]
    return el("li", *told, _bar(site, one.stack), class_=f"card {kind}")


def _remarks(one: StackStanding) -> Iterator[str]:
    """Yield what narrows the word."""
    if one.word is StackWord.FAILED:
        yield f"{one.proved} of {one.wanted} of a night passed"
    yield _ON_DEVICE.get(one.word, "")
    yield "unpinned" if one.unpinned else ""
    yield "has no card" if one.double else ""
    yield one.day if one.word is not StackWord.STALE else ""


def _bar(site: SiteModel, stack: str) -> Markup:
    """Return a mark for each suite, the good ones first; the table below says the same in words."""
    order = sorted(site.matrix.of(stack), key=lambda cell: -list(CellState).index(cell.state))
    marks = [
        el("rect", x=10 * at, width=9, height=8, class_=(cell.state.value if cell.run else "never").replace(" ", "-"))
        for at, cell in enumerate(order)
    ]
    return el(
        "svg", *marks, viewBox=f"0 0 {max(10 * len(order) - 1, 1)} 8", preserveAspectRatio="none", class_="bar", aria_hidden="true"
    )  # fmt: skip


def badge_names(site: SiteModel) -> dict[str, str]:
    """Return the stacks by the name of their badge's file."""
    found: dict[str, str] = {}
    for stack in site.matrix.stacks:
        name = (
            "".join(one if one.isascii() and (one.isalnum() or one in "-_") else "-" for one in stack)[:60] or "stack"
        )
        found[name if name not in found else f"{name}-{len(found)}"] = stack
    return found


def badges(site: SiteModel) -> Iterator[tuple[str, str]]:
    """Yield the file and the SVG of each stack's badge: its word with its scope; green only if all suites of a night are proved."""
    known = {one.stack: one for one in standings(site.matrix, site.doubles)}
    for name, stack in badge_names(site).items():
        one = known[stack]
        yield f"badge/{name}.svg", badge(plain(stack, most=40, lines=False), one.badge, _colour(one))


def _colour(one: StackStanding) -> str:
    return _COLOURS.get(one.word, _GREY)

"""The pages of the site: tables, links and the frame around them; `charts.el` escapes what is put into an element."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from stackproof.api.record import Markup, el

_POLICY = "default-src 'none'; script-src 'self' file:; style-src 'self' file:; img-src 'self' file:; base-uri 'none'; form-action 'none'"
"""Nothing is fetched from elsewhere, nothing inline runs; `file:` because browsers differ in what 'self' is of a file."""
_MENU = (
    ("index.html", "Overview"), ("changes.html", "Changes"), ("runs.html", "Runs"), ("compare.html", "Compare"),
    ("drill.html", "Drill"), ("fleets.html", "Fleets"),
)  # fmt: skip


def link(target: str, text: object, **attributes: object) -> Markup:
    """Return a link to a page of the site."""
    return el("a", text, href=target, **attributes)


def command(text: str) -> Markup:
    """Return a command that is broken between its words where it is too long for a line, never after a hyphen of a flag."""
    words = text.split(" ")
    told = [part for word in words for part in (el("span", word), " ")][:-1]
    return el("pre", el("code", *told), tabindex=0, class_="command")


def table(
    caption: str, heads: Sequence[object], rows: Iterable[Sequence[object]], numbers: Sequence[int] = (), **attributes: object
) -> Markup:  # fmt: skip
    """Return a table in a box that scrolls by itself, so that the page never does; `numbers` are the columns of figures.

    A row's first cell names the row; a cell that is a `td` or `th` already is taken as it is.
    """
    head = el(
        "tr", *(el("th", one, scope="col", class_="n" if at in numbers else None) for at, one in enumerate(heads))
    )
    body = [el("tr", *(_cell(one, at, at in numbers) for at, one in enumerate(row))) for row in rows]
    if not body:
        return Markup("")
    inner = el("table", el("caption", caption), el("thead", head), el("tbody", *body), **attributes)
    return el("div", inner, class_="wide", tabindex=0, role="region", aria_label=caption)


def _cell(content: object, at: int, number: bool) -> Markup:
    if isinstance(content, Markup) and content.startswith(("<td", "<th")):
        return content
    return el("th", content, scope="row") if at == 0 else el("td", content, class_="n" if number else None)


def page(title: str, *body: object, name: str, scripts: Sequence[str] = (), head: object = "") -> str:
    """Return a whole page; `name` is its path in the site, from which links to the others follow."""
    up = "../" * name.count("/")
    menu = [link(up + target, text, aria_current="page" if target == name else None) for target, text in _MENU]
    whole = el(
        "html",
        el(
            "head", el("meta", charset="utf-8"), el("title", f"{title} - stackproof"),
            el("meta", name="viewport", content="width=device-width, initial-scale=1"),
            el("meta", http_equiv="Content-Security-Policy", content=Markup(_POLICY)),
            el("link", rel="icon", href=f"{up}icon.svg"),  # else browsers ask the server for one that is not there
            el("link", rel="stylesheet", href=f"{up}site.css"),
            el("link", rel="alternate", type="application/atom+xml", title="Confirmed changes", href=f"{up}feed.xml"),
            head, *(el("script", src=up + script, defer=True) for script in scripts),
        ),
        el(
            "body", link("#main", "Skip to the content", class_="skip"),
            el("header", el("strong", "stackproof"), el("nav", *menu, aria_label="Site")),
            el("main", el("h1", title), *body, id="main"),
            el("footer", el("p", *_footer(up))),
        ),
        lang="en",
    )  # fmt: skip
    return f"<!doctype html>\n{whole}\n"


def _footer(up: str) -> Sequence[object]:
    return (
        "Made from records alone; nothing on these pages asks another host for anything. For machines: ",
        link(f"{up}data.json", "data.json"), ", ", link(f"{up}feed.xml", "feed of confirmed changes"), ".",
    )  # fmt: skip

"""Markup: text is never obeyed, links lead from where a page lies, and tables scroll by themselves."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest

from stackproof.extras.nights.site.html import link, page, table
from stackproof.record.charts import Markup, el, joined

from . import making


class Elements(HTMLParser):
    """Every element of a page with its attributes, and all of its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str]]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep an element."""
        self.found.append((tag, {name: value or "" for name, value in attrs}))

    def handle_data(self, data: str) -> None:
        """Keep text."""
        self.text += data


@pytest.mark.parametrize("name", ["p", "td", "a"])
def test_text_is_never_markup(name: str) -> None:
    seen = Elements(el(name, making.HOSTILE, title=making.HOSTILE))
    assert [tag for tag, _ in seen.found] == [name]
    assert set(seen.found[0][1]) == {"title"}
    assert "</script><img src=x onerror=alert(1)>\"'`&{{7*7}}" in seen.text
    assert "\x1b" not in seen.text and "\u202e" not in seen.text, (
        "what a terminal or a reader would obey is shown as its escape"
    )


def test_markup_is_kept_and_joined() -> None:
    assert joined((el("b", "x"), "<i>")) == "<b>x</b>&lt;i&gt;"
    assert isinstance(joined(()), Markup)


def test_attributes_of_nothing_are_left_out() -> None:
    assert el("a", class_=None, hidden=False, open=True, data_x=1) == '<a open data-x="1"></a>'


def test_links_lead_from_where_a_page_lies() -> None:
    seen = Elements(page("t", link("x.html", "x"), name="series/a.html", scripts=("site.js",)))
    hrefs = [attributes["href"] for tag, attributes in seen.found if tag == "a"]
    assert "../index.html" in hrefs and "x.html" in hrefs
    assert ("script", {"src": "../site.js", "defer": ""}) in seen.found
    policy = next(attributes["content"] for tag, attributes in seen.found if attributes.get("http-equiv"))
    assert "default-src 'none'" in policy and "unsafe" not in policy and "http" not in policy


def test_current_page_is_said() -> None:
    seen = Elements(page("t", name="runs.html"))
    assert [attributes["href"] for _, attributes in seen.found if "aria-current" in attributes] == ["runs.html"]


def test_table_names_its_rows_and_is_reached_by_keyboard() -> None:
    seen = Elements(table("what", ("a", "b"), [["<x>", 1]], (1,)))
    assert ("th", {"scope": "row"}) in seen.found and ("td", {"class": "n"}) in seen.found
    assert seen.found[0][1]["tabindex"] == "0" and seen.found[0][1]["aria-label"] == "what"
    assert table("what", ("a",), []) == ""

"""Pages: links lead from where a page lies, and tables are reached by keyboard."""

from __future__ import annotations

from pathlib import Path

from stackproof.extras.nights.site import build

from . import making
from .making import Elements


def page(folder: Path, name: str = "index.html") -> str:
    """Return a page of the site of a folder."""
    build.build(folder / "out", making.order(folder))
    return (folder / "out" / name).read_text(encoding="utf-8")


def test_links_lead_from_where_a_page_lies(tmp_path: Path) -> None:
    making.kept(tmp_path, [making.suites("cpu", making.TODAY)])
    page(tmp_path)
    (name,) = (tmp_path / "out" / "record").glob("*.html")
    seen = Elements(name.read_text(encoding="utf-8"))
    assert "../index.html" in [attributes["href"] for tag, attributes in seen.found if tag == "a"]
    policy = next(attributes["content"] for tag, attributes in seen.found if attributes.get("http-equiv"))
    assert "default-src 'none'" in policy and "unsafe" not in policy and "http" not in policy
    assert ("th", {"scope": "row"}) in seen.found and ("td", {"class": "n"}) in seen.found
    wide = [attributes for tag, attributes in seen.found if attributes.get("class") == "wide"]
    assert wide and all(one["tabindex"] == "0" and one["aria-label"] for one in wide)


def test_the_page_that_is_open_is_told(tmp_path: Path) -> None:
    seen = Elements(page(tmp_path, "runs.html"))
    assert [attributes["href"] for _, attributes in seen.found if "aria-current" in attributes] == ["runs.html"]

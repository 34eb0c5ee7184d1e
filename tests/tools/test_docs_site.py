"""The site: every page and whatever it links to is gathered, so that the generator can refuse a link that leads nowhere."""

from __future__ import annotations

from pathlib import Path

from stackproof import ROOT
from stackproof.drill import table
from tools import docs_site


def page(root: Path, name: str, text: str) -> None:
    """Write a file of a small repository."""
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text, encoding="utf-8")


def test_what_pages_reach_is_gathered(tmp_path: Path) -> None:
    root, into = tmp_path / "root", tmp_path / "pages"
    page(root, "README.md", "[a](docs/a.md) [web](https://example.org/x.md) [out](../secret.md)")
    page(root, "docs/a.md", "[table](../src/t.toml) [folder](../examples/one/) [lost](nosuch.md#x)")
    page(root, "examples/one/README.md", "[code](train.py)")
    for name in ("src/t.toml", "examples/one/train.py", "examples/one/other.py", "../secret.md"):
        page(root, name, "x")
    into.mkdir()
    page(into, "stale.md", "of the last time")
    docs_site.gather(root, into)
    found = {str(path.relative_to(into)) for path in into.rglob("*") if path.is_file()}
    assert found == {"README.md", "docs/a.md", "src/t.toml", "examples/one/README.md", "examples/one/train.py"}
    assert "[folder](../examples/one/README.md) [lost](nosuch.md#x)" in (into / "docs/a.md").read_text()


def test_every_page_has_a_place_in_the_menu() -> None:
    menu = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    pages = list((ROOT / "docs").rglob("*.md"))
    assert [str(path) for path in pages if f": {path.relative_to(ROOT)}\n" not in menu] == []
    for path in (ROOT / "docs" / "zh").glob("*.md"):
        assert f"[English](../{path.name})" in path.read_text(encoding="utf-8")


def test_the_page_of_the_drill_has_every_fault_and_the_checks_that_must_fail() -> None:
    loaded = table.load()
    text = docs_site.drill_page(loaded)
    row = next(line for line in text.splitlines() if line.startswith("| `wrong-for-strided-input`"))
    assert "/192920)) | `operators/" in row and row.endswith("| 1 |")
    assert all(f"| `{row.id}` |" in text for row in loaded.rows)

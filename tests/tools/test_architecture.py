"""The picture of the rooms is made from the imports, and a page that is not is noticed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import architecture

SOURCE = {
    "__init__.py": "",
    "top.py": "from house.middle import door\nimport house.low\n",
    "middle/__init__.py": "",
    "middle/door.py": "def late() -> None:\n    from house import low\n    import json\n",
    "low/__init__.py": "from house.low import self_same\n",
}


def house(root: Path) -> Path:
    """Write a package of three rooms."""
    for name, text in SOURCE.items():
        (root / "house" / name).parent.mkdir(parents=True, exist_ok=True)
        (root / "house" / name).write_text(text, encoding="utf-8")
    return root / "house"


def test_arrows_are_the_imports_of_rooms(tmp_path: Path) -> None:
    found = architecture.arrows(house(tmp_path))
    assert found == {"top": {"middle", "low"}, "middle": {"low"}, "low": set()}


def test_an_arrow_that_a_longer_way_implies_is_not_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(architecture, "LINE", "middle")
    lines = architecture.picture(["top", "middle", "low"], architecture.arrows(house(tmp_path)))
    assert [line.strip() for line in lines if "-->" in line] == ["top --> middle", "middle --> low"]
    assert (
        lines.index("    low")
        > lines.index('  subgraph storey1["no torch below this line"]')
        > lines.index("    middle")
    )


def test_every_room_has_a_layer_and_a_purpose() -> None:
    rooms, found = architecture.order(), architecture.arrows()
    assert sorted(rooms) == sorted(found)
    assert all(row.split("|")[2].strip() for row in architecture.table(rooms, found)[2:])


ROOMS = ["top", "middle", "side", "low"]


@pytest.mark.parametrize(
    ("words", "rooms"),
    [
        ("every room", set(ROOMS)),
        ("nothing of house", set()),
        ("`side`, `low`", {"side", "low"}),
        ("`side` and below, without torch", {"side", "low"}),
        ("`side`, `middle` and what lies below them", {"middle", "side", "low"}),
    ],
)
def test_what_a_docstring_allows(words: str, rooms: set[str]) -> None:
    assert architecture.allowed(words, ROOMS) == rooms


@pytest.mark.slow
def test_a_docstring_that_forbids_what_is_imported_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(architecture.untrue(architecture.order(), architecture.arrows())) == []
    monkeypatch.setattr(architecture, "_docstring", lambda room: "One.\n\nMay import: `low`.\nRuns in: any.")
    found = {
        "top": frozenset({"low", "side"}),
        "middle": frozenset({"low"}),
        "side": frozenset[str](),
        "low": frozenset[str](),
    }
    assert list(architecture.untrue(ROOMS, found)) == ["top: imports side, and its docstring says 'May import: `low`'"]


@pytest.mark.slow
def test_a_stale_page_is_told_and_written_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{architecture.BEGIN}\nold\n{architecture.END}\nafter\n", encoding="utf-8")
    monkeypatch.setattr(architecture, "PAGE", page)
    found = architecture.arrows()
    monkeypatch.setattr(architecture, "arrows", lambda: found)
    assert architecture.main(["--check"]) == 1
    assert "old" in page.read_text(encoding="utf-8") and "python -m tools.architecture`" in capsys.readouterr().err
    assert architecture.main([]) == architecture.main(["--check"]) == 0
    text = page.read_text(encoding="utf-8")
    assert text.startswith("before\n") and text.endswith("\nafter\n") and "flowchart TD" in text and "old\n" not in text
    with pytest.raises(SystemExit, match="has no"):
        architecture.fresh("nothing", "made")

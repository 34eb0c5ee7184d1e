"""Edits of copies: each changes what it names, and one that changes nothing is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from stackproof.base.errors import Refusal
from stackproof.base.toml import Table
from stackproof.drill.inject import Edit, link_tree


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with one file whose name holds a version."""
    (tmp_path / "copy/lib-1.2").mkdir(parents=True)
    (tmp_path / "copy/lib-1.2/facts.txt").write_text("one = 1\ntwo = 2\n", encoding="utf-8")
    return tmp_path / "copy"


@pytest.mark.parametrize(
    ("done", "text"),
    [
        (Edit("lib-*/facts.txt", append="three = 3\n"), "one = 1\ntwo = 2\nthree = 3\n"),
        (Edit("lib-*/facts.txt", pattern=r"^two = (\d)$", replacement=r"two = \g<1>0"), "one = 1\ntwo = 20\n"),
        (Edit("lib-*/facts.txt", pattern=r"(?s)\A(.{3}).*", replacement=r"\1"), "one"),
    ],
)
def test_a_file_is_changed(root: Path, done: Edit, text: str) -> None:
    assert done.apply(root).read_text(encoding="utf-8") == text


def test_a_file_is_made_and_renamed(root: Path) -> None:
    made = Edit("lib-*/extra/new.txt", create="new").apply(root)
    assert made == root / "lib-1.2/extra/new.txt" and made.read_text(encoding="utf-8") == "new"
    assert Edit("lib-*/facts.txt", rename="other.txt").apply(root).name == "other.txt"
    assert not (root / "lib-1.2/facts.txt").exists()


@pytest.mark.parametrize(
    ("done", "said"),
    [
        (Edit("lib-*/facts.txt", pattern="three", replacement="3"), "changed nothing"),
        (Edit("lib-*/absent.txt", append="x"), "names 0 files"),
    ],
)
def test_an_edit_without_effect_is_refused(root: Path, done: Edit, said: str) -> None:
    with pytest.raises(Refusal, match=said):
        done.apply(root)


def test_what_links_name_stays_as_it_is(root: Path, tmp_path: Path) -> None:
    copy = tmp_path / "links"
    link_tree(root, copy)
    Edit("lib-1.2/facts.txt", append="three = 3\n").apply(copy)
    assert (root / "lib-1.2/facts.txt").read_text(encoding="utf-8") == "one = 1\ntwo = 2\n"
    assert "three" in (copy / "lib-1.2/facts.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("row", [{"file": "a"}, {"file": "a", "append": "x", "rename": "b"}])
def test_a_row_does_one_thing(row: dict[str, str]) -> None:
    with pytest.raises(Refusal, match="exactly one of"):
        Table(Path("faults.toml"), dict(row)).row(Edit)

"""Whether asv's pages have to be made again: only what changes nothing leaves them as they are."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from stackproof.history.freshness import Pages
from stackproof.record import store


@pytest.fixture
def pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pages:
    """Pages that have just been made, of a repository with a commit and a store with a record."""
    monkeypatch.setenv(store.RESULTS, str(tmp_path / "records"))
    for name in (
        "records/20260101T020000-asv-x.record.json",
        ".asv/html/index.html",
        ".asv/results/box/machine.json",
        "asv.conf.json",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("{}", encoding="utf-8")
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "commit", "--quiet", "--allow-empty", "-m", "x")
    found = Pages(tmp_path, tmp_path / ".asv")
    found.made(found.inputs())
    return found


def git(root: Path, *words: str) -> None:
    """Run git there."""
    subprocess.run(
        ["git", "-C", str(root), "-c", "user.name=n", "-c", "user.email=n@localhost", *words],
        check=True,
        capture_output=True,
    )


def test_what_was_just_made_is_fresh(pages: Pages, tmp_path: Path) -> None:
    assert pages.fresh() and Pages(tmp_path, tmp_path / ".asv").fresh()


CHANGES: dict[str, Callable[[Path], object]] = {
    "a record more": lambda root: (root / "records" / "20260102T020000-asv-y.record.json").touch(),
    "a record less": lambda root: (root / "records" / "20260101T020000-asv-x.record.json").unlink(),
    "a record that is another": lambda root: (root / "records" / "20260101T020000-asv-x.record.json").write_text("{ }"),
    "a commit": lambda root: git(root, "commit", "--quiet", "--allow-empty", "-m", "y"),
    "a tag": lambda root: git(root, "tag", "v1"),
    "the configuration": lambda root: (root / "asv.conf.json").write_text("{ }"),
    "what asv alone knows": lambda root: (root / ".asv" / "results" / "box" / "0-stack.json").touch(),
    "what a killed command left": lambda root: (root / ".asv" / "pieces" / "x").mkdir(parents=True),
    "no pages": lambda root: (root / ".asv" / "html" / "index.html").unlink(),
    "a damaged mark": lambda root: (root / ".asv" / "html" / "published.json").write_text("{"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_anything_new_makes_them_again(pages: Pages, tmp_path: Path, change: str) -> None:
    CHANGES[change](tmp_path)
    assert not pages.fresh()


def test_records_of_other_verbs_change_nothing(pages: Pages, tmp_path: Path) -> None:
    (tmp_path / "records" / "20260102T020000-smoke-y.record.json").touch()
    assert pages.fresh()


def test_pages_that_were_made_otherwise_are_not_fresh(pages: Pages) -> None:
    pages.forget()
    assert not pages.fresh()

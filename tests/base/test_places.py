"""Where everything lies: a checkout's own folders, and what an installed wheel does in their place."""

from __future__ import annotations

import pwd
import sys
from pathlib import Path

import pytest

from stackproof.base import places
from stackproof.base.errors import Refusal


def test_what_is_read_at_run_time_is_there() -> None:
    assert (places.STACKS / "cpu" / "stack.toml").is_file()
    assert (places.SUITES / "pytest.ini").is_file()
    assert list(places.DATA.glob("*.toml")) and list(places.REFERENCE.iterdir())


def test_files_of_ours_are_called_as_readers_find_them(monkeypatch: pytest.MonkeyPatch) -> None:
    assert places.page("start.md") == "docs/start.md" and (places.ROOT / places.table("gate.toml")).is_file()
    monkeypatch.setattr(places, "INSTALLED", True)
    assert Path(places.table("gate.toml")).is_file() and places.page("start.md") == str(places.DOCS / "start.md")


def test_who_has_no_home_has_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr(pwd, "getpwuid", {}.__getitem__)
    assert places.home() == Path("/")


def test_a_checkout_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    places.require_checkout("a gate")
    monkeypatch.setattr(places, "INSTALLED", True)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        Refusal,
        match="a gate needs a checkout of stackproof.*`PYTHONPATH=src python -m stackproof",
    ):
        places.require_checkout("a gate")


def test_our_suites_are_mounted_whatever_lies_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "suites").mkdir()
    (tmp_path / "suites" / "__init__.py").write_text("raise AssertionError('not ours')\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "suites")
    places.mount_suites()
    mounted = sys.modules["suites"]
    assert list(mounted.__path__) == [str(places.SUITES)]
    places.mount_suites()
    assert sys.modules["suites"] is mounted


def test_an_environment_gets_our_source_and_nothing_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert places.source_for(tmp_path) == places.ROOT / "src"
    monkeypatch.setattr(places, "INSTALLED", True)
    for _ in range(2):
        folder = places.source_for(tmp_path)
        assert [path.name for path in folder.iterdir()] == ["stackproof"]
        assert (folder / "stackproof").resolve() == places.PACKAGE


def test_two_installations_never_change_each_others_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "INSTALLED", True)
    found = []
    for name in ("one", "two"):
        monkeypatch.setattr(places, "PACKAGE", tmp_path / name / "stackproof")
        found.append(places.source_for(tmp_path / "environment"))
    for name, folder in zip(("one", "two"), found, strict=True):
        assert (folder / "stackproof").readlink() == tmp_path / name / "stackproof"

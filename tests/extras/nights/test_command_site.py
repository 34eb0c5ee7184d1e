"""The verb `site`: what it prints, and what it refuses."""

from __future__ import annotations

import importlib.util
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from stackproof.cli import main
from tests.extras.nights.site import making


def test_it_writes_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    making.kept(tmp_path / "r", [making.suites("cpu", datetime.now(timezone.utc).date() - timedelta(5))])
    words = ["site", str(tmp_path / "out"), "--results", str(tmp_path / "r")]
    assert main(words) == 0
    said = capsys.readouterr().out
    assert "No night has left figures yet" in said and f"{tmp_path / 'out' / 'index.html'}\n" in said
    assert "passed" in (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert main([*words, "--days", "1"]) == 0
    assert "suites stale" in capsys.readouterr().out


def test_without_a_folder_it_shows_what_the_checkout_has(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["site", str(tmp_path / "out")]) == 0
    front = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert "verify" in (tmp_path / "out" / "runs.html").read_text(encoding="utf-8")
    assert "host vm" in front and "unpinned" in front


def test_a_folder_of_somebodys_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "thesis.tex").write_text("mine", encoding="utf-8")
    assert main(["site", str(tmp_path), "--results", str(tmp_path)]) == 2
    assert "holds files and is no site" in capsys.readouterr().err


def test_without_numpy_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert main(["site", str(tmp_path / "out")]) == 2
    assert "pip install numpy" in capsys.readouterr().err

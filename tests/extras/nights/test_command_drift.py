"""The verb `drift`: what it prints, where, and its exit codes."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from stackproof.cli import main
from tests.extras.nights.drift.nightly import Story, commit, gate, kept, told


def test_it_shows_the_nights_of_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept(tmp_path, told(Story(code=(50, 0.1), count=52)))
    assert main(["drift", "--results", str(tmp_path)]) == 0
    assert f"--base {commit(49)} --head {commit(50)}" in capsys.readouterr().out
    kept(tmp_path / "gates", [gate(52, commit(49), commit(50), 1.1)])
    assert main(["drift", "--results", str(tmp_path), "--stack", "cuda"]) == 1
    assert "confirmed slowdowns:" in capsys.readouterr().out


def test_an_empty_store_is_inconclusive(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["drift", "--results", str(tmp_path)]) == 6
    assert "11 more nights" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--stack", "nvidia"], "nvidia"),
        (["--results", "no-such-folder"], "--results no-such-folder: "),
    ],
)
def test_bad_arguments_are_one_sentence(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["drift", *words]) == 2
    assert said in capsys.readouterr().err


def test_without_numpy_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert main(["drift"]) == 2
    assert "needs numpy" in capsys.readouterr().err

"""The verb `history`: steps of nights before rates, where they are read, and its exit codes."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from stackproof.cli import main
from stackproof.record import store
from tests.extras.nights.drift.nightly import Story, commit, gate, kept, told
from tests.history import making


def test_it_shows_the_nights_of_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept(tmp_path, told(Story(code=(50, 0.1), count=52)))
    assert main(["history", "--results", str(tmp_path)]) == 0
    assert f"--base {commit(49)} --head {commit(50)}" in capsys.readouterr().out
    kept(tmp_path / "gates", [gate(52, commit(49), commit(50), 1.1)])
    assert main(["history", "--results", str(tmp_path), "--stack", "cuda"]) == 1
    assert "confirmed slower: " in capsys.readouterr().out


def test_rates_alone_need_no_nights(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store.append(making.record(0), tmp_path)
    assert main(["history", "--results", str(tmp_path)]) == 0
    assert "TFLOP/s" in (shown := capsys.readouterr().out) and "night" not in shown
    assert main(["history", "--results", str(tmp_path), "--stack", "cpu"]) == 0
    assert "there are no figures yet; `nox -s cpu-bench` makes some" in capsys.readouterr().out


def test_steps_come_before_rates(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept(tmp_path, told(Story(count=3)))
    store.append(making.record(0), tmp_path / "bench")
    assert main(["history", "--results", str(tmp_path)]) == 6
    shown = capsys.readouterr().out
    assert shown.index("8 more nights") < shown.index("TFLOP/s")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--stack", "nvidia"], "nvidia"),
        (["--results", "no-such-folder"], "--results no-such-folder: "),
    ],
)
def test_bad_arguments_are_one_sentence(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["history", *words]) == 2
    assert said in capsys.readouterr().err


def test_without_numpy_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert main(["history"]) == 2
    assert "needs numpy" in capsys.readouterr().err

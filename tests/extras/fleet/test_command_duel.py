"""The step `fleet duel`: what it keeps, prints, drains and ends with, and whose plan it takes."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest

from stackproof import cli
from stackproof.extras.fleet import duel, duels, plan, rules, sweep
from stackproof.record.records import Record

from .making import SUBJECTS, MadeHost, fleet
from .playing import Part, play


def swept(tmp_path: Path, *names: str) -> Path:
    """Return a sweep in which these hosts are slow."""
    return fleet(tmp_path / "monday", 8, *(MadeHost(name, slow={SUBJECTS[0]: 1.2}) for name in names))


def typed(folder: Path, tmp_path: Path, parts: dict[str, Part], *words: str) -> int:
    """Type the step, with plays of the sides; return its exit code."""
    play(tmp_path, parts)
    own = ["--launch", "env AT={host}", "--python", str(tmp_path / "python"), *words]
    return cli.main(["fleet", "duel", str(folder), *own])


@pytest.fixture(autouse=True)
def _brief(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Blocks as short as the plays'."""
    brief = dataclasses.replace(rules.load(), duel=play(tmp_path).terms)
    monkeypatch.setattr(rules, "load", lambda: brief)


def scontrol(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int = 0) -> Path:
    """Put a program of that name first on the path, which writes down its words; return where."""
    told, program = tmp_path / "drained", tmp_path / "bin" / "scontrol"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\necho "$@" >> {told}\necho no such node >&2\nexit {code}\n', encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    return told


def test_a_confirmed_host_ends_it_with_1_and_is_drained_where_that_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told = scontrol(tmp_path, monkeypatch)
    assert typed(swept(tmp_path, "guilty", "innocent"), tmp_path, {"guilty": {"slow": 1.2}}, "--drain") == 1
    (line,) = told.read_text().splitlines()
    assert line.startswith("update NodeName=guilty State=DRAIN Reason=stackproof: slow: gemm-float32 +20.0 %")
    out = capsys.readouterr().out
    assert "drained: guilty" in out and "innocent: gemm-float32: refuted: " in out


def test_a_drain_that_fails_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told = scontrol(tmp_path, monkeypatch, code=1)
    assert typed(swept(tmp_path, "g1", "g2"), tmp_path, {"g1": {"slow": 1.2}, "g2": {"slow": 1.2}}, "--drain") == 1
    assert len(told.read_text().splitlines()) == 2
    assert "not drained: g1: scontrol failed: no such node" in capsys.readouterr().out


def test_what_is_left_open_is_undecided(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = swept(tmp_path, "dying")
    assert typed(folder, tmp_path, {"dying": {"at": "block", "do": "exit"}}) == 6
    out = capsys.readouterr().out
    assert "dying: gemm-float32: not decided: dying's side ended with exit code 3" in out
    assert "scontrol" not in out and "to confirm, before anybody is drained" in out


def test_ctrl_c_keeps_what_was_decided(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = swept(tmp_path, "s1", "s2")
    fight, begun = duel.Duel.fight, list[str]()

    def broken(self: duel.Duel) -> Record:
        begun.append(self.host)
        if len(begun) == 2:
            monkeypatch.setattr(self, "_beside", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        return fight(self)

    monkeypatch.setattr(duel.Duel, "fight", broken)
    assert typed(folder, tmp_path, {}) == 130
    out = capsys.readouterr()
    assert "broken off in the duel of" in out.out and "interrupted before it was decided" in out.out
    words = {said.key[0]: said.word for said in duels.gather(folder, plan.load(folder).id)[0].values()}
    assert words == {begun[0]: "refuted", begun[1]: "open"}
    assert typed(folder, tmp_path, {}) == 0 and begun == [begun[0], begun[1], begun[1]]
    assert not [host for host in sweep.judged(folder).hosts if host.undecided]


def test_a_folder_that_keeps_nothing_is_refused_before_any_duel(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = swept(tmp_path, "s1")
    (folder / duels.FOLDER).write_text("", encoding="utf-8")
    assert typed(folder, tmp_path, {}) == 2
    assert "nothing can be kept there" in capsys.readouterr().err


@pytest.mark.parametrize("step", ["duel", "judge", "run", "pairs"])
def test_another_stack_than_the_plans_is_refused(tmp_path: Path, step: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["fleet", step, str(swept(tmp_path)), "--stack", "cuda"]) == 2
    assert "the plan of this sweep is of 'cpu'" in capsys.readouterr().err


def test_the_hint_can_be_typed_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = swept(tmp_path, "s1")
    assert cli.main(["fleet", "judge", str(folder)]) != 0
    hint = capsys.readouterr().out.partition("to confirm, before anybody is drained\n")[2].splitlines()[0]
    assert "duel" in hint and "NAME" not in hint and str(folder) in hint


def test_a_pod_is_kubernetes_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for flag, value in (("image", "x"), ("claim", "x"), ("namespace", "x"), ("resource", "a=1")):
        words = ["--stack", "cpu", "--hosts", "a", f"--{flag}", value]
        assert cli.main(["fleet", "plan", str(tmp_path / "new"), *words]) == 2
        assert f"--{flag} says something of a pod" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()

"""The verb `night`: a real short one, its record, what it refuses, and its anchor."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

import pytest

from stackproof import ROOT
from stackproof.base import git
from stackproof.cli import main
from stackproof.extras.nights import command as verb
from stackproof.extras.nights.drift.series import Measured, nights
from stackproof.extras.nights.night import request
from stackproof.gate import variants
from stackproof.record import reading, store
from stackproof.record.records import Verdict
from stackproof.stack import stacks
from tests.extras.nights.night.fake_night import quick

PYTHON = os.environ.get("STACKPROOF_SIDE", sys.executable)
SHORT = (
    "--only",
    "gemm-float32",
    "--without",
    "smoke",
    "--without",
    "verify",
    "--without",
    "site",
)


def test_the_page_of_nights_names_the_stages() -> None:
    lines = (ROOT / "docs" / "nights.md").read_text(encoding="utf-8").splitlines()
    rows = lines[lines.index("| stage | what it does | fails the night |") + 2 :]
    assert tuple(row.split("`")[1] for row in rows[: len(verb.STAGES)]) == verb.STAGES
    assert not rows[len(verb.STAGES)].startswith("|")


def test_without_numpy_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert main(["night", "--stack", "cpu"]) == 2
    assert "needs numpy, which is not installed here; use `nox -s cpu-night`" in capsys.readouterr().err


def test_every_stack_s_anchor_is_what_was_frozen() -> None:
    if git.output(ROOT, "rev-parse", "--is-shallow-repository").strip() == "true":
        pytest.skip("this clone is shallow, so that the anchor's commit is not here")
    held = [name for name in stacks.names() if request.load_anchor(stacks.load(name))]
    assert held == list(stacks.names())


def test_an_anchor_needs_its_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(verb, "_require_installed", lambda *_: None)
    monkeypatch.setattr(request, "file_of", lambda stack: tmp_path / "anchor.toml")
    assert main(["night", "--stack", "cpu", "--results", str(tmp_path)]) == 2
    assert "there is no anchor yet" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--site", "{folder}"], "holds files and is no site"),
        (["--device", "cuda:9"], "is not of this stack, which uses 'cpu'"),
        (["--device", "1"], "is not one device"),
        (["--device", "cpu:9"], "does not exist; choose one of cpu"),
        ([f"--without={stage}" for stage in verb.STAGES if stage != "scan"], "--without leaves no stage"),
    ],
)
def test_what_cannot_go_well_is_refused_at_once(
    words: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(verb, "_require_installed", lambda *_: None)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").touch()
    given = [word.format(folder=tmp_path / "mine") for word in words]
    results = tmp_path / "results"
    assert main(["night", "--stack", "cpu", "--unpinned", PYTHON, "--results", str(results), *given]) == 2
    assert said in capsys.readouterr().err
    assert not list(results.rglob("record.json"))


def test_an_interpreter_without_torch_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(verb, "_require_installed", lambda *_: None)
    bare = tmp_path / "python"
    bare.write_text("#!/bin/sh\necho \"ModuleNotFoundError: No module named 'torch'\" >&2\nexit 1\n", encoding="utf-8")
    bare.chmod(0o755)
    words = ["--unpinned", str(bare), "--device", "cpu:0", "--results", str(tmp_path / "r")]
    monkeypatch.setattr(variants, "require_interpreter", lambda path: None)
    assert main(["night", "--stack", "cpu", *words]) == 3
    said = capsys.readouterr().err
    assert f"{bare}: cannot be asked which devices it sees" in said and "that has the torch of 'cpu'" in said


@pytest.mark.slow
def test_a_short_real_night(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verb, "_require_installed", lambda *_: None)
    short = quick()
    monkeypatch.setattr(request, "load_plan", lambda: short)
    monkeypatch.setenv(store.RESULTS, str(tmp_path))
    path = tmp_path / "night.json"
    words = [
        "night",
        "--stack",
        "cpu",
        "--unpinned",
        PYTHON,
        "--results",
        str(tmp_path),
        "--json",
        str(path),
        "--deadline-scale",
        "10",
    ]
    code = main([*words, *SHORT])
    record = reading.read(path)
    ended = {check.id: check.verdict for check in record.checks}
    assert code == record.verdict.exit_code and code in (0, 6), record.checks
    assert ended["explore"] in (Verdict.PASSED, Verdict.SKIPPED)
    assert ended["figures"] is Verdict.PASSED and ended["scan"] is Verdict.SKIPPED
    (found,) = nights(store.read(store.files([tmp_path / "cpu"], ("night",))))
    ((key, sides),) = found.figures.items()
    assert key.subject == "gemm-float32" and set(sides) == {Measured.TODAY, Measured.ANCHOR}
    assert found.anchor == request.load_anchor(stacks.load("cpu"))
    assert len(sides[Measured.TODAY]) == len(sides[Measured.ANCHOR]) >= 2
    assert not (ROOT / "results" / "site").exists() or "site" in ended

"""The verb `night`: a real short one, its record, what it refuses, and its anchor."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

import pytest

from stackproof import ROOT
from stackproof.cli import main
from stackproof.commands import night as verb
from stackproof.drift.nights import Measured, nights
from stackproof.gate import commits
from stackproof.night import anchors, night
from stackproof.record import records, store
from stackproof.record.records import Verdict
from stackproof.stack import stacks

PYTHON = os.environ.get("STACKPROOF_SIDE", sys.executable)
SHORT = (
    "--only",
    "gemm-float32",
    "--launches",
    "1",
    "--pause",
    "0",
    "--without",
    "smoke",
    "--without",
    "verify",
    "--without",
    "site",
)


def test_the_menu_of_stages_is_the_night_s() -> None:
    """The parser knows them without importing the room."""
    assert verb._STAGES == night.STAGES


def test_the_page_of_nights_names_the_stages() -> None:
    """The table under `--without` has the words that it takes, in their order."""
    lines = (ROOT / "docs" / "nights.md").read_text(encoding="utf-8").splitlines()
    rows = lines[lines.index("| stage | what it does | fails the night |") + 2 :]
    assert tuple(row.split("`")[1] for row in rows[: len(night.STAGES)]) == night.STAGES
    assert not rows[len(night.STAGES)].startswith("|")


def test_without_numpy_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything is built."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert main(["night", "--stack", "cpu"]) == 2
    assert "with numpy, which is not installed here; use `nox -s cpu-night`" in capsys.readouterr().err


def test_every_stack_s_anchor_is_what_was_frozen() -> None:
    """Each digest is held against this very repository; a clone without its history cannot say."""
    if commits.git("rev-parse", "--is-shallow-repository").strip() == "true":
        pytest.skip("this clone is shallow, so that the anchor's commit is not here")
    held = [name for name in stacks.names() if anchors.load(stacks.load(name)).anchor.commit]
    assert held == list(stacks.names())


def test_an_anchor_needs_its_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A new stack's first night says how it gets one."""
    monkeypatch.setattr(verb, "_NEEDED", ())
    monkeypatch.setattr(anchors, "file_of", lambda stack: tmp_path / "anchor.toml")
    assert main(["night", "--stack", "cpu", "--results", str(tmp_path)]) == 2
    assert "there is no anchor yet" in capsys.readouterr().err


@pytest.mark.slow
def test_a_short_real_night(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two live sides, one of them this repository's frozen commit; the record is a night that the scan reads."""
    monkeypatch.setattr(verb, "_NEEDED", ("numpy",))
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
    record = records.read(path)
    ended = {check.id: check.verdict for check in record.checks}
    assert code == record.verdict.exit_code and code in (0, 6), record.checks
    assert ended["figures"] is Verdict.PASSED and ended["scan"] is Verdict.SKIPPED
    (found,), problems = nights(store.read(store.files([tmp_path / "cpu"], ("night",))))
    ((key, sides),) = found.figures.items()
    assert not problems and key.subject == "gemm-float32" and set(sides) == {Measured.TODAY, Measured.ANCHOR}
    assert found.anchor == anchors.load(stacks.load("cpu")).anchor.digest
    assert len(sides[Measured.TODAY]) == len(sides[Measured.ANCHOR]) >= 2
    assert not (ROOT / "results" / "site").exists() or "site" in ended

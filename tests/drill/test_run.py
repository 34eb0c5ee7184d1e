"""A run of a verb: its command, its end, and what is read of what it left."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stackproof.base.errors import Refusal
from stackproof.drill import run as running
from stackproof.drill.inject import Site
from stackproof.drill.run import REFUSAL, DrilledRun, only_of
from stackproof.drill.table import Call
from stackproof.record.records import Verdict

from .making import call, program, record

WORDS = ("rng/rng::state", "rng/rng::seed[normal]")


def run(tmp_path: Path, python: Path, asked: Call, deadline_s: float = 60, code: str = "") -> DrilledRun:
    """Run the program in the place of Python."""
    folder = tmp_path / "site"
    folder.mkdir()
    return running.run(asked, WORDS, Site(folder, python, code=code), deadline_s)


def test_the_record_of_a_run_is_read(tmp_path: Path) -> None:
    python = program(tmp_path / "bin", record(state=Verdict.FAILED, seed=Verdict.PASSED), 1)
    ended = run(tmp_path, python, call(stack="cpu", scale=0.5, arguments=("--preset", "tiny")))
    assert (ended.exit_code, ended.fired) == (1, 0)
    assert ended.checks["rng/rng::state"].verdict.exit_code and not ended.checks["rng/rng::seed"].verdict.exit_code
    said = " ".join(ended.command[3:])
    assert said.startswith(
        "verify --stack cpu --suite rng --only rng/rng::state --only rng/rng::seed[[]normal] --json "
    )
    assert said.endswith("--deadline-scale 0.5 --preset tiny")


def test_a_refusal_is_a_check(tmp_path: Path) -> None:
    python = program(tmp_path / "bin", None, 2, said="stackproof: x.json: is not a record")
    ended = run(tmp_path, python, call(verb="admit", suites=(), arguments=("x.json",)))
    assert ended.command[3:] == ["admit", "x.json"]
    assert (ended.checks[REFUSAL].reason, ended.checks[REFUSAL].verdict) == ("x.json: is not a record", Verdict.FAILED)


@pytest.mark.slow
def test_a_run_that_does_not_end_is_ended(tmp_path: Path) -> None:
    body = "import os, subprocess; open('pid', 'w').write(str(subprocess.Popen(['sleep', '600']).pid)); __import__('time').sleep(600)"
    ended = run(tmp_path, program(tmp_path / "bin", None, 0, body=body), call(), deadline_s=5)
    assert ended.exit_code is None
    child = int((tmp_path / "site/pid").read_text(encoding="utf-8"))
    assert not _alive(child)


def _alive(process: int) -> bool:
    """Whether a process runs; one that ended and that nobody has asked for has no command line."""
    path = Path(f"/proc/{process}/cmdline")
    return path.exists() and bool(path.read_bytes())


def test_planted_code_runs_first_and_its_sign_is_counted(tmp_path: Path) -> None:
    ended = run(tmp_path, program(tmp_path / "bin", None, 0), call(), code="fired()\n")
    assert ended.fired == 1


def test_a_report_of_the_doctor_is_read_by_area(tmp_path: Path) -> None:
    rows = [("cards", "warning", "slow link"), ("cards", "problem", "no driver"), ("host", "note", "a quota")]
    report = {"findings": [dict(zip(("area", "level", "sentence"), row, strict=True)) for row in rows]}
    body = f"open(sys.argv[sys.argv.index('--json') + 1], 'w').write({json.dumps(report)!r})"
    ended = run(tmp_path, program(tmp_path / "bin", None, 1, body=body), call(verb="doctor", stack="cpu", suites=()))
    assert ended.command[3:6] == ["doctor", "--stack", "cpu"]
    assert (ended.checks["doctor/cards"].verdict, ended.checks["doctor/cards"].reason) == (Verdict.FAILED, "no driver")
    assert ended.checks["doctor/host"].verdict is Verdict.PASSED


def test_checks_are_chosen_by_name_or_the_run_is_whole() -> None:
    assert only_of(call(only=("rng/rng::seed_all",)), ("rng/rng::state", "guard: rng")) == (
        "rng/rng::state",
        "rng/rng::seed_all",
    )
    assert only_of(call(whole=True), ("rng/rng::state",)) == ()
    with pytest.raises(Refusal, match="no check is named"):
        only_of(call(), ("guard: rng",))

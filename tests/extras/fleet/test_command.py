"""The steps `fleet plan` and `fleet judge`: what they print and write, and how they end."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from stackproof import cli
from stackproof.extras.fleet import judgement, plan

from .making import SUBJECTS, MadeHost, fleet


def test_a_sound_fleet_ends_with_nothing_to_say(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["fleet", "judge", str(fleet(tmp_path / "monday", 8))]) == 0
    assert capsys.readouterr().out.startswith("monday: 8 hosts: 8 proved\n")


def test_a_judgement_is_printed_and_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = fleet(tmp_path / "monday", 8, MadeHost("slow1", slow={SUBJECTS[0]: 1.5}), silent=("dead1",))
    assert cli.main(["fleet", "judge", str(folder)]) == 1
    kept = json.loads((folder / judgement.NAME).read_text(encoding="utf-8"))
    assert [host["host"] for host in kept["hosts"] if host["standing"] == "slow"] == ["slow1"]
    assert "not reached  dead1  left nothing" in capsys.readouterr().out


def test_a_folder_that_cannot_be_written_is_judged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = fleet(tmp_path / "monday", 6)
    (folder / "judgement.fleet.json").mkdir()
    assert cli.main(["fleet", "judge", str(folder)]) == 0
    told = capsys.readouterr()
    assert "the judgement cannot be kept" in told.err and "6 proved" in told.out


def test_a_folder_without_a_plan_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = fleet(tmp_path / "monday", 6)
    (folder / "plan.json").unlink()
    for words in (["judge", str(folder)], ["card", str(folder), "--stack", "cpu", "--host", "n01"]):
        assert cli.main(["fleet", *words]) == 2
        assert "make one with `stackproof fleet plan`" in capsys.readouterr().err


def test_plan_says_what_to_type_next(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "it's a folder"
    assert cli.main(["fleet", "plan", str(folder), "--stack", "cpu", "--hosts", "n[1-3]"]) == 0
    told = capsys.readouterr().out
    card = ["stackproof", "fleet", "card", str(folder), "--locked"]
    lines = [shlex.split(line.partition(": ")[2]) for line in told.splitlines() if "once on" in line or "Slurm" in line]
    assert [*card, "--host", "HOST"] in lines
    assert ["sbatch", "--nodelist=HOST", "--exclusive", "--wrap", shlex.join(card)] in lines
    assert plan.load(folder).profile == "tiny"

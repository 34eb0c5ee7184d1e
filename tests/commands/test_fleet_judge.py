"""The step `fleet judge`: what it prints and writes, and how it ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stackproof import cli
from stackproof.record.records import Verdict

from ..fleet.making import SUBJECTS, MadeHost, fleet


def test_a_sound_fleet_ends_with_nothing_to_say(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All are proved, and the exit code is 0."""
    assert cli.main(["fleet", "judge", str(fleet(tmp_path / "monday", 8))]) == 0
    assert capsys.readouterr().out.startswith("monday: 8 hosts: 8 proved\n")


def test_every_form_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """JSON, Markdown, Prometheus and a picture at once, and the judgement beside the records."""
    folder = fleet(tmp_path / "monday", 8, MadeHost("slow1", slow={SUBJECTS[0]: 1.5}), silent=("dead1",))
    forms = {"json": "a.json", "markdown": "a.md", "prometheus": "a.prom", "picture": "a.svg"}
    words = [word for form, name in forms.items() for word in (f"--{form}", str(tmp_path / name))]
    assert cli.main(["fleet", "judge", str(folder), *words]) == 1
    assert json.loads((tmp_path / "a.json").read_text()) == json.loads((folder / "judgement.fleet.json").read_text())
    assert all("slow1" in (tmp_path / name).read_text() for name in forms.values())
    assert "not reached\n  dead1: left nothing" in capsys.readouterr().out


def test_redacted_names_nobody_in_what_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither hosts nor the folder; the judgement that stays with the records is as it was."""
    folder = fleet(tmp_path / "monday", 6, MadeHost("ill1", verdict=Verdict.FAILED))
    assert cli.main(["fleet", "judge", str(folder), "--redact", "--key", str(tmp_path / "key")]) == 1
    out = capsys.readouterr().out
    assert "ill1" not in out and str(tmp_path) not in out and "host-" in out
    assert "ill1" in (folder / "judgement.fleet.json").read_text()


def test_a_folder_that_cannot_be_written_is_judged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where the judgement cannot be kept, as on a full disk, that is said and the rest is shown."""
    folder = fleet(tmp_path / "monday", 6)
    (folder / "judgement.fleet.json").mkdir()
    assert cli.main(["fleet", "judge", str(folder)]) == 0
    assert "the judgement cannot be kept" in capsys.readouterr().out


def test_hosts_without_a_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where no plan says who was to answer nobody is missed, and that is said; --hosts says who was."""
    folder = fleet(tmp_path / "monday", 6)
    (folder / "plan.json").unlink()
    assert cli.main(["fleet", "judge", str(folder)]) == 0
    assert "so nobody is missed; 6 did" in capsys.readouterr().out
    assert cli.main(["fleet", "judge", str(folder), "--hosts", "n[01-07]"]) == 6
    assert "n07: left nothing" in capsys.readouterr().out

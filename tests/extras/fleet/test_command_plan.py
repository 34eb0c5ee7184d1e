"""The step `fleet plan`: what it writes, and what it says to type next."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from stackproof import cli
from stackproof.extras.fleet import plan


def test_plan_says_what_to_type_next(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "it's a folder"
    assert cli.main(["fleet", "plan", str(folder), "--stack", "cpu", "--hosts", "n[1-3]"]) == 0
    told = capsys.readouterr().out
    assert f"nox -s cpu-fleet -- run {shlex.quote(str(folder))}" in told
    card = next(line for line in told.splitlines() if "no Slurm" in line).partition(": ")[2]
    assert shlex.split(card) == ["python", "-m", "stackproof", "fleet", "card", str(folder), "--host", "HOST"]
    assert plan.load(folder).profile == "tiny"


def test_hosts_may_stand_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("n1 # the first\n\n# none\nn[2-3]\n", encoding="utf-8")
    words = [
        "fleet",
        "plan",
        str(tmp_path / "a"),
        "--stack",
        "cpu",
        "--hosts-file",
        str(tmp_path / "hosts"),
        "--without",
        "smoke",
    ]
    assert cli.main(words) == 0
    made = plan.load(tmp_path / "a")
    assert sorted(made.hosts) == ["n1", "n2", "n3"] and made.without == ("smoke",)

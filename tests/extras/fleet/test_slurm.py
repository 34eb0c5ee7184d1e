"""A sweep under Slurm: one array whose tasks are pinned before they are released; played by scripts that keep their calls."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stackproof import cli
from stackproof.base.errors import Refusal
from stackproof.extras.fleet import plan, slurm
from stackproof.extras.fleet.slurm import SlurmTerms

_SCRIPT = """#!/bin/sh
echo "$(basename $0) $*" >> "{log}"
case "$(basename $0)" in
  sbatch) echo "STACK=$STACK PYTHON=$PYTHON FOLDER=$FOLDER" >> "{log}"; echo 77;;
  scontrol) [ $# = 0 ] && cat >> "{log}"; {scontrol};;
  squeue) {squeue};;
esac
"""
TERMS = SlurmTerms(Path("/opt/python"), options=("--partition=gpu",))


@pytest.fixture
def played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a Slurm onto the path, and return the file in which its calls stand."""
    return play(tmp_path, monkeypatch)


def play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scontrol: str = "true", squeue: str = "true") -> Path:
    """Make the commands."""
    (tmp_path / "bin").mkdir()
    for name in ("sbatch", "scontrol", "squeue", "scancel"):
        path = tmp_path / "bin" / name
        path.write_text(_SCRIPT.format(log=tmp_path / "calls", scontrol=scontrol, squeue=squeue), encoding="utf-8")
        path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    return tmp_path / "calls"


def test_each_task_has_its_host_before_any_begins(tmp_path: Path, played: Path) -> None:
    made = plan.make("s", "cpu", "tiny", ["n1", "n2", "n3"], seed=1)
    assert slurm.submit(made, tmp_path / "s", TERMS, lambda _: None) == ["77"]
    calls = played.read_text().splitlines()
    assert calls[0].startswith("sbatch --array=0-2") and "--hold" in calls[0] and "--partition=gpu" in calls[0]
    assert calls[1] == f"STACK=cpu PYTHON=/opt/python FOLDER={tmp_path / 's'}"
    assert calls[3:6] == [f"update JobId=77_{number} ReqNodeList={host}" for number, host in enumerate(made.hosts)]
    assert calls[6] == "scontrol release 77"


def test_a_fleet_that_is_longer_than_an_array_has_several(tmp_path: Path, played: Path) -> None:
    made = plan.make("s", "cpu", "tiny", [f"n{number}" for number in range(1500)])
    assert len(slurm.submit(made, tmp_path / "s", TERMS, lambda _: None)) == 2
    arrays = [line.split()[1] for line in played.read_text().splitlines() if line.startswith("sbatch")]
    assert arrays == ["--array=0-999", "--array=0-499"]


def test_what_slurm_refuses_is_cancelled_and_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = play(tmp_path, monkeypatch, scontrol="echo 'slurm_update error: Invalid node name specified' >&2")
    made = plan.make("s", "cpu", "tiny", ["n1"])
    with pytest.raises(Refusal, match="Invalid node name.*sinfo"):
        slurm.submit(made, tmp_path / "s", TERMS, lambda _: None)
    assert calls.read_text().splitlines()[-1] == "scancel 77"


def test_what_waits_for_a_dead_host_is_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls = play(tmp_path, monkeypatch, squeue="echo PENDING")
    monkeypatch.setattr(slurm, "_POLL_S", 0.01)
    made = plan.make("s", "cpu", "tiny", ["n1", "n2"])
    made.keep(tmp_path / "s")
    assert cli.main(["fleet", "run", str(tmp_path / "s"), "--python", "/opt/python", "--wait", "0.01"]) == 6
    assert calls.read_text().splitlines()[-1] == "scancel 77"
    assert "s: 2 hosts: 2 not reached" in capsys.readouterr().out


def test_without_slurm_the_sentence_says_what_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Refusal, match="`fleet card` on each host"):
        slurm.require()


def test_the_template_says_what_is_missing() -> None:
    text = slurm.TEMPLATE.read_text(encoding="utf-8")
    assert "#SBATCH --exclusive" in text and "#SBATCH --requeue" in text and "which sweep?" in text

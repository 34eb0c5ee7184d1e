"""A sweep by ReFrame with its local scheduler, in an environment of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from stackproof.base.places import ROOT
from stackproof.base.toml import read_toml
from stackproof.extras.fleet import answers, plan
from stackproof.stack import environments

pytestmark = pytest.mark.engines


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment with the engines."""
    home, uv = tmp_path_factory.mktemp("engines") / "venv", str(environments.find_uv(print))
    wanted = read_toml(ROOT / "pyproject.toml")["dependency-groups"]["engines"]
    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, str(home)], check=True)
    subprocess.run([uv, "pip", "install", "--quiet", "--python", str(home / "bin" / "python"), *wanted], check=True)
    return home / "bin" / "python"


def test_reframe_lets_a_host_answer(python: Path, tmp_path: Path) -> None:
    plan.make("cpu", "tiny", ["n1"], without=["doctor", "smoke"]).keep(tmp_path / "sweep")
    check = ROOT / "fleet" / "reframe" / "fleet_check.py"
    chosen = ["-S", f"sweep={tmp_path / 'sweep'}", "-S", f"python={sys.executable}", "-S", "host=n1"]
    own = ["-r", f"--prefix={tmp_path}", f"--report-file={tmp_path / 'report.json'}"]
    words = [str(python.parent / "reframe"), "-c", str(check), *chosen, *own]
    ended = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    (card,) = answers.gather(tmp_path / "sweep", plan.load(tmp_path / "sweep"))[0]["n1"].cards
    report = (tmp_path / "report.json").read_text(encoding="utf-8")
    assert all(f"{subject}_card0" in report for subject in card.seconds) and card.replayed

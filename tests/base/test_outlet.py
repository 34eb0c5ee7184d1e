"""A reader who goes away ends no run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from stackproof import ROOT

BENCH = ROOT / "fixtures" / "drill" / "sealed" / "record.json"
VERB = f"{sys.executable} -m stackproof bench --replay {BENCH}"


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        (f"{VERB} | true; exit ${{PIPESTATUS[0]}}", 141, ""),
        (f"{VERB} >&-", 0, ""),
        (f"{VERB} >/dev/full", 2, "stackproof: stdout cannot be written (No space left on device)"),
        (f"{VERB} >/dev/null 2>&-", 0, ""),
        (f"{VERB} x 2>/dev/full", 2, ""),
    ],
)
def test_a_reader_who_goes_away_gets_no_traceback(tmp_path: Path, command: str, code: int, said: str) -> None:
    environ = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONUNBUFFERED": "1"}
    ended = subprocess.run(["bash", "-c", command], capture_output=True, text=True, env=environ, cwd=tmp_path)
    assert ended.returncode == code
    assert ended.stderr.startswith(said)
    assert "Traceback" not in ended.stderr
    assert "Exception ignored" not in ended.stderr

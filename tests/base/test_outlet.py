"""A reader who goes away ends no run."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from stackproof import ROOT
from stackproof.base import outlet

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


def test_who_waits_is_reminded_ever_less_often(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(outlet, "_SILENCE_S", 0.8)
    with outlet.outlets(), outlet.reminded():
        sys.stdout.write("\x1b[1mbuilding: today\x1b[0m\n")
        time.sleep(4.5)  # it looks once a second: at 1 and at 3, not at 2 and 4
    first, *more = capsys.readouterr().err.splitlines()
    assert first == "still running, last line: building: today (1 s)"
    assert more in ([f"still running, last line: building: today ({second} s)"] for second in (3, 4))

"""Under the real torchrun: a rank that is killed does not take the record with it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from stackproof import ROOT
from stackproof.record import reading
from stackproof.record.records import Verdict

PROGRAM = "tests.ranks.rank_programs:wait_together"
WITHIN_S = 180.0


def _waiting(folder: Path, rank: int) -> bool:
    path = folder / f"rank{rank}.phases"
    return path.exists() and "waiting" in path.read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize(("who", "place"), [("supervisor", 0), ("rank", 1)])
def test_a_killed_rank_is_named_in_the_record(tmp_path: Path, who: str, place: int) -> None:
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--nproc-per-node=2",
        "--standalone",
        "-m",
        "stackproof",
        "ranks",
    ]
    command += ["--stack", "cpu", "--folder", str(tmp_path), "--program", PROGRAM, "--no-preflight"]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT))), "OMP_NUM_THREADS": "1"}
    with (tmp_path / "torchrun.log").open("wb") as output:
        launcher = subprocess.Popen(command, env=env, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT)
        until = time.monotonic() + WITHIN_S
        while not all(_waiting(tmp_path, rank) for rank in (0, 1)) and time.monotonic() < until:
            time.sleep(0.1)
        living = json.loads((tmp_path / "rank1.alive").read_text(encoding="utf-8"))["processes"]
        os.kill(living[place], signal.SIGKILL)
        launcher.wait(WITHIN_S)
    found = reading.read(tmp_path / "record.json")
    assert found.verdict is Verdict.CRASHED
    assert "rank 1 ended with signal SIGKILL in 'waiting'" in found.checks[-1].reason, who

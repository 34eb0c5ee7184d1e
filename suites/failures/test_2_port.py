"""A port that another program holds: the rank that would listen there says so at once, and its record too."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from stackproof.record.checks import require
from stackproof.record.records import Figure
from stackproof.runner.request import Request
from stackproof.stack.stacks import Stack

_REFUSED = 2
_DEADLINE_S = 60


@pytest.mark.deadline(120)
def test_taken(stack: Stack, run_request: Request, figures: dict[str, Figure]) -> None:
    """`stackproof ranks` with MASTER_PORT of somebody else ends with exit code 2, one sentence and a record; nobody hangs."""
    folder = Path(run_request.folder) / "port"
    with socket.create_server(("", 0)) as taken:
        port = taken.getsockname()[1]
        completed = _join(stack, folder, port, _DEADLINE_S * run_request.deadline_scale)
    require(completed.returncode == _REFUSED, f"exit code {completed.returncode}: {completed.stderr[-400:]}")
    words = f"localhost:{port} (MASTER_ADDR, MASTER_PORT): the port is taken by another program"
    require(words in completed.stderr, f"'{words}' is not in: {completed.stderr[-400:]}")
    record = json.loads((folder / "record.json").read_text(encoding="utf-8"))
    require(record["verdict"] == "failed", f"the record says {record['verdict']}")
    figures["summary"] = completed.stderr.strip().splitlines()[-1].removeprefix("stackproof: ")


def _join(stack: Stack, folder: Path, port: int, seconds: float) -> subprocess.CompletedProcess[str]:
    """Start rank 0 of two from plain environment variables; an elastic agent's own store would hide the port."""
    place = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2"}
    meeting = {"MASTER_ADDR": "localhost", "MASTER_PORT": str(port)}
    command = [sys.executable, "-m", "stackproof", "ranks", "--stack", stack.name, "--folder", str(folder)]
    command += ["--deadline", f"{seconds:.0f}", *(["--rehearse"] if stack.rehearsed else [])]
    environ = {
        name: value for name, value in os.environ.items() if not name.startswith(("TORCHELASTIC_", "GROUP_", "ROLE_"))
    }
    return subprocess.run(
        command,
        env={**environ, **place, **meeting},
        capture_output=True,
        text=True,
        errors="replace",
        timeout=seconds * 2,
        check=False,
    )

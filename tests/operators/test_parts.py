"""A sweep in several processes gives what one process gives, and a process that dies is told with the operator that it was in."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from stackproof.base import processes
from stackproof.device.devices import HOST
from stackproof.operators import parts
from stackproof.record.checks import CheckCrashed

NAMES = ["add", "exp", "mul", "special.erfcx", "sub"]
CPU = torch.device("cpu")


@pytest.mark.slow
def test_parts_give_what_one_process_gives() -> None:
    alone = parts.swept(CPU, torch.float32, 1, ["torch"], 1, NAMES)
    assert [end.operator for end in alone] == NAMES
    assert alone == parts.swept(CPU, torch.float32, 1, ["torch"], 2, NAMES)


@pytest.mark.slow
def test_a_process_that_dies_is_told_with_its_operator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deadly = tmp_path / "deadly.py"
    deadly.write_text(
        "import os, signal, sys\nprint('operator exp', flush=True)\nos.kill(os.getpid(), signal.SIGSEGV)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    with pytest.raises(CheckCrashed, match="ended with signal SIGSEGV; it printed last: .*operator exp"):
        parts.swept(CPU, torch.float32, 1, ["deadly"], 2, NAMES)


@pytest.mark.parametrize(("cores", "expected"), [(1, 1), (2, 1), (4, 2), (16, 8), (128, 8)])
def test_processes_have_two_cores_each(cores: int, expected: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "cores", lambda: cores)
    card: Any = SimpleNamespace(kind="card")
    assert parts.suited(card) == expected
    assert parts.suited(HOST) == 1

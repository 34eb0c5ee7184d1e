"""The simulated cards' own tool, which needs no torch."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from .double import PATH, fired


def ask(word: str, **variables: str) -> str:
    """Return what the tool prints of card 0."""
    command = [sys.executable, "-S", "-m", "torch_sim.tool", word, "0"]
    env = {**os.environ, "PYTHONPATH": PATH, **variables}
    return subprocess.run(command, env=env, capture_output=True, text=True, check=True, timeout=60).stdout


def test_a_card_tells_its_memory() -> None:
    assert ask("state", SIM_MEMORY_MIB="512") == "512\n"


@pytest.mark.parametrize(("faults", "said"), [("", ""), ("neighbour:factor=2", "1, somebody")])
def test_somebody_else_is_on_the_card_where_the_fault_is_planted(tmp_path: Path, faults: str, said: str) -> None:
    assert ask("processes", SIM_FAULTS=faults, SIM_FAULTS_FIRED=str(tmp_path)).strip() == said
    assert fired(tmp_path) == ({"neighbour": 1} if said else {})

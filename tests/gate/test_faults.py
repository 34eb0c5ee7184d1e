"""Each fault of the drill's table that is planted in the head of a gate is found by name, and the base is free of it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from stackproof.drill import table
from stackproof.drill.inject import Site
from stackproof.drill.run import run
from stackproof.drill.table import Fault

PYTHON = os.environ.get("STACKPROOF_SIDE", sys.executable)
ROWS = table.load().gates


@pytest.mark.live
@pytest.mark.parametrize("row", ROWS, ids=[row.id for row in ROWS])
def test_a_fault_of_the_table_is_found_by_name(row: Fault, tmp_path: Path) -> None:
    site = Site(tmp_path, Path(sys.executable), words={"side": PYTHON})
    row.injection.inject(site)
    ended = run(row.call, (), site, deadline_s=1200.0)
    assert ended.fired, ended.last
    for name, words in row.expected.red.items():
        assert ended.checks[name].verdict.exit_code, ended.checks[name]
        assert words in ended.checks[name].reason
    assert ended.exit_code == row.expected.exit_code


def test_every_family_has_its_rows() -> None:
    cells = [name.rpartition("::")[2] for row in ROWS for name in row.expected.red]
    assert cells.count("computes") >= 3
    assert cells.count("units") >= 3
    assert "start-up-memory" in cells

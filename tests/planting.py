"""Faults planted in torch for whole runs of the real suites, by a `sitecustomize.py` that every process of the run imports.

`fixtures` can be imported there, as in the suites.
"""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from stackproof import ROOT
from stackproof.record.records import Check, Record
from stackproof.runner import supervise
from stackproof.runner.request import Request
from stackproof.stack import stacks

from .conftest import Silent


def run_planted(
    suite: str, code: str, folder: Path, only: tuple[str, ...] = (), dataset: str = "", **environment: str
) -> dict[str, Check]:
    """Run a suite of the cpu stack with the code planted in every process; return its checks by id."""
    return {check.id: check for check in record_planted(suite, code, folder, only, 1.0, dataset, **environment).checks}


def record_planted(
    suite: str,
    code: str,
    folder: Path,
    only: tuple[str, ...] = (),
    scale: float = 1.0,
    dataset: str = "",
    **environment: str,
) -> Record:
    """Run a suite of the cpu stack with the code planted in every process, its deadlines scaled; return the record."""
    planted = folder / "planted"
    planted.mkdir()
    (planted / "sitecustomize.py").write_text(textwrap.dedent(code), encoding="utf-8")
    logs = folder / "logs"
    logs.mkdir()
    request = Request("verify", stacks.load("cpu"), (suite,), only=only, deadline_scale=scale, dataset=dataset)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**environment, "PYTHONPATH": f"{planted}:{ROOT}"}.items():
            patch.setenv(name, value)
        return supervise.run(request, Record("verify", "cpu", "2026-01-01T00:00:00+00:00"), Silent(), logs)

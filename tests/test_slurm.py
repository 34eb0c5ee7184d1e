"""The batch template of slurm/ on a real Slurm with two nodes: it proves a stack, and fails in time with the verb's exit code."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from stackproof import ROOT
from stackproof.record import reading
from stackproof.record.records import Verdict

from .slurm_cluster import Cluster, missing, running

pytestmark = pytest.mark.slurm

TEMPLATE = ROOT / "slurm" / "ranks.sbatch"
SECONDS = 400.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A Slurm that runs; skipped where there is none, saying what is missing."""
    if reason := missing():
        pytest.skip(reason)
    with running(tmp_path_factory.mktemp("slurm")) as found:
        yield found


def environment(folder: Path, **more: str) -> dict[str, str]:
    """Return what a user exports before sbatch."""
    return {"STACK": "cpu", "PYTHON": sys.executable, "FOLDER": str(folder), "DEADLINE": "300", **more}


def test_the_template_proves_two_nodes(cluster: Cluster, tmp_path: Path) -> None:
    state, said = cluster.submit(TEMPLATE, [], environment(tmp_path), SECONDS)
    assert state == "COMPLETED 0:0", said
    record = reading.read(tmp_path / "record.json")
    assert record.verdict is Verdict.PASSED
    assert ("srun", 2) == (record.provenance["launcher"], record.provenance["world_size"])
    figures = {str(value) for check in record.checks for value in check.figures.values()}
    assert {"alpha", "beta"} <= figures


def test_a_rank_that_fails_is_the_jobs_failure(cluster: Cluster, tmp_path: Path) -> None:
    program = ["--program", "tests.ranks.rank_programs:raise_on_one"]
    state, said = cluster.submit(TEMPLATE, program, environment(tmp_path), SECONDS)
    assert state == "FAILED 1:0", said
    reason = reading.read(tmp_path / "record.json").checks[-1].reason
    assert "rank 1 failed in 'adding numbers': ValueError: seven is missing" in reason


def test_without_a_stack_the_template_says_what_to_do(cluster: Cluster, tmp_path: Path) -> None:
    state, said = cluster.submit(TEMPLATE, [], environment(tmp_path, STACK=""), SECONDS)
    assert state == "FAILED 2:0", said
    assert "which stack? submit with STACK=NAME sbatch" in said

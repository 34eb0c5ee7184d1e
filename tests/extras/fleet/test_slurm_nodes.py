"""A fleet of seven nodes of a real Slurm: slow, wrong, dying and unlike ones are each named rightly, from the plan to the judgement.

Nodes are simulated cards on this host. Their own rates are so low that neighbours of the host hardly show; one has three fifths of them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from stackproof.base import processes
from stackproof.base.places import ROOT
from stackproof.extras.fleet import judgement, plan
from stackproof.extras.fleet.judgement import FleetJudgement, HostVerdict, JudgedHost
from stackproof.stack import environments, stacks

from ...simulated.double import require_compiler
from ...slurm_cluster import Cluster, many, missing

pytestmark = pytest.mark.slurm

HEALTHY = ("n1", "n2", "n3")
NODES = (*HEALTHY, "slow", "wrong", "dying", "driver")
# What runs in place of Python on each node: what is planted there, and nothing else.
_PYTHON = """#!/bin/bash
export SIM_CARDS=1 SIM_GFLOP_S=5 SIM_GB_S=5 OMP_NUM_THREADS=1 PYTHONPATH={source}
case $SLURMD_NODENAME in
  slow) export SIM_GFLOP_S=3 SIM_GB_S=3;;
  wrong) export SIM_FAULTS=flip:op=bmm,every=156;;
  driver) export SIM_DRIVER=560.35;;
  dying) ( sleep 4; kill -9 $(cat {folder}/slurmd-dying.pid) $$ ) & ;;
esac
exec {python} "$@"
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A Slurm of seven nodes; skipped where there is none, saying what is missing."""
    if reason := missing():
        pytest.skip(reason)
    require_compiler()
    with many(tmp_path_factory.mktemp("slurm"), NODES) as found:
        yield found


@pytest.fixture(scope="module")
def swept(cluster: Cluster) -> Path:
    """The folder of a sweep whose jobs have run: planned, run and judged by the verbs, as people type them."""
    folder = cluster.folder / "sweep"
    python, interpreter = cluster.folder / "python", environments.prepare(stacks.load("sim"))
    text = _PYTHON.format(source=f"{ROOT / 'src'}:{ROOT}", folder=cluster.folder, python=interpreter)
    python.write_text(text, encoding="utf-8")
    python.chmod(0o755)
    less = ("--without", "doctor", "--without", "smoke")
    typed(cluster, "plan", folder, "--stack", "sim", "--hosts", ",".join(NODES), *less, "--profile", "tiny")
    typed(cluster, "run", folder, "--python", python, "--wait", "60", "--sbatch=--array=0-6%3", "--deadline-scale", "5")
    return folder


def typed(cluster: Cluster, step: str, folder: Path, *words: object) -> str:
    """Type a step of the verb; all its exit codes but those of refusals will do."""
    command = [sys.executable, "-m", "stackproof", "fleet", step, str(folder), *map(str, words)]
    environment = {**os.environ, "SLURM_CONF": str(cluster.folder / "slurm.conf"), processes.MARK: cluster.mark}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode in (0, 1, 6), ended.stdout + ended.stderr
    return ended.stdout


def of(found: FleetJudgement, host: str) -> JudgedHost:
    """Return the word on one host."""
    return next(one for one in found.hosts if one.host == host)


def test_each_odd_node_is_named(swept: Path) -> None:
    found = judgement.read(swept / judgement.NAME)
    assert of(found, "slow").standing in (HostVerdict.SLOW, HostVerdict.SUSPECTED), of(found, "slow")
    assert of(found, "wrong").standing is HostVerdict.WRONG and "transient" in of(found, "wrong").reason
    assert (
        of(found, "dying").standing is HostVerdict.NOT_REACHED
        and "began, and left no record" in of(found, "dying").reason
    )
    assert of(found, "driver").standing is HostVerdict.UNLIKE and "simulated -> 560.35" in of(found, "driver").reason
    healthy = {of(found, host).standing for host in HEALTHY}
    assert not healthy & {HostVerdict.WRONG, HostVerdict.UNLIKE, HostVerdict.NOT_REACHED}, healthy


def test_each_record_is_of_its_own_node(swept: Path) -> None:
    left = sorted(path.stem for path in (swept / "records").glob("*.json"))
    assert left == sorted(set(plan.load(swept).hosts) - {"dying"})
    for host in left:
        assert json.loads((swept / "records" / f"{host}.json").read_text())["provenance"]["host"] == host

"""A judged fleet told: in a terminal and in its file, and never as what is obeyed."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from stackproof.extras.fleet import judge, judgement
from stackproof.extras.fleet.judgement import FleetJudgement
from stackproof.record import outline

from .making import KERNELS, SUBJECTS, MadeHost, fleet


@pytest.fixture
def judged(tmp_path: Path) -> FleetJudgement:
    """A fleet with one host of each kind."""
    odd = (
        MadeHost("slow1", slow={SUBJECTS[0]: 1.4}),
        MadeHost("wrong1", digests={KERNELS[0]: "0000000000000002"}),
        MadeHost("driver1", facts={"driver.nvidia-smi": "560"}),
    )
    folder = fleet(tmp_path, 12, *odd, silent=("dead1",))
    return judge.judge(folder)


def test_the_gravest_stand_first_and_suspects_are_swept_again(judged: FleetJudgement) -> None:
    told = outline.text(judgement.parts(judged, "FOLDER"))
    rows = told.splitlines()
    assert [row.split()[0] for row in rows[rows.index("not proved") + 2 :]][:4] == ["wrong", "slow", "not", "unlike"]
    assert [line.split()[2] for line in judged.drains()] == ["NodeName=slow1", "NodeName=wrong1"]
    assert "sweep wrong1, slow1 again with healthy hosts" in told


def test_what_is_kept_is_json_that_says_the_same(judged: FleetJudgement) -> None:
    kept = json.loads(judgement.as_json(judged))
    words = {host["host"]: host["standing"] for host in kept["hosts"]}
    assert words == {host.host: host.standing.value for host in judged.hosts}


def test_a_reason_to_drain_cannot_hold_a_command(judged: FleetJudgement) -> None:
    hostile = 'gemm\'; rm -rf $(pwd) `id` "x" | & > <\n\x1b[31m'
    (slow,) = (host for host in judged.hosts if host.host == "slow1")
    words = dataclasses.replace(slow, reason=hostile).drain()
    cut = dataclasses.replace(slow, reason="gemm " * 40).drain()[-1]
    assert cut.endswith("gemm ...") and len(cut) < 130
    assert len(words) == 5 and not set(words[-1]) & set("'\"`$;|&<>\n\x1b\\")

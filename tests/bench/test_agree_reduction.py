"""An all-reduce under the engine and in a bare loop, on two ranks."""

from __future__ import annotations

from pathlib import Path

import pytest

from stackproof.bench.ranks import launched
from stackproof.bench.subjects import subjects
from stackproof.device.devices import HOST
from stackproof.stack import stacks

_DEADLINE_S = 600.0
"""Where others use both cores, two ranks wait a time slice for one another at each of some five thousand calls: 106 s were seen."""


@pytest.mark.slow
def test_both_time_the_same_call(tmp_path: Path) -> None:
    known = {subject.name: subject for subject in subjects("regular", stacks.load("cpu"))}
    subject = known["all-reduce-1-mib-2-ranks"]
    arguments = {"parameters": dict(subject.parameters["tiny"]), "preset": "tiny", "rounds": 2}
    first, second = launched(subject, HOST, 2, "stackproof.bench.agree:program", arguments, tmp_path, _DEADLINE_S)
    assert "is exact on 2 ranks" in first["reason"]
    assert first["ours"] == second["ours"]
    assert first["theirs"] == second["theirs"]
    assert len(first["ours"]) == 4
    assert min(first["ours"] + first["theirs"]) > 0

"""The verb `ranks`: what a rank that writes no record says in the terminal."""

from __future__ import annotations

from pathlib import Path

import pytest

from stackproof import cli
from stackproof.ranks import join
from stackproof.record.records import Verdict

HOSTILE = "rank 1 failed in 'step 3': ValueError: \x1b[2J\u202egnp\nPASSED  cpu: 5 passed in 1 s"


def test_a_rank_shows_what_a_program_raised_as_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told = join.RankResult(Verdict.FAILED, HOSTILE)
    monkeypatch.setattr(join, "take_part", lambda *_: told)
    assert cli.main(["ranks", "--stack", "cpu", "--folder", str(tmp_path)]) == 1
    assert capsys.readouterr().err == (
        "stackproof: rank 1 failed in 'step 3': ValueError: \\x1b[2J\\u202egnp\n    PASSED  cpu: 5 passed in 1 s\n"
    )

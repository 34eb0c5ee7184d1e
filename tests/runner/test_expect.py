"""What a manifest is written from: a row comes from a run that had these very checks, or stays as it was."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from stackproof import ROOT
from stackproof.base.errors import Refusal
from stackproof.record.records import Check, Record, Verdict
from stackproof.runner import expect
from stackproof.stack import manifest
from stackproof.stack.manifest import FileRow
from stackproof.stack.stacks import Stack

BEFORE = ("rng/rng::seed", "rng/rng::state")
NOW = (*BEFORE, "rng/rng::order")


@pytest.fixture
def mine(cpu: Stack, tmp_path: Path) -> Stack:
    """A stack whose manifest was written when there were two checks, of which one was skipped."""
    own = replace(cpu, folder=tmp_path)
    manifest.write(manifest.path_of(own), manifest.rows_of(BEFORE, {BEFORE[0]: "measured"}), own)
    return own


def test_a_file_that_did_not_change_keeps_its_row(mine: Stack) -> None:
    assert expect.settle(mine, {}, BEFORE)["rng/rng"].without == {"measured": 1}


@pytest.mark.parametrize("rows", [{}, manifest.rows_of(BEFORE, {})], ids=["no record", "record of other checks"])
def test_checks_that_no_run_has_shown_are_refused(mine: Stack, rows: dict[str, FileRow]) -> None:
    with pytest.raises(Refusal, match="executes of rng/rng: the checks changed and no record.* --suite rng"):
        expect.settle(mine, rows, NOW)


def test_a_run_of_these_very_checks_gives_the_row(mine: Stack) -> None:
    rows = manifest.rows_of(NOW, {NOW[2]: "not applicable"})
    assert expect.settle(mine, rows, NOW) == rows


def test_a_record_without_its_digest_shows_nothing(cpu: Stack, tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    found = json.loads((ROOT / "fixtures" / "drill" / "bench.json").read_text(encoding="utf-8"))
    del found["digests"]
    path.write_text(json.dumps(found), encoding="utf-8")
    with pytest.raises(Refusal, match="holds no digest of itself"):
        expect.measured(cpu, [path])


def test_a_record_of_one_suite_says_nothing_of_the_others(mine: Stack) -> None:
    seen = Record(
        "verify",
        "cuda",
        "2026-11-01T00:00:00+00:00",
        1.0,
        Verdict.PASSED,
        {},
        [Check("data/a::b", Verdict.PASSED, "", 0.0)],
    )
    assert set(expect.predicted(mine, ("data/a::b", *BEFORE), seen, "as there")) == {"data/a"}

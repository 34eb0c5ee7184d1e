"""The table of faults is read strictly, and holds what the drill promises."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from stackproof import ROOT
from stackproof.base.errors import Refusal
from stackproof.drill import table
from stackproof.drill.drill import cleans
from stackproof.drill.inject import Checkout
from stackproof.drill.run import only_of
from stackproof.runner import suites

ROW = """
[[fault]]
id = "a"
area = "compute"
imitates = "something"
source = "user report A1"
suites = ["rng"]
[fault.red]
"rng/rng::state" = "x"
[fault.inject]
kind = "planted"
code = "fired()"
"""


@pytest.fixture(scope="module")
def faults() -> table.Faults:
    """The table as it stands."""
    return table.load()


def test_there_are_forty_faults_and_a_fast_part(faults: table.Faults) -> None:
    assert len(faults.rows) >= 40
    fast = faults.choose((), fast=True)
    assert {row.area for row in fast} == set(table.AREAS)
    assert len(fast) < len(faults.rows) / 2


def test_every_row_says_what_it_imitates_and_where_that_was_seen(faults: table.Faults) -> None:
    for row in faults.rows:
        assert re.fullmatch(r"user report [A-E]\d+|https://\S+", row.source), row.id
        assert re.fullmatch(r"[a-z0-9-]+", row.id)
        assert all({**row.expected.red, **row.expected.noted}.values()), row.id


def test_checks_that_rows_name_exist(faults: table.Faults) -> None:
    known = suites.defined()
    for row in faults.rows:
        for name in (*row.expected.red, *row.expected.green, *row.call.only):
            assert "/" not in name or "::" not in name or name.replace("?", "[").split("[")[0] in known, (
                f"{row.id}: {name}"
            )


def test_every_row_can_be_run_with_and_without_its_fault(faults: table.Faults) -> None:
    for row in faults.rows:
        only_of(row.call, (*row.expected.red, *row.expected.green))
    names = [clean.name for clean in cleans(faults.rows)]
    assert len(names) == len(set(names))


def test_every_edit_of_the_checkout_finds_its_place(faults: table.Faults, tmp_path: Path) -> None:
    tried = 0
    for row in faults.rows:
        for edit in row.injection.edits if isinstance(row.injection, Checkout) else ():
            source = [path for path in ROOT.glob(edit.file) if path.is_file()]
            assert edit.create or len(source) == 1, f"{row.id}: {edit.file} names {len(source)} files"
            copy = tmp_path / row.id / edit.file
            copy.parent.mkdir(parents=True, exist_ok=True)
            for one in source:
                shutil.copy(one, copy)
            edit.apply(tmp_path / row.id)
            tried += 1
    assert tried > 10


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (ROW + ROW, "two faults are called a"),
        (ROW.replace('area = "compute"', 'area = "computing"'), "did you mean 'compute'"),
        (ROW.replace("planted", "plated"), "did you mean 'planted'"),
        (ROW.replace("suites", "suite"), "'fault\\[0\\].suite' is not a known key"),
        (ROW.replace('code = "fired()"', ""), "'fault\\[0\\].inject.code' is missing"),
    ],
)
def test_a_slip_in_a_row_is_refused(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "faults.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(Refusal, match=said):
        table.load(path)


def test_rows_are_chosen_by_name_or_pattern(faults: table.Faults) -> None:
    for name in ("extra-package", "environment/extra-package"):
        assert [row.id for row in faults.choose((name,), fast=False)] == ["extra-package"]
    assert {row.id for row in faults.choose(("known-issue-*",), fast=False)} == {
        "known-issue-expired",
        "known-issue-passes",
    }
    with pytest.raises(Refusal, match="did you mean 'extra-package'"):
        faults.choose(("extra-packages",), fast=False)


def test_every_row_of_the_table_is_of_a_family(faults: table.Faults) -> None:
    assert not [row.id for row in faults.rows if not any(family.has(row) for family in faults.families)]
    empty = [family.checks for family in faults.families if not any(family.has(row) for row in faults.rows)]
    assert empty == [("gate/*",), ("drift/*", "fleet/*", "bisect/*")]

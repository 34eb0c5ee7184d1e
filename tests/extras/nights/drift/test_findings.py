"""A store of nights: exit codes, bad records, too few nights."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from stackproof.extras.nights.drift.findings import PASSED, SLOWER, TOO_FEW, read_drift
from stackproof.extras.nights.drift.scan import table
from tests.extras.nights.drift.nightly import Story, commit, gate, kept, on, record, told

FEWEST = table().scan.fewest


@pytest.mark.parametrize("count", [0, 1, FEWEST])
def test_too_few_nights_say_how_many_more(tmp_path: Path, count: int) -> None:
    found = read_drift([kept(tmp_path, told(Story(count=count)))])
    assert found.exit_code == TOO_FEW and f"{FEWEST + 1 - count} more night" in found.headline
    assert read_drift([kept(tmp_path, told(Story(count=FEWEST + 1)))]).exit_code == PASSED


def test_disturbed_nights_do_not_count(tmp_path: Path) -> None:
    nights = told(Story(count=FEWEST + 1))
    nights[3].provenance["disturbed"] = "foreign load"
    found = read_drift([kept(tmp_path, nights)])
    assert found.exit_code == TOO_FEW and "1 more night " in found.headline
    assert [one.disturbed for one in found.places[0].nights if one.disturbed] == ["foreign load"]


def test_nights_and_gates_of_days_to_come_are_left_out_and_named(tmp_path: Path) -> None:
    kept(tmp_path, told(Story(code=(50, 0.05), count=53)))
    quiet = [(one.day, one.state) for one in read_drift([tmp_path]).places[0].nights]
    kept(tmp_path / "ahead", [on(40_000, one) for one in told(Story(count=3, seed=9))])
    late = gate(40_000, commit(49), commit(50), 1.05)
    kept(tmp_path / "gates", [late])
    back = on(-20_000, record(0, [9.0], [9.0], {"commit.date": "2026-01-01T00:00:00+00:00"}))
    kept(tmp_path / "back", [back])
    found = read_drift([tmp_path])
    assert [(one.day, one.state) for one in found.places[0].nights] == quiet
    assert found.exit_code == PASSED and not found.places[0].confirmed
    assert sum("clock" in one for one in found.problems) == 5


def test_suspected_is_not_told_and_confirmed_is(tmp_path: Path) -> None:
    kept(tmp_path, told(Story(code=(50, 0.05), count=53)))
    found = read_drift([tmp_path])
    assert found.exit_code == PASSED and "1 suspected" in found.headline
    kept(tmp_path / "gates", [gate(52, commit(49), commit(50), 1.05)])
    assert read_drift([tmp_path]).exit_code == SLOWER


def test_bad_records_are_skipped_and_named(tmp_path: Path) -> None:
    kept(tmp_path, told(Story(count=30)))
    (tmp_path / "half.record.json").write_text('{"schema": "stackproof-rec', encoding="utf-8")
    (tmp_path / "other.record.json").write_text("{}", encoding="utf-8")
    found = read_drift([tmp_path])
    assert found.exit_code == PASSED and len(found.places[0].nights) == 30
    assert all(word in " ".join(found.problems) for word in ("half.record", "other.record"))


def test_a_night_that_was_published_counts_once(tmp_path: Path) -> None:
    records = [*told(Story(code=(50, 0.05), count=53)), gate(52, commit(49), commit(50), 1.05)]
    kept(tmp_path / "local", [replace(one, digests={"record": "0" * 64}) for one in records])
    shutil.copytree(tmp_path / "local", tmp_path / "published")
    (found,) = read_drift([tmp_path]).places
    assert len(found.nights) == 53 and len(found.confirmed) == 1


def test_only_the_stack_that_is_asked_for(tmp_path: Path) -> None:
    kept(tmp_path, told(Story(count=30)))
    assert read_drift([tmp_path], "cpu").places == () and len(read_drift([tmp_path], "cuda").places) == 1

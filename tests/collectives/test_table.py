"""Rows and cases: everything that the suite promises to try is there, once."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from stackproof.base.errors import Refusal
from stackproof.collectives import table
from stackproof.collectives.calls import COLLECTIVES, LONG
from stackproof.collectives.table import (
    COUNTS,
    DTYPES,
    OPERATORS,
    SHORT,
    Lack,
    Row,
    applicable,
    cases,
    lacking,
    lacks,
    rows,
    subgroups,
)
from stackproof.ranks import libraries

NAMES = [row.name for row in rows()]
TRIED = [row for row in rows() if row.collective in COLLECTIVES]
PROMISED_COUNTS = {0, 1, 2, 3, 4, 7, 8, 28, 30, 31, 32, 33, 48, 64, 127, 128, 129, 2**20 + 3}


def test_names_are_unique_and_lead_back() -> None:
    assert len(set(NAMES)) == len(NAMES)
    assert [Row.of(name) for name in NAMES] == rows()


def test_every_operator_in_every_dtype() -> None:
    reductions = ("all_reduce", "reduce", "reduce_scatter", "reduce_scatter_tensor")
    wanted = {
        f"{name}-{operator}-{dtype}" for name, operator, dtype in itertools.product(reductions, OPERATORS, DTYPES)
    }
    assert wanted - set(NAMES) == {f"{name}-avg-bool" for name in reductions}


def test_everything_is_moved_in_every_dtype() -> None:
    moves = [one.name for one in COLLECTIVES.values() if not one.reduces and not one.name.startswith("coalescing")]
    assert {f"{name}-copy-{dtype}" for name, dtype in itertools.product(moves, DTYPES)} <= set(NAMES)
    assert {"broadcast", "all_gather", "gather", "scatter", "all_to_all", "send_recv"} <= set(moves)


def test_forms_that_the_suite_promises() -> None:
    forms = {row.form for row in rows()}
    assert {"async", "late", "strided", "transposed", "subgroup", "uneven", "interleaved", "overlapping"} <= forms
    assert {"barrier-world-none", "barrier-async-none", "barrier-subgroup-none"} <= set(NAMES)
    assert any(name.startswith("coalescing") for name in NAMES)


@pytest.mark.parametrize("form", ["async", "strided", "transposed", "subgroup", "uneven"])
def test_every_form_is_tried_with_long_messages_too(form: str) -> None:
    for row in (row for row in TRIED if row.form == form):
        counts = [case.count for case in cases(row, 2, COUNTS)]
        assert min(counts) < 130 and sum(count > 2000 for count in set(counts)) == 3, row.name
        assert (max(case.count for case in cases(row, 3, SHORT)) > 2000) is (form == "subgroup"), row.name


def test_what_kills_ranks_somewhere_comes_last() -> None:
    assert NAMES[-1] == "reduce_scatter_tensor-scalar-float32"


@pytest.mark.parametrize("world", [1, 2, 3, 8])
def test_every_row_has_cases(world: int) -> None:
    for row in TRIED:
        assert cases(row, world, COUNTS) or not applicable(row, world), row.name


def test_all_counts_are_tried_small_ones_first() -> None:
    counts = [case.count for case in cases(Row("all_reduce", "avg", "bfloat16"), 2, COUNTS)]
    assert set(counts) >= PROMISED_COUNTS | {-1} and counts == sorted(counts)


def test_no_two_counts_are_far_apart() -> None:
    for row in (Row("all_reduce", "sum", "float32"), Row("all_reduce", "large_sum", "float32")):
        counts = [case.count for case in cases(row, 2, COUNTS) if case.count >= 8]
        assert max(after / before for before, after in itertools.pairwise(counts)) < 1.75
    assert cases(Row("all_reduce", "large_sum", "float32"), 2, COUNTS)[0].count < 1.75 * LONG


@pytest.mark.parametrize("row", TRIED, ids=lambda row: row.name)
def test_cases_differ_in_data_and_have_a_root_among_their_peers(row: Row) -> None:
    found = cases(row, 3, SHORT)
    assert len({case.number for case in found}) == len(found)
    assert all(0 <= case.root < len(case.peers) for case in found)


def test_roots_and_layouts_take_turns() -> None:
    found = cases(Row("broadcast", "copy", "float32"), 3, COUNTS)
    assert ({case.root for case in found}, {case.layout for case in found}) == ({0, 1, 2}, {"own", "offset"})


@pytest.mark.parametrize(
    ("world", "groups"),
    [(1, [(0,)]), (2, [(1,), (0,), (0, 1)]), (3, [(1, 2), (0, 1), (0, 2), (0, 1, 2)])],
)
def test_subgroups_leave_out_each_end_and_every_other(world: int, groups: list[tuple[int, ...]]) -> None:
    assert subgroups(world) == groups


def test_nobody_is_alone_with_a_message() -> None:
    assert not applicable(Row("send_recv", "copy", "float32"), 1)
    assert not applicable(Row("all_reduce", "late", "float32"), 1)
    assert not applicable(Row("scatter", "strided", "float32"), 1)
    assert applicable(Row("all_reduce", "sum", "float32"), 1)


MEAN = Row("all_reduce", "avg", "float32")


@pytest.mark.parametrize("lack", lacks(), ids=lambda lack: lack.place)
def test_a_rule_is_about_something(lack: Lack) -> None:
    assert set(lack.backends) <= {backend for library in libraries.libraries() for backend in library.backends}
    versions, device = ("2.4.1", "2.8.0", "2.11.0", "2.15.0"), lack.devices[0].replace("*", "cuda")
    assert any(lack.covers(row, lack.backends[0], device, version) for row in rows() for version in versions)
    assert len(lack.reason) > 15 and len(lack.says) > 5 and (not lack.link or lack.link.startswith("https://"))


def test_a_rule_holds_for_its_versions() -> None:
    old, new = lacking(MEAN, "gloo", "cpu", "2.4.1+das.opt2"), lacking(MEAN, "gloo", "cpu", "2.8.0+cpu")
    assert old is not None and "no mean before" in old.reason and new is None


def test_a_rule_holds_for_its_backend_alone() -> None:
    assert lacking(Row("coalescing_all_reduce", "sum", "float32"), "gloo", "cuda") is not None
    assert lacking(Row("coalescing_all_reduce", "sum", "float32"), "nccl", "cuda") is None


def test_a_rule_holds_for_tensors_of_its_devices_alone() -> None:
    send = Row("send_recv", "copy", "float32")
    assert lacking(send, "gloo", "cpu", "2.11.0") is None
    lack = lacking(send, "gloo", "cuda", "2.11.0")
    assert lack is not None and not lack.tried
    assert "not tried, because it ended so: writev: Bad address" in lack.sentence


def test_what_is_not_tried_is_tried_with_a_newer_torch() -> None:
    assert lacking(Row("send_recv", "copy", "float32"), "gloo", "cuda", "3.0.0") is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('torch = "newer than 2.8"\n', "it must be a version range"),
        ('operators = ["avg"]\n', "is not a known key"),
        ("reason = 7\n", "it must be a string"),
        ('tried = false\ntorch = ">=2.8"\n', "a row that is not tried needs an end"),
    ],
)
def test_a_broken_rule_is_refused(text: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = '[[lacks]]\nbackends = ["gloo"]\ncollectives = ["*"]\nsays = "no"\n' + text
    path = tmp_path / "collectives.toml"
    path.write_text(whole + ("" if "reason" in text else 'reason = "because"\n'))
    monkeypatch.setattr(table, "RULES", path)
    with pytest.raises(Refusal, match=words):
        lacks.__wrapped__()

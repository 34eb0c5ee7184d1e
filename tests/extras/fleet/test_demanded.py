"""A host is proved for rows that were asked for, each as it was asked: whatever field of one is another, the host is not green."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from stackproof.base.errors import Refusal
from stackproof.bench import subjects
from stackproof.extras.fleet import answers, demanded, plan, rules, sweep
from stackproof.extras.fleet.judgement import Standing
from stackproof.extras.fleet.wanted import PlanWants
from stackproof.record.records import Figure
from stackproof.stack import stacks

from .making import KERNELS, MadeHost, fleet, record

_GONE = object()
_ODD: tuple[Any, ...] = (_GONE, None, "nan", "odd", 0, -1, 1.5, 1e300, True, False, "", [], {})
"""What may stand in place of a value."""
_EXPLAINS = ("reason", "note", "verified")
"""Words of a host's own: any will do where there are some; `verified` is that of the check."""


def places(row: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """Yield the fields of a row of a record, and its figures."""
    yield from ((name,) for name in row if name != "figures")
    yield from (("figures", name) for name in row["figures"])


def changed(row: dict[str, Any], place: tuple[str, ...], value: object) -> bool:
    """Put a value in place of another; return whether that says something else."""
    inside = row if len(place) == 1 else row[place[0]]
    before = inside[place[-1]]
    if value is _GONE:
        del inside[place[-1]]
        return place[-1] not in ("note",)
    inside[place[-1]] = value
    same = value == before or (
        place[-1] in _EXPLAINS and isinstance(value, str) and bool(value) and place != ("figures", "verified")
    )
    return not (same or place == ("note",)) or isinstance(value, bool) != isinstance(before, bool)


def within(place: tuple[str, ...], value: object) -> bool:
    """Whether a value may be so: what is told between bounds, and how long a step took."""
    between = {one.figure: one for one in rules.load().shown}.get(place[-1])
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if between and number:
        return between.least <= value <= between.most  # type: ignore[operator]
    return place == ("seconds",) and number and 0 <= value <= 60  # type: ignore[operator]


ROWS = [
    ("checks", "environment"), ("checks", "smoke"), ("checks", "subject/0::gemm-float32"), ("checks", "card/0"),
    ("checks", "subject/0::copy-to-device-pinned"), ("checks", "replay/0::product-float32[normal]"), ("checks", "replay/0::coverage"),
    ("measurements", "gemm-float32"), ("measurements", "all-reduce-4-mib-2-ranks"),
]  # fmt: skip


def why_not(path: Path, wants: PlanWants) -> str:
    """Return why the host of a record is not proved."""
    try:
        answer = answers.read(path, path.stem, wants)
    except Refusal as refusal:
        return str(refusal)
    return "; ".join(answer.lacks) or answer.reason


@pytest.mark.parametrize(("kind", "name"), ROWS)
def test_no_field_of_a_row_may_be_another(tmp_path: Path, kind: str, name: str) -> None:
    folder = fleet(tmp_path, 1)
    path, wants = answers.record_path(folder, "n01"), plan.load(folder).wants
    good = json.loads(path.read_text())
    (at,) = (at for at, row in enumerate(good[kind]) if name in (row.get("id"), row.get("workload")))
    for place in places(good[kind][at]):
        for value in _ODD:
            bad = deepcopy(good)
            if changed(bad[kind][at], place, value) and not within(place, value):
                path.write_text(json.dumps(bad), encoding="utf-8")
                assert why_not(path, wants), (place, value)


@pytest.mark.parametrize(("kind", "name"), ROWS)
def test_each_row_stands_in_it_once(tmp_path: Path, kind: str, name: str) -> None:
    folder = fleet(tmp_path, 6)
    path = answers.record_path(folder, "n01")
    good = json.loads(path.read_text())
    (at,) = (at for at, row in enumerate(good[kind]) if name in (row.get("id"), row.get("workload")))
    for rows in (good[kind][:at] + good[kind][at + 1 :], [*good[kind], good[kind][at]]):
        path.write_text(json.dumps({**good, kind: rows}), encoding="utf-8")
        host = sweep.judged(folder).hosts[0]
        assert host.standing is Standing.INCOMPLETE and name in host.reason, host


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"cards": 0, "devices": 0}, "cards: 0, devices: 0"), ({"cards": "1"}, "cards: '1', devices: 1"), ({"cards": True}, "cards: True"),
        ({"cards": -1, "devices": -1}, "cards: -1"), ({"cards": 65, "devices": 65}, "cards: 65"), ({"cards": 2}, "cards: 2, devices: 1"),
        ({"rehearsed": True}, "was rehearsed"), ({"rehearsed": 0}, "was rehearsed"), ({"pinned": False}, "says that it is no lock"),
        ({"pinned": "yes"}, "'yes', which is neither true nor false"), ({"lock": "unpinned"}, "and its lock is 'unpinned'"),
        ({"files hashed": 0}, "with 0 files compared"),
    ],
)  # fmt: skip
def test_what_all_hosts_say_of_themselves_is_no_excuse(tmp_path: Path, facts: dict[str, Figure], said: str) -> None:
    found = sweep.judged(fleet(tmp_path, 0, *(MadeHost(f"m{number}", facts=facts) for number in range(6))))
    assert Standing.PROVED not in found.counts and said in found.hosts[0].reason, found.hosts[0]


def test_what_is_not_pinned_is_said(tmp_path: Path) -> None:
    hosts = (MadeHost(f"m{number}", facts={"pinned": False, "lock": "unpinned"}) for number in range(6))
    found = sweep.judged(fleet(tmp_path, 0, *hosts))
    assert found.counts == {Standing.PROVED: 6} and any(note.startswith("unpinned: 6 hosts") for note in found.notes)


@pytest.mark.parametrize(
    ("name", "value"),
    [("version", "9"), ("preset", "full"), ("unit", "s/GFLOP"), ("dtype", "float16"), ("world_size", 9)],
)
def test_an_odd_row_concerns_its_own_host(tmp_path: Path, name: str, value: object) -> None:
    folder = fleet(tmp_path, 6)
    path = answers.record_path(folder, "n01")
    record_ = json.loads(path.read_text())
    record_["measurements"][0][name] = value
    path.write_text(json.dumps(record_), encoding="utf-8")
    found = sweep.judged(folder)
    assert found.counts == {Standing.INCOMPLETE: 1, Standing.PROVED: 5} and not found.notes
    assert f"has {value!r} for '{name}', not" in found.hosts[0].reason


def test_a_figure_that_had_not_settled_is_compared_and_proves_nothing(tmp_path: Path) -> None:
    folder = fleet(tmp_path, 8, MadeHost("slow1", slow={"gemm-float32": 1.5}))
    for host in ("slow1", "n01"):
        path = answers.record_path(folder, host)
        path.write_text(path.read_text().replace('"settled": true', '"settled": false'), encoding="utf-8")
    found = {host.host: host for host in sweep.judged(folder).hosts}
    assert found["slow1"].standing is Standing.SLOW
    assert found["n01"].standing is Standing.INCOMPLETE and "had not settled" in found["n01"].reason


def test_what_is_asked_is_what_bench_asks() -> None:
    for profile in rules.load().profile:
        for stack in ("cpu", "cuda"):
            ours = subjects.ours(stacks.load(stack))
            for name in (*profile.subjects, *profile.together):
                assert profile.benchmarks in ours[name].profiles
                if ours[name].kind != "training":  # pictures of a batch, which the workload has
                    size = _size(ours[name].kind, ours[name].parameters[profile.name])
                    assert getattr(rules.asked(name), profile.name) == pytest.approx(size), name


def _size(kind: str, told: Mapping[str, Any]) -> float:
    if kind == "gemm":
        return float(2 * told["size"] ** 3 / 1e12)
    if kind == "attention":
        return float(2 * told["batch"] * told["heads"] * told["length"] ** 2 * told["width"] / 1e12)
    return float((1 + (told.get("source") == told.get("target", ""))) * told["mib"] * (1 << 20) / 1e9)


def test_a_demand_has_every_row_of_a_card() -> None:
    terms = demanded.demand(PlanWants("cpu", "tiny"), 2)
    assert sum(one.batch > 0 for one in terms.checks.values()) == 2 * 4 * len(KERNELS)
    assert len(terms.checks) == 3 + 2 * (5 + 4 * len(KERNELS) + 2) + 1
    assert terms.checks["subject/1::copy-to-device-pinned"].verdict.value == "skipped"
    assert len(terms.figures) == 2 * 4 + 1


def test_a_host_that_does_all_that_is_asked_lacks_nothing(tmp_path: Path) -> None:
    folder = fleet(
        tmp_path, 0, *(MadeHost(f"m{number}", cards=3) for number in range(6)), without=("doctor", "attention")
    )
    assert sweep.judged(folder).counts == {Standing.PROVED: 6}
    assert not demanded.held(record(MadeHost("m0", cards=3), plan.load(folder).wants), plan.load(folder).wants).faults

"""The view: asv's files from the store's records - pooled, kept up to date, and never in the way of what asv wrote."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stackproof.record import store
from stackproof.record.records import Record

from . import making
from .making import Checkout


def add(checkout: Checkout, *records: Record) -> None:
    """Put records of the checkout's last commit, unless they name another, into the store."""
    for record in records:
        if record.provenance["commit"] == making.FACTS["commit"]:
            record.provenance["commit"] = checkout.git("rev-parse", "HEAD")
        store.append(record, store.folder(record, checkout.results))


def published(checkout: Checkout) -> str:
    """Let asv publish, which brings the view up to date first, and return what it said."""
    ended = checkout.plain_asv("publish")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def rows(checkout: Checkout) -> list[dict[str, Any]]:
    found = []
    for name in checkout.files():
        text = (checkout.root / ".asv" / "results" / "box" / name).read_text(encoding="utf-8")
        data = json.loads(text)
        columns = data["result_columns"]
        found.append({key: dict(zip(columns, cells)) for key, cells in data["results"].items()})  # noqa: B905 - asv drops empty ends
    return found


def test_a_record_of_bench_is_a_result_of_asv(fresh: Checkout) -> None:
    add(fresh, making.record(0, making.figure(samples=[3e-3, 1e-3, 2e-3]), verb="bench"))
    published(fresh)
    ((row,),) = (found.values() for found in rows(fresh))
    assert row["result"] == [2e-3]
    assert row["samples"] == [[3e-3, 1e-3, 2e-3]]
    assert row["stats_repeat"] == [3]
    assert row["version"] == "3"  # of the row gemm in benchmarks.toml


def test_runs_of_one_state_are_pooled(fresh: Checkout) -> None:
    add(fresh, making.record(0, making.figure(samples=[1e-3, 1e-3, 1e-3])))
    published(fresh)
    add(fresh, making.record(1, making.figure(samples=[3e-3, 3e-3, 3e-3, 3e-3])))
    published(fresh)
    ((row,),) = (found.values() for found in rows(fresh))
    assert row["samples"] == [[1e-3] * 3 + [3e-3] * 4]
    assert row["result"] == [3e-3]


def test_a_record_that_is_gone_leaves_the_view(fresh: Checkout) -> None:
    add(fresh, making.record(0), making.with_facts(making.record(1), making.NEW_DRIVER))
    published(fresh)
    assert len(fresh.files()) == 2
    store.files([fresh.results])[0].unlink()
    published(fresh)
    assert len(fresh.files()) == 1


def test_a_commit_that_the_clone_lacks_is_told(fresh: Checkout) -> None:
    add(fresh, making.record(0, commit="e" * 40), making.record(1))
    assert "1 commits of the records are not in this clone" in published(fresh)
    assert len(fresh.files()) == 1


def test_local_changes_have_no_place_by_commit(fresh: Checkout) -> None:
    add(fresh, making.record(0, commit="f" * 40 + " (with local changes)"), making.record(1))
    published(fresh)
    assert len(fresh.files()) == 1
    assert fresh.asv("publish").returncode == 0
    index = json.loads((fresh.root / ".asv" / "html" / "states" / "index.json").read_text(encoding="utf-8"))
    assert len(index["revision_to_hash"]) == 2


def test_what_only_asv_knows_stays(fresh: Checkout) -> None:
    add(fresh, making.record(0))
    published(fresh)
    path = fresh.root / ".asv" / "results" / "box" / fresh.files()[0]
    data = json.loads(path.read_text(encoding="utf-8"))
    data["results"]["gemm.track_gemm_bfloat16_tiny"] = [None, []]
    path.write_text(json.dumps(data), encoding="utf-8")
    add(fresh, making.record(1))
    published(fresh)
    (found,) = rows(fresh)
    assert found["gemm.track_gemm_bfloat16_tiny"]["result"] is None
    assert len(found["gemm.track_gemm_float32_tiny"]["samples"][0]) == 60


@pytest.mark.parametrize("content", ["", "{", "[]", '{"version": 2}'])
def test_a_damaged_file_of_asv_is_made_again(fresh: Checkout, content: str) -> None:
    add(fresh, making.record(0))
    published(fresh)
    path = fresh.root / ".asv" / "results" / "box" / fresh.files()[0]
    path.write_text(content, encoding="utf-8")
    add(fresh, making.record(1))
    published(fresh)
    (found,) = rows(fresh)
    assert len(found["gemm.track_gemm_float32_tiny"]["samples"][0]) == 60
    assert path.with_name(f"{path.name}.damaged").read_text(encoding="utf-8") == content


def test_benchmarks_of_other_profiles_stay_on_the_list(checkout: Checkout) -> None:
    add(checkout, making.record(0, making.figure(preset="full")))
    published(checkout)
    listed = checkout.root / ".asv" / "results" / "benchmarks.json"
    names = set(json.loads(listed.read_text(encoding="utf-8")))
    assert {"gemm.track_gemm_float32_tiny", "gemm.track_gemm_float32_full"} <= names
    listed.unlink()
    published(checkout)
    assert set(json.loads(listed.read_text(encoding="utf-8"))) >= {"gemm.track_gemm_float32_full"}


def test_other_hosts_are_other_machines(fresh: Checkout) -> None:
    add(fresh, making.record(0), making.record(0, host="Other Box"))
    published(fresh)
    results = fresh.root / ".asv" / "results"
    assert sorted(path.parent.name for path in results.glob("*/machine.json")) == ["box", "other-box"]
    index = json.loads((fresh.root / ".asv" / "html" / "index.json").read_text(encoding="utf-8"))
    assert sorted(index["params"]["machine"]) == ["box", "other-box"]

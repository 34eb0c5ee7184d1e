"""The plugin: any asv command knows this host and the store, asks nothing, and keeps what it was told to keep."""

from __future__ import annotations

import json
import shutil

from stackproof.record import store

from .making import Checkout, record, with_facts

RUN = ("run", "HEAD^!", "--bench", "float32")


def test_plain_asv_asks_nothing_and_keeps_the_figures(fresh: Checkout) -> None:
    home = fresh.root / "home"
    home.mkdir()
    ended = fresh.plain_asv(*RUN, HOME=str(home))
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert list(home.iterdir()) == []
    (kept,) = fresh.stored()
    assert len(kept.measurements[0].samples) == 20
    assert "figures: records/cpu/" in ended.stderr
    assert list((fresh.root / ".asv" / "pieces").iterdir()) == []


def test_a_dry_run_keeps_nothing(fresh: Checkout) -> None:
    ended = fresh.plain_asv(*RUN, "--dry-run")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert fresh.files() == []
    assert fresh.stored() == []


def test_the_view_and_asv_write_the_same_file(checkout: Checkout) -> None:
    folder = checkout.root / ".asv" / "results" / "box"
    before = {name: json.loads((folder / name).read_text(encoding="utf-8")) for name in checkout.files()}
    (checkout.root / ".asv" / "results" / "view.index").unlink(missing_ok=True)
    assert checkout.plain_asv("publish").returncode == 0
    after = {name: json.loads((folder / name).read_text(encoding="utf-8")) for name in checkout.files()}
    assert set(before) == set(after)
    for name, row in before.items():
        assert row["params"] == after[name]["params"]
        assert row["results"].keys() == after[name]["results"].keys()
        assert [cells[0] for cells in row["results"].values()] == [
            cells[0] for cells in after[name]["results"].values()
        ]


def test_a_view_can_be_deleted(checkout: Checkout) -> None:
    before = checkout.files()
    shutil.rmtree(checkout.root / ".asv")
    ended = checkout.plain_asv("publish")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert checkout.files() == before
    index = json.loads((checkout.root / ".asv" / "html" / "index.json").read_text(encoding="utf-8"))
    assert index["params"]["driver"] == ["550.54.14", "560.35.3"]


def test_what_another_command_left_is_joined(fresh: Checkout) -> None:
    folder = fresh.root / ".asv" / "pieces" / "20260101T000000-1-abc"
    store.append(with_facts(record(0), {"commit": fresh.git("rev-parse", "HEAD")}), folder)
    ended = fresh.plain_asv("publish")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "a command that was killed had left figures" in ended.stdout
    assert len(fresh.stored()) == 1


def test_damaged_records_are_told(checkout: Checkout) -> None:
    bad = checkout.results / "cpu" / "20260101T000000-asv-0000.record.json"
    bad.write_text("{", encoding="utf-8")
    ended = checkout.plain_asv("publish")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert bad.name in ended.stdout
    assert bad.with_name(f"{bad.name}.damaged").exists()
    assert len(checkout.files()) == 2

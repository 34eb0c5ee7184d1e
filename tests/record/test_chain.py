"""A digest chain: an edit of a record, of a log or of a digest shows when the record is read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stackproof.base.errors import Refusal
from stackproof.record import chain, records, writer
from stackproof.record.records import Check, Record, Verdict


def kept(folder: Path) -> Path:
    """Write a record with a log, as a run does."""
    (folder / "suite-0.log").write_text("1 passed", encoding="utf-8")
    check = Check("smoke/ddp::x", Verdict.PASSED, "as expected", 0.25)
    facts = {"torch": "2.8.0", "lock": "a" * 64, "host": "here"}
    told = Record("smoke", "cpu", "2026-01-02T03:04:05+00:00", 1.5, Verdict.PASSED, dict(facts), [check])
    told.logs = ["suite-0.log"]
    return writer.keep(told, folder / "record.json")


def test_what_was_kept_is_read(tmp_path: Path) -> None:
    record = records.read(kept(tmp_path))
    assert record.digests.keys() == {"suite-0.log", "record"}
    assert not list(chain.broken_logs(record, tmp_path))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"2.8.0"', '"2.9.0"'),
        ('"host": "here"', '"host": "there"'),
        ("as expected", "as expected!"),
        ('"a', '"b'),
        ("1.5", "1.4"),
    ],
)
def test_an_edit_of_anything_shows(tmp_path: Path, old: str, new: str) -> None:
    path = kept(tmp_path)
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    assert text != path.read_text(encoding="utf-8")
    with pytest.raises(Refusal, match="was edited after it was written"):
        records.read(path)


def test_another_layout_is_the_same_record(tmp_path: Path) -> None:
    path = kept(tmp_path)
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")), sort_keys=True), encoding="utf-8")
    assert records.read(path).provenance["host"] == "here"


def test_an_edited_log_shows_and_an_absent_one_is_none(tmp_path: Path) -> None:
    record = records.read(kept(tmp_path))
    (tmp_path / "suite-0.log").write_text("2 passed", encoding="utf-8")
    assert "suite-0.log was edited after the run" in next(chain.broken_logs(record, tmp_path))
    (tmp_path / "suite-0.log").unlink()
    assert not list(chain.broken_logs(record, tmp_path))


def test_a_digest_of_a_log_cannot_be_exchanged(tmp_path: Path) -> None:
    path = kept(tmp_path)
    found = json.loads(path.read_text(encoding="utf-8"))
    found["digests"]["suite-0.log"] = "0" * 64
    path.write_text(json.dumps(found), encoding="utf-8")
    with pytest.raises(Refusal, match="was edited"):
        records.read(path)


def test_a_record_is_taken_with_its_logs(tmp_path: Path) -> None:
    path = kept(tmp_path)
    assert chain.whole(path).verdict is Verdict.PASSED
    (tmp_path / "suite-0.log").write_text("2 passed", encoding="utf-8")
    with pytest.raises(Refusal, match="suite-0.log was edited after the run"):
        chain.whole(path)
    (tmp_path / "suite-0.log").unlink()
    assert chain.whole(path).verdict is Verdict.PASSED


@pytest.mark.parametrize("name", ["../other.log", "a/../../other.log", "link.log", "a\0b"])
def test_a_log_outside_of_the_folder_is_not_opened(tmp_path: Path, name: str) -> None:
    (tmp_path / "other.log").write_text("not its own", encoding="utf-8")
    (folder := tmp_path / "run").mkdir()
    (folder / "link.log").symlink_to(tmp_path / "other.log")
    record = records.read(kept(folder))
    record.digests[name] = "0" * 64
    assert "names a log outside of its folder" in next(chain.broken_logs(record, folder))
    record.digests = {"a" * 5000: "0" * 64}
    assert not list(chain.broken_logs(record, folder))


def test_a_whole_path_is_looked_for_beside_the_record(tmp_path: Path) -> None:
    record = records.read(kept(tmp_path))
    record.digests = {"/proc/self/mem": "0" * 64, "/gone/suite-0.log": "0" * 64}
    assert [said[:28] for said in chain.broken_logs(record, tmp_path)] == ["its log /gone/suite-0.log wa"]

"""A record that was edited, or contradicts itself, is not read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stackproof import ROOT
from stackproof.base.errors import Refusal
from stackproof.record import reading, writer
from stackproof.record.records import Check, Record, Verdict

BENCH = ROOT / "fixtures" / "drill" / "bench.json"


ROW = json.loads(BENCH.read_text(encoding="utf-8"))["measurements"][0]


def doctored(tmp_path: Path, change: Any) -> Record:
    """Read the record of a benchmark with a change."""
    found = json.loads(BENCH.read_text(encoding="utf-8"))
    del found["digests"]
    change(found)
    path = tmp_path / "record.json"
    path.write_text(json.dumps(found), encoding="utf-8")
    return reading.read(path)


def check(found: dict[str, Any], **changes: Any) -> None:
    """Add a check that passed, with these changes."""
    plain = {"id": "smoke/x::y", "verdict": "passed", "reason": "seen", "seconds": 0.1, "figures": {}}
    found["checks"].append({**plain, **changes})


def twice(found: dict[str, Any]) -> None:
    """Add one check two times."""
    check(found)
    check(found)


CONTRADICTIONS: dict[str, tuple[Any, str]] = {
    "a failed check": (lambda f: check(f, verdict="failed"), "amount to 'failed'"),
    "a hung check": (lambda f: check(f, verdict="hung"), "amount to 'hung'"),
    "empty": (lambda f: f.update(checks=[]), "0 checks amount to 'failed'"),
    "all skipped": (lambda f: [row.update(verdict="skipped") for row in f["checks"]], "amount to 'failed'"),
    "nothing of a suite": (
        lambda f: f.update(checks=[row for row in f["checks"] if "/" not in row["id"]]),
        "no check of a suite ran",
    ),
    "a check twice": (twice, "the check 'smoke/x::y' more than once"),
    "another stack": (lambda f: f["provenance"].update(stack="cuda"), "its provenance is of 'cuda'"),
    "another value": (lambda f: f["measurements"][0].update(value=1.5), "the median of its"),
    "a day to come": (lambda f: f.update(started="2999-01-01T10:00:00+00:00"), "is still to come"),
    "a day before its commit": (
        lambda f: f["provenance"].update({"commit.date": "2036-08-01T03:00:00+02:00"}),
        "before the commit was made",
    ),
    "no day": (lambda f: f.update(started="2026-13-45T10:00:00+00:00"), "no calendar has that"),
    "year 0": (lambda f: f.update(started="0000-01-01T10:00:00+00:00"), "no calendar has that"),
    "value without a number": (lambda f: f["measurements"][0].update(value="nan"), "says nan"),
    "fewer samples": (lambda f: f["measurements"][0]["figures"].update(samples=3), "says 3 samples and holds"),
    "a narrower bound": (lambda f: f["measurements"][0]["figures"].update(noise=0.0), "says 'noise' 0"),
    "a lower bound": (lambda f: f["measurements"][0]["figures"].update(low=0.0), "says 'low' 0"),
}


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_a_record_that_contradicts_itself_is_refused(tmp_path: Path, name: str) -> None:
    change, words = CONTRADICTIONS[name]
    with pytest.raises(Refusal) as caught:
        doctored(tmp_path, change)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_sound_record_is_read(tmp_path: Path) -> None:
    assert doctored(tmp_path, lambda found: None).checks
    assert doctored(tmp_path, lambda found: found.update(verdict="interrupted")).verdict.exit_code == 130


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"verdict": "failed", "verdict": "passed"}', "'verdict' is in it twice"),
        ('{"seconds": NaN}', "NaN is not JSON"),
    ],
)
def test_json_that_says_two_things_is_refused(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "record.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(Refusal, match=words):
        reading.read(path)


@pytest.mark.parametrize(
    "change",
    [
        {"verb": "<script>alert(1)</script>"},
        {"verb": "smoke\x1b[2J"},
        {"verb": "smoke\nPASSED  cpu: 20 passed in 3 s"},
        {"verb": "smoke\ud800"},
        {"verb": "sm\u202eoke"},
        {"verb": ""},
        {"stack": "cpu\nPASSED  cpu: 20 passed in 3 s"},
        {"stack": "c" * 101},
        {"seconds": 1e300},
        {"measurements": [{**ROW, "value": 1e308, "samples": [1e308] * 12}]},
        {"measurements": [{**ROW, "figures": {"peak_memory_bytes": -1}}]},
        {"measurements": [{**ROW, "figures": {"noise": "none"}}]},
    ],
)
def test_a_headline_or_figure_that_is_none_is_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    with pytest.raises(Refusal, match="is not a record of schema"):
        doctored(tmp_path, lambda found: found.update(change))


def test_every_published_record_is_sound() -> None:
    kept = [*(ROOT / "results").rglob("*.json"), BENCH]
    for path in [one for one in kept if '"stackproof-record-' in one.read_text(encoding="utf-8")[-400:]]:
        assert reading.read(path).checks


def kept(folder: Path) -> Path:
    """Write a record with a log, as a run does."""
    (folder / "suite-0.log").write_text("1 passed", encoding="utf-8")
    check = Check("smoke/ddp::x", Verdict.PASSED, "as expected", 0.25)
    facts = {"torch": "2.8.0", "lock": "a" * 64, "host": "here"}
    told = Record("smoke", "cpu", "2026-01-02T03:04:05+00:00", 1.5, Verdict.PASSED, dict(facts), [check])
    told.logs = ["suite-0.log"]
    return writer.keep(told, folder / "record.json")


def test_what_was_kept_is_read(tmp_path: Path) -> None:
    record = reading.read(kept(tmp_path))
    assert record.digests.keys() == {"suite-0.log", "record"}
    assert not list(reading.broken_logs(record, tmp_path))


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
        reading.read(path)


def test_another_layout_is_the_same_record(tmp_path: Path) -> None:
    path = kept(tmp_path)
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")), sort_keys=True), encoding="utf-8")
    assert reading.read(path).provenance["host"] == "here"


def test_an_edited_log_shows_and_an_absent_one_is_none(tmp_path: Path) -> None:
    record = reading.read(kept(tmp_path))
    (tmp_path / "suite-0.log").write_text("2 passed", encoding="utf-8")
    assert "suite-0.log was edited after the run" in next(reading.broken_logs(record, tmp_path))
    (tmp_path / "suite-0.log").unlink()
    assert not list(reading.broken_logs(record, tmp_path))


def test_a_digest_of_a_log_cannot_be_exchanged(tmp_path: Path) -> None:
    path = kept(tmp_path)
    found = json.loads(path.read_text(encoding="utf-8"))
    found["digests"]["suite-0.log"] = "0" * 64
    path.write_text(json.dumps(found), encoding="utf-8")
    with pytest.raises(Refusal, match="was edited"):
        reading.read(path)


def test_a_record_is_taken_with_its_logs(tmp_path: Path) -> None:
    path = kept(tmp_path)
    assert reading.read_verified(path).verdict is Verdict.PASSED
    (tmp_path / "suite-0.log").write_text("2 passed", encoding="utf-8")
    with pytest.raises(Refusal, match="suite-0.log was edited after the run"):
        reading.read_verified(path)
    (tmp_path / "suite-0.log").unlink()
    assert reading.read_verified(path).verdict is Verdict.PASSED


@pytest.mark.parametrize("name", ["../other.log", "a/../../other.log", "/proc/self/mem"])
def test_a_log_outside_of_the_folder_is_not_opened(tmp_path: Path, name: str) -> None:
    (folder := tmp_path / "run").mkdir()
    record = reading.read(kept(folder))
    record.digests[name] = "0" * 64
    assert "names a log outside of its folder" in next(reading.broken_logs(record, folder))
    record.digests = {"a" * 5000: "0" * 64, "a\0b": "0" * 64}
    assert not list(reading.broken_logs(record, folder))

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


CONTRADICTIONS: dict[str, tuple[Any, str]] = {
    "a failed check": (lambda f: check(f, verdict="failed"), "amount to 'failed'"),
    "a hung check": (lambda f: check(f, verdict="hung"), "amount to 'hung'"),
    "empty": (lambda f: f.update(checks=[]), "0 checks amount to 'failed'"),
    "all skipped": (lambda f: [row.update(verdict="skipped") for row in f["checks"]], "amount to 'failed'"),
    "nothing of a suite": (
        lambda f: f.update(checks=[row for row in f["checks"] if "/" not in row["id"]]),
        "no check of a suite ran",
    ),
    "another stack": (lambda f: f["provenance"].update(stack="cuda"), "its provenance is of 'cuda'"),
    "pinned by no lock": (lambda f: f["provenance"].update(pinned=True, lock="unpinned"), "its lock is 'unpinned'"),
    "pinned by a word": (lambda f: f["provenance"].update(pinned="True"), "neither true nor false"),
    "one rank": (lambda f: check(f, id="groups/x::y", figures={"world size": 1}), "one rank exchanges nothing"),
    "no rank": (lambda f: check(f, id="collectives/x::y", figures={"world size": "nan"}), "one rank exchanges nothing"),
    "another group": (lambda f: check(f, group="verify"), "is in the group 'verify'"),
    "nothing that shows": (lambda f: check(f, reason="\u200b\u3164"), "says nothing that shows"),
    "a check twice": (lambda f: f["checks"].append(f["checks"][-1]), "is in it twice"),
    "another value": (lambda f: f["measurements"][0].update(value=1.5), "the median of its"),
    "a negative sample": (lambda f: f["measurements"][0]["samples"].append(-1.0), "less than no time"),
    "a negative value": (lambda f: f["measurements"][0].update(value=-1.0, samples=[-1.0]), "less than no time"),
    "an endless sample": (
        lambda f: f["measurements"][0].update(value=1e308, samples=[1e308] * 12),
        "which nothing takes",
    ),
    "no day": (lambda f: f.update(started="2026-13-45T10:00:00+00:00"), "no calendar has that"),
    "a day to come": (lambda f: f.update(started="2999-01-01T10:00:00+00:00"), "is still to come"),
    "a path for a stack": (lambda f: f.update(stack="../../x"), "no stack can be called so"),
    "year 0": (lambda f: f.update(started="0000-01-01T10:00:00+00:00"), "no calendar has that"),
    "value without a number": (lambda f: f["measurements"][0].update(value="nan"), "says nan"),
    "fewer samples": (lambda f: f["measurements"][0]["figures"].update(samples=3), "says 3 samples and holds"),
    "a narrower bound": (lambda f: f["measurements"][0]["figures"].update(noise=0.0), "says 'noise' 0"),
    "a lower bound": (lambda f: f["measurements"][0]["figures"].update(low=0.0), "says 'low' 0"),
    "negative memory": (
        lambda f: f["measurements"][0]["figures"].update(peak_memory_bytes=-1),
        "'peak_memory_bytes' -1",
    ),
    "passed above its bound": (lambda f: check(f, figures={"error": 2.0, "bound": 1.0}), "'error' 2 above 'bound' 1"),
    "passed with an endless error": (
        lambda f: check(f, figures={"error": "inf", "bound": 1.0}),
        "'error' inf above 'bound' 1",
    ),
    "passed with an error that is no number": (
        lambda f: check(f, figures={"error": "nan", "bound": 1.0}),
        "'error' nan above 'bound' 1",
    ),
    "passed as slower": (
        lambda f: check(f, figures={"ratio": 1.5, "ratio, low": 1.4, "ratio, high": 1.6, "minimum effect": 0.05}),
        "minimum effect of 0.05",
    ),
    "ratio out of its interval": (
        lambda f: check(f, figures={"ratio": 1.0, "ratio, low": 1.4, "ratio, high": 1.6}),
        "a ratio of 1 outside",
    ),
    "a word in place of a bound": (
        lambda f: check(f, figures={"ratio": 9.0, "ratio, low": 1.4, "ratio, high": "high\n"}),
        "has 'ratio, high' 'high\\n', which is no number",
    ),
    "one end of an interval": (lambda f: check(f, figures={"ratio": 9.0, "ratio, low": 1.4}), "one end of its ratio's"),
    "a word in place of noise": (lambda f: f["measurements"][0]["figures"].update(noise="none"), "is no number"),
    "a gate's check twice": (
        lambda f: (f.update(verb="gate"), f["checks"].append(f["checks"][-1])),
        "is in it twice",
    ),
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


def test_a_failed_check_may_have_found_what_is_not_finite(tmp_path: Path) -> None:
    def failing(found: dict[str, Any], word: str) -> None:
        found.update(verdict="failed")
        check(found, verdict="failed", figures={"error": word, "bound": 1.0})

    for word in ("inf", "nan"):
        assert doctored(tmp_path, lambda found, word=word: failing(found, word)).checks[-1].figures["error"] == word


def test_a_difference_may_be_below_nothing(tmp_path: Path) -> None:
    assert doctored(tmp_path, lambda found: check(found, figures={"low": -4e-8, "high": 1e-7, "noise": -1e-9})).checks


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"verdict": "failed", "verdict": "passed"}', "'verdict' is in it twice"),
        ('{"seconds": 1e999}', "1e999 is not JSON"),
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
    ],
)
def test_a_headline_that_is_no_name_is_refused(tmp_path: Path, change: dict[str, Any]) -> None:
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


@pytest.mark.parametrize("name", ["../other.log", "a/../../other.log", "link.log", "a\0b"])
def test_a_log_outside_of_the_folder_is_not_opened(tmp_path: Path, name: str) -> None:
    (tmp_path / "other.log").write_text("not its own", encoding="utf-8")
    (folder := tmp_path / "run").mkdir()
    (folder / "link.log").symlink_to(tmp_path / "other.log")
    record = reading.read(kept(folder))
    record.digests[name] = "0" * 64
    assert "names a log outside of its folder" in next(reading.broken_logs(record, folder))
    record.digests = {"a" * 5000: "0" * 64}
    assert not list(reading.broken_logs(record, folder))


def test_a_whole_path_is_looked_for_beside_the_record(tmp_path: Path) -> None:
    record = reading.read(kept(tmp_path))
    record.digests = {"/proc/self/mem": "0" * 64, "/gone/suite-0.log": "0" * 64}
    assert [said[:28] for said in reading.broken_logs(record, tmp_path)] == ["its log /gone/suite-0.log wa"]

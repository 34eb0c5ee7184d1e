"""Records: the schema holds them when they are written and read, files appear whole, and records of before are read."""

from __future__ import annotations

import errno
import json
import math
import os
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from stackproof import ROOT
from stackproof.base.errors import Refusal
from stackproof.record import reading, records
from stackproof.record.records import CellWord, Check, Kind, Measurement, Record, Verdict, overall

STARTED = "2026-01-02T03:04:05.678+00:00"


def whole() -> Record:
    """Return a record with something in every place."""
    return Record(
        verb="smoke",
        stack="cpu",
        started=STARTED,
        seconds=1.5,
        verdict=Verdict.PASSED,
        provenance={"torch": "2.8.0", "devices": 1, "pinned": True, "ratio": 0.5},
        checks=[Check("smoke/ddp::x[a-b]", Verdict.PASSED, "as expected", 0.25, {"error": 1e-9})],
        measurements=[Measurement("gemm", "tiny", "float32", 2, "time", "s/GB", 0.5, [0.4, 0.5, 0.6], "indicative")],
        logs=["suite-0.log"],
    )


def parsed() -> dict[str, Any]:
    """Return the whole record as JSON gives it."""
    found: dict[str, Any] = json.loads(whole().as_json())
    return found


def stored(path: Path, found: object) -> Path:
    """Write anything as JSON."""
    path.write_text(json.dumps(found), encoding="utf-8")
    return path


def test_record_survives_the_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "er" / "record.json"
    records.write(whole(), path)
    assert reading.read(path) == whole()
    assert path.stat().st_mode & 0o777 == 0o644
    assert [entry.name for entry in path.parent.iterdir()] == ["record.json"]


def test_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "link.json").symlink_to(tmp_path / "there.json")
    records.write(whole(), tmp_path / "link.json")
    assert (tmp_path / "link.json").is_symlink()
    assert reading.read(tmp_path / "there.json") == whole()


def test_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        records.write(whole(), pipe)
        assert json.loads(os.read(reader, 1 << 16)) == parsed()
    finally:
        os.close(reader)
    assert pipe.is_fifo()


_OPTIONAL = {"version", "figures"}
REQUIRED = [
    *(("", name) for name in sorted(parsed())),
    *(("checks", name) for name in sorted(parsed()["checks"][0])),
    *(("measurements", name) for name in sorted(parsed()["measurements"][0].keys() - _OPTIONAL)),
]


@pytest.mark.parametrize(("rows", "field"), REQUIRED)
def test_each_field_is_required(tmp_path: Path, rows: str, field: str) -> None:
    found = parsed()
    del (found[rows][0] if rows else found)[field]
    with pytest.raises(Refusal, match=field):
        reading.read(stored(tmp_path / "r.json", found))


def test_a_measurement_of_old_has_no_version_and_no_figures(tmp_path: Path) -> None:
    found = parsed()
    del found["measurements"][0]["version"], found["measurements"][0]["figures"]
    (row,) = reading.read(stored(tmp_path / "r.json", found)).measurements
    assert (row.version, row.figures) == ("", {})


WRONG: dict[str, Callable[[dict[str, Any]], object]] = {
    "unknown verdict": lambda r: r.update(verdict="green"),
    "unknown verdict of a check": lambda r: r["checks"][0].update(verdict="ok"),
    "unknown field": lambda r: r.update(extra=1),
    "unknown field of a check": lambda r: r["checks"][0].update(extra=1),
    "no schema": lambda r: r.update(schema=3),
    "a word that no cell has": lambda r: r["checks"][0].update(outcome="FINE"),
    "a kind that no row has": lambda r: r["checks"][0].update(kind="odd"),
    "an empty subject": lambda r: r["checks"][0].update(subject=""),
    "local time": lambda r: r.update(started="2026-01-02T03:04:05+02:00"),
    "no time": lambda r: r.update(started="yesterday"),
    "negative seconds": lambda r: r.update(seconds=-1),
    "seconds as text": lambda r: r.update(seconds="1"),
    "null figure": lambda r: r["checks"][0]["figures"].update(error=None),
    "nested figure": lambda r: r["provenance"].update(driver={"version": 1}),
    "empty reason": lambda r: r["checks"][0].update(reason=""),
    "empty id": lambda r: r["checks"][0].update(id=""),
    "no samples": lambda r: r["measurements"][0].update(samples=[]),
    "a word for a value": lambda r: r["measurements"][0].update(value="fast"),
    "no ranks": lambda r: r["measurements"][0].update(world_size=0),
    "unknown preset": lambda r: r["measurements"][0].update(preset="huge"),
    "checks are no list": lambda r: r.update(checks={}),
}


@pytest.mark.parametrize("name", WRONG)
def test_record_that_breaks_the_schema_is_refused(tmp_path: Path, name: str) -> None:
    found = parsed()
    WRONG[name](found)
    path = stored(tmp_path / "r.json", found)
    with pytest.raises(Refusal, match="is not a record of schema stackproof-record-2: ") as caught:
        reading.read(path)
    assert str(caught.value).startswith(f"{path}: ")


@pytest.mark.parametrize("value", [[], 5, None, "record", {}])
def test_other_json_is_no_record(tmp_path: Path, value: object) -> None:
    with pytest.raises(Refusal, match="is not a record of schema"):
        reading.read(stored(tmp_path / "r.json", value))


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    text = whole().as_json().encode()
    damaged = [text[:cut] for cut in range(0, len(text) - 2, 37)]
    damaged += [b"\xff\xfe", text.replace(b"1.5", b"NaN"), text.replace(b"1.5", b"Infinity"), b"[" * 100_000]
    for content in damaged:
        path.write_bytes(content)
        with pytest.raises(Refusal, match="damaged or cut short"):
            reading.read(path)


def test_absent_file_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "absent.json", tmp_path):
        with pytest.raises(Refusal, match="cannot be read|is a folder"):
            reading.read(path)


def test_figures_that_are_no_numbers_survive_as_words(tmp_path: Path) -> None:
    record = whole()
    record.checks[0].figures = {"a": math.nan, "b": math.inf, "c": -math.inf}
    record.provenance["d"] = math.nan
    record.measurements[0].value = math.inf
    record.measurements[0].samples = [1.0, math.inf, math.inf]
    path = tmp_path / "r.json"
    records.write(record, path)

    def never(word: str) -> None:
        raise AssertionError(word)

    json.loads(path.read_text(encoding="utf-8"), parse_constant=never)
    again = reading.read(path)
    assert again.checks[0].figures == {"a": "nan", "b": "inf", "c": "-inf"}
    assert again.provenance["d"] == "nan"
    assert again.measurements[0].value == math.inf
    assert again.measurements[0].samples == [1.0, math.inf, math.inf]


def test_any_text_survives(tmp_path: Path) -> None:
    record = whole()
    record.checks[0].reason = "a\x00\x1b[31mb\udc80\uff1a\U0001f600\u2028\n"
    records.write(record, tmp_path / "r.json")
    assert reading.read(tmp_path / "r.json").checks[0].reason == record.checks[0].reason


def test_invalid_record_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    records.write(whole(), path)
    record = whole()
    record.checks[0].id = ""
    with pytest.raises(Refusal, match="is not a record"):
        records.write(record, path)
    assert reading.read(path) == whole()


def full(*arguments: object) -> None:
    """Fail as a full disk does."""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("where", ["fsync", "replace"])
def test_full_disk_leaves_the_old_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    path = tmp_path / "r.json"
    records.write(whole(), path)
    monkeypatch.setattr(os if where == "fsync" else Path, where, full)
    with pytest.raises(Refusal, match=r"the record cannot be written \(No space left on device\)"):
        records.write(Record("smoke", "cpu", STARTED), path)
    monkeypatch.undo()
    assert reading.read(path) == whole()
    assert [entry.name for entry in tmp_path.iterdir()] == ["r.json"]


LIMITED = """
import resource, signal, sys
from pathlib import Path
from stackproof.record import reading, records
from stackproof.base.errors import Refusal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (200, 200))
record = reading.read(Path(sys.argv[1]))
record.verdict = records.Verdict.FAILED
try:
    records.write(record, Path(sys.argv[1]))
except Refusal as refusal:
    print(refusal)
"""


def test_write_that_the_kernel_cuts_short_leaves_the_old_record(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    records.write(whole(), path)
    ended = subprocess.run(
        [sys.executable, "-c", LIMITED, str(path)],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "the record cannot be written (File too large)" in ended.stdout, ended.stderr
    assert reading.read(path) == whole()
    assert [entry.name for entry in tmp_path.iterdir()] == ["r.json"]


def test_interrupted_write_leaves_the_old_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "r.json"
    records.write(whole(), path)

    def interrupt(handle: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        records.write(Record("smoke", "cpu", STARTED), path)
    monkeypatch.undo()
    assert reading.read(path) == whole()
    assert [entry.name for entry in tmp_path.iterdir()] == ["r.json"]


def test_folder_that_cannot_be_made_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "inside").touch()
    for path in (tmp_path / "file" / "r.json", tmp_path / "folder", tmp_path / ("x" * 300)):
        with pytest.raises(Refusal, match=r"the record cannot be written .* choose another file with --json"):
            records.write(whole(), path)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["file", "folder"]


@pytest.mark.parametrize(
    ("verdict", "code"),
    [
        ("passed", 0),
        ("skipped", 0),
        ("failed", 1),
        ("crashed", 1),
        ("unavailable", 3),
        ("mismatched", 4),
        ("hung", 5),
        ("inconclusive", 6),
        ("interrupted", 130),
    ],
)
def test_exit_codes_are_those_of_the_contracts(verdict: str, code: int) -> None:
    assert Verdict(verdict).exit_code == code


def test_schema_and_code_know_the_same_verdicts() -> None:
    schema = json.loads(records.SCHEMA.read_text(encoding="utf-8"))
    assert schema["definitions"]["verdict"]["enum"] == [verdict.value for verdict in Verdict]
    assert set(schema["required"]) == set(parsed()) == set(schema["properties"]) - {"digests"}


GRAVITY = [
    "interrupted",
    "mismatched",
    "unavailable",
    "hung",
    "crashed",
    "failed",
    "inconclusive",
    "passed",
    "skipped",
]


@pytest.mark.parametrize(("graver", "lesser"), list(pairwise(GRAVITY)))
def test_the_gravest_verdict_names_the_run(graver: str, lesser: str) -> None:
    for order in ((graver, lesser), (lesser, graver), (graver, lesser, "passed", "skipped")):
        assert overall(map(Verdict, order)) is Verdict(graver)


def test_what_did_not_run_is_not_green() -> None:
    assert overall([]) is Verdict.FAILED
    assert overall([Verdict.SKIPPED] * 3) is Verdict.FAILED
    assert overall([Verdict.SKIPPED, Verdict.PASSED]) is Verdict.PASSED
    assert Record("smoke", "cpu", STARTED).verdict.exit_code != 0


def test_every_verdict_has_its_place_in_the_order() -> None:
    for verdict in Verdict:
        expected = Verdict.FAILED if not verdict.executed else verdict
        assert overall([verdict, Verdict.SKIPPED]) is expected


OLD = sorted(
    path
    for path in [*(ROOT / "results").glob("records/**/*.json"), *(ROOT / "results").glob("published/**/*.record.json")]
    if '"stackproof-record-1"' in path.read_text(encoding="utf-8")
)


def test_typed_fields_come_back_as_they_were_written(tmp_path: Path) -> None:
    cell = Check(
        "gate/gemm::time", Verdict.PASSED, "SAME", 1.0, kind=Kind.CELL, subject="gemm", aspect="time",
        outcome=CellWord.SAME,
    )  # fmt: skip
    plain = Check("environment", Verdict.PASSED, "proved", 1.0)
    records.write(Record("gate", "cpu", STARTED, 1.0, Verdict.PASSED, checks=[cell, plain]), tmp_path / "record.json")
    found = reading.read(tmp_path / "record.json")
    assert found.checks == [cell, plain]
    assert found.checks[0].outcome is CellWord.SAME
    rows = json.loads((tmp_path / "record.json").read_text())["checks"]
    assert set(rows[1]) == {"id", "verdict", "reason", "seconds", "figures"}


@pytest.mark.parametrize("path", OLD, ids=lambda path: path.name)
def test_a_record_of_schema_1_is_read_as_one_of_today(path: Path) -> None:
    record = reading.read(path)
    assert record.schema == records.SCHEMA_NAME
    suites = [check for check in record.checks if "::" in check.id]
    assert suites
    assert all(check.kind is Kind.SUITE and check.id.startswith(f"{check.group}/") for check in suites)


def test_schema_and_code_know_the_same_words() -> None:
    check = json.loads(records.SCHEMA.read_text(encoding="utf-8"))["definitions"]["check"]["properties"]
    assert check["kind"]["enum"] == [kind.value for kind in Kind]
    assert check["outcome"]["enum"] == [word.value for word in CellWord]

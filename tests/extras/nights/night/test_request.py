"""The record of a night while it goes on: kept after each stage, closed once."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from stackproof.extras.nights.night import request as request_
from stackproof.extras.nights.night.night import notify
from stackproof.extras.nights.night.request import Ledger
from stackproof.record import console, reading
from stackproof.record.records import Check, Figure, Verdict
from stackproof.record.writer import Outputs

FACTS: dict[str, Figure] = {
    "commit": "c" * 40,
    "lock": "l",
    "pinned": True,
    "anchor": "a",
    "profile": "fast",
    "only": "",
    "device": "",
}


def begun(folder: Path, *ended: str) -> Ledger:
    """Return a night in which these checks have passed."""
    found = request_.opened("cpu", FACTS, Outputs(folder), lambda text: None)
    for name in ended:
        found.add(Check(name, Verdict.PASSED, "seen", 1.0))
    return found


def test_what_has_ended_survives_a_killed_runner(tmp_path: Path) -> None:
    first = begun(tmp_path, "doctor", "smoke")
    kept = reading.read(first.path)
    assert kept.verdict is Verdict.INTERRUPTED and [check.id for check in kept.checks] == ["doctor", "smoke"]


def test_each_change_is_handed_over_once(tmp_path: Path) -> None:
    heard = tmp_path / "heard"
    told = []
    for number, verdicts in enumerate(("pp", "ps", "pf", "ff", "ff", "fp", "gp")):
        night = begun(tmp_path)
        night.folder = tmp_path / "cpu" / f"{number}-night-1"
        night.folder.mkdir(parents=True)
        for name, letter in zip(("smoke", "verify::rng"), verdicts, strict=True):
            verdict = {"p": Verdict.PASSED, "s": Verdict.SKIPPED, "f": Verdict.FAILED, "g": Verdict.FAILED}[letter]
            red: dict[str, Figure] = {"red": {"f": "smoke/a::b", "g": "smoke/c::d"}[letter]} if letter in "fg" else {}
            night.add(Check(name, verdict, "seen", 1.0, red))
        heard.unlink(missing_ok=True)
        words = [sys.executable, "-c", f"import sys; open({str(heard)!r}, 'w').write(sys.stdin.read())"]
        notify(words, night.record, night.path, tmp_path)
        rows = json.loads(heard.read_text())["changes"] if heard.exists() else []
        told.append([f"{row['check']} {row['was']} {row['is']}" for row in rows])
    assert told == [
        [],
        [],
        ["verify::rng passed failed"],
        ["smoke passed failed"],
        [],
        ["verify::rng failed passed"],
        ["smoke failed failed"],
    ]
    assert "the night's verdict stands" in notify(["false"], night.record, night.path, tmp_path)


def test_closing_seals_the_record_with_its_logs(tmp_path: Path) -> None:
    found = begun(tmp_path, "doctor")
    (found.folder / "launch-0").mkdir()
    (found.folder / "launch-0" / "today.log").write_text("x", encoding="utf-8")
    found.close(Verdict.PASSED, Outputs(tmp_path), console.markdown)
    kept = reading.read(found.path)
    assert (
        kept.verdict is Verdict.PASSED
        and kept.logs == ["launch-0/today.log"]
        and set(kept.digests) == {"record", *kept.logs}
    )


@pytest.mark.parametrize(
    ("verdict", "over"), [(Verdict.UNAVAILABLE, True), (Verdict.MISMATCHED, True), (Verdict.FAILED, False)]
)
def test_a_stack_that_is_not_here_ends_the_night(tmp_path: Path, verdict: Verdict, over: bool) -> None:
    found = begun(tmp_path)
    found.add(Check("smoke", verdict, "seen", 1.0))
    assert found.over is over

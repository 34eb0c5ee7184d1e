"""Going on after a stop: the newest run of a verb counts, and only one that was stopped and is of the same facts."""

from __future__ import annotations

from pathlib import Path

import pytest

from stackproof.base.errors import Refusal
from stackproof.record import resume, writer
from stackproof.record.records import Check, Verdict


def run(results: Path, verdict: Verdict, sealed: bool = True, name: str = "smoke/a::b") -> Path:
    """Leave the record of a run of `verify` that ended so, or was killed."""
    record = writer.begin("verify", "cpu", {"lock": "a"})
    folder = writer.Outputs(results).folder(record)
    record.verdict, record.checks = verdict, [Check(name, verdict, "seen", 1.0)]
    keep = writer.keep if sealed else writer.checkpoint
    keep(record, folder / resume.RECORD)
    return folder / resume.RECORD


def test_the_newest_run_of_a_verb_counts(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="no earlier verify of cpu under .*; run without --continue"):
        resume.newest(tmp_path, "verify", "cpu")
    path = run(tmp_path, Verdict.INTERRUPTED)
    assert resume.newest(tmp_path, "verify", "cpu") == path
    assert resume.earlier(tmp_path, "verify", "cpu", but=path.parent) == []


@pytest.mark.parametrize(("verdict", "sealed"), [(Verdict.INTERRUPTED, True), (Verdict.PASSED, False)])
def test_what_was_stopped_or_killed_goes_on(tmp_path: Path, verdict: Verdict, sealed: bool) -> None:
    path = run(tmp_path, verdict, sealed)
    assert resume.stopped(path, {"lock": "a"}, ("lock",)).checks[0].reason == "seen"
    with pytest.raises(Refusal, match="'lock' is 'a' then, 'b' now"):
        resume.stopped(path, {"lock": "b"}, ("lock",))
    with pytest.raises(Refusal, match="'torch' is '' then, '2' now"):
        resume.stopped(path, {"torch": "2"}, ("torch",))
    assert resume.stopped(run(tmp_path, Verdict.INTERRUPTED, name="environment"), {"torch": "2"}, ("torch",))


def test_what_ended_does_not_go_on(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="was not stopped, it ended as 'failed'"):
        resume.stopped(run(tmp_path, Verdict.FAILED), {}, ())

"""What duels have left is read as what others have written: of this plan, of that host's newest record, and never waited for."""

from __future__ import annotations

import os
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from stackproof.extras.fleet import answers, duel, duels, plan, sweep
from stackproof.record.records import Check, Record, Verdict

from .making import START, SUBJECTS, MadeHost, fleet, leave


def swept(tmp_path: Path) -> Path:
    """Return a sweep with one slow host."""
    return fleet(tmp_path / "s", 8, MadeHost("ill", slow={SUBJECTS[0]: 1.2}))


def said(folder: Path, verdict: Verdict = Verdict.FAILED, **facts: str) -> Record:
    """Return what a duel of it leaves."""
    figures = {"host": "ill", "card": "0", "of": SUBJECTS[0]}
    check = Check("duel/ill", verdict, "as slow again", 1.0, dict(figures), subject=SUBJECTS[0])
    told = {"host": "ill", "plan": plan.load(folder).id, **facts}
    return Record(duels.VERB, "cpu", START, 1.0, verdict, dict(told), [check])


def word(folder: Path) -> str:
    """Return what duels say of it, as the sweep is judged."""
    (finding,) = next(one for one in sweep.judged(folder).hosts if one.host == "ill").findings
    return finding.duel


def test_a_duel_of_the_plan_counts(tmp_path: Path) -> None:
    folder = swept(tmp_path)
    duel.keep(said(folder), folder)
    assert word(folder) == "confirmed"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda one: one.provenance.update(plan="e" * 16), "another plan (eeeeeeeeeeeeeeee)"),
        (lambda one: one.provenance.pop("plan"), "another plan (none)"),
        (lambda one: one.provenance.update(host="n01"), "another host than its own"),
        (lambda one: one.provenance.update(swept="2026-01-01T00:00:00+00:00"), "an earlier record of ill"),
        (lambda one: setattr(one, "started", "1999-01-01T00:00:00+00:00"), "an earlier record of ill"),
        (lambda one: setattr(one, "verb", "smoke"), "is a record of 'smoke'"),
        (lambda one: setattr(one, "started", (datetime.now(timezone.utc) + timedelta(days=1)).isoformat()), "to come"),
        (lambda one: setattr(one, "started", START[:19]), "ill.json"),
        (lambda one: setattr(one, "started", "soon"), "ill.json"),
    ],
)
def test_a_duel_of_something_else_does_not(tmp_path: Path, change: object, why: str) -> None:
    folder = swept(tmp_path)
    (folder / duels.FOLDER).mkdir()
    made = said(folder)
    change(made)  # type: ignore[operator]
    (folder / duels.FOLDER / "ill.json").write_text(made.as_json(), encoding="utf-8")
    assert word(folder) == "open"
    assert why in " ".join(sweep.judged(folder).notes)


def test_a_host_that_answers_anew_is_suspected_anew(tmp_path: Path) -> None:
    folder = swept(tmp_path)
    began = answers.read(answers.record_path(folder, "ill"), "ill").began
    duel.keep(said(folder, Verdict.PASSED, swept=began), folder)
    assert word(folder) == "refuted"
    later = (datetime.fromisoformat(began) + timedelta(seconds=60)).isoformat()
    leave(folder, MadeHost("ill", slow={SUBJECTS[0]: 1.2}, began=later))
    assert word(folder) == "open"


@pytest.mark.parametrize("kind", ["pipe", "folder", "link", "huge", "cut"])
def test_what_is_no_file_of_a_duel_is_passed_over(tmp_path: Path, kind: str) -> None:
    folder = swept(tmp_path)
    path = folder / duels.FOLDER / "x.json"
    path.parent.mkdir()
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "link":
        path.symlink_to("/dev/zero")
    elif kind == "huge":
        with path.open("wb") as stream:
            stream.truncate(1 << 30)
    else:
        path.write_text('{"verb": ', encoding="utf-8")
    assert word(folder) == "open"
    assert any("x.json" in note for note in sweep.judged(folder).notes)

"""The folder of a sweep: its plan, what hosts left, and the judgement of it all."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path

from stackproof.api.base import plain, write_atomically
from stackproof.extras.fleet import answers, judge, judgement, plan
from stackproof.extras.fleet.answers import FleetAnswers, HostAnswer
from stackproof.extras.fleet.judgement import FleetJudgement
from stackproof.extras.fleet.plan import FleetPlan

_CLOCKS = timedelta(hours=1)
"""So much the clocks of hosts may differ before what one left is called older than its plan."""


def judged(folder: Path) -> FleetJudgement:
    """Judge what a folder holds now.

    Raises:
        Refusal: it is no folder of a sweep, or its plan is damaged.
    """
    chosen = plan.load(folder)
    found = answers.gather(folder, chosen.tasks)
    for name, answer in [*found.hosts.items()]:
        if why := _foreign(answer, chosen) or _untimely(answer, chosen.made):
            found.refused[name] = why
            del found.hosts[name]
    name = plain(folder.absolute().name, 80, lines=False)
    return judge.judge(name, found, chosen, _notes(found, chosen))


def _foreign(answer: HostAnswer, chosen: FleetPlan) -> str:
    """Say which of plan, stack and profile of a record is another than the sweep's."""
    for what, seen, asked in (
        ("plan", answer.plan, chosen.id), ("stack", answer.stack, chosen.stack), ("profile", answer.profile, chosen.profile),
    ):  # fmt: skip
        if seen != asked:
            shown = plain(seen, 40, lines=False) or "none"
            return f"its record is of another {what} ({shown}, and the sweep's is {asked}); left out, let it run again"
    return ""


def _untimely(answer: HostAnswer, made: str) -> str:
    """Say that a record is older than its plan, or of a time to come: an old file, or a clock that is wrong."""
    try:
        began = datetime.fromisoformat(answer.began)
        early = began < datetime.fromisoformat(made) - _CLOCKS
        late = began + timedelta(seconds=answer.took) > datetime.now(timezone.utc) + _CLOCKS
    except OverflowError:
        early, late = False, True
    except (ValueError, TypeError):
        return "its record does not say when it began; left out, let it run again"
    if not early and not late:
        return ""
    when = (
        f"before the plan was made ({made[:16]})"
        if early
        else f"and ended {answer.took:.3g} s later, in a time to come"
    )
    return f"its record began {plain(answer.began[:16], lines=False)}, {when}; left out, set its clock and let it run again"


def _notes(found: FleetAnswers, chosen: FleetPlan) -> list[str]:
    """Say what is true of the sweep itself."""
    notes = list[str]()
    if chosen.without:
        notes.append(f"the plan leaves out {' and '.join(chosen.without)}: whoever is proved is so without")
    if strangers := sorted(set(found.hosts) - set(chosen.hosts)):
        notes.append(f"not in the plan, and judged all the same: {', '.join(strangers[:5])}")
    return notes


def keep(found: FleetJudgement, folder: Path) -> str:
    """Keep a judgement beside its records, for the site; return why that cannot be, which spoils nothing."""
    path = folder / judgement.NAME
    why = "it is a link, and what it names may be anybody's" if path.is_symlink() else ""
    try:
        if not why:
            write_atomically(path, judgement.as_json(found))
    except OSError as error:
        why = str(error.strerror)
    return f"{path}: the judgement cannot be kept ({why}); it is shown all the same" if why else ""

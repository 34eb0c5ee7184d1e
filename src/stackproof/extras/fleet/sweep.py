"""The folder of a sweep: its plan, what hosts left, and the judgement of it all."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

from stackproof.api.base import Refusal, plain, write_atomically
from stackproof.extras.fleet import answers, judge, judgement, plan
from stackproof.extras.fleet.answers import FleetAnswers, HostAnswer
from stackproof.extras.fleet.judgement import FleetJudgement
from stackproof.extras.fleet.plan import FleetPlan

_CLOCKS = timedelta(hours=1)
"""So much the clocks of hosts may differ before what one left is called older than its plan."""
_NOBODY = "nothing says who was to answer: make a plan first, or name them with --hosts"


def judged(folder: Path, hosts: str | None = None) -> FleetJudgement:
    """Judge what a folder holds now; `hosts`: who was to answer, besides those of the plan.

    Raises:
        Refusal: it is no folder of a sweep, or its plan is damaged.
    """
    named = plan.expanded(hosts) if hosts else []
    if hosts is not None and not named:
        raise Refusal(
            f"--hosts '{plain(hosts, 40, lines=False)}' names nobody; write it as node[01-16], or leave it out"
        )
    there = (folder / plan.NAME).exists() or (folder / plan.NAME).is_symlink()
    chosen = plan.load(folder) if there else None
    found = answers.gather(folder, chosen.tasks if chosen else None)
    _leave_out_others(found, chosen)
    expected = [*named, *(chosen.hosts if chosen else ())]
    name = plain(folder.absolute().name, 80, lines=False)
    judgement_ = judge.judge(name, found, expected, _notes(found, chosen, expected), "" if expected else _NOBODY)
    return replace(judgement_, stack=chosen.stack if chosen else "")


def _leave_out_others(found: FleetAnswers, chosen: FleetPlan | None) -> None:
    """Leave out what is none of this sweep's, with the reason; without a plan it is the one that most records name."""
    own = _origin(chosen) if chosen else None
    if own is None and found.hosts:
        counts = Counter(map(_origin, found.hosts.values()))
        own = max(counts, key=lambda one: (counts[one], one))
    for name, answer in [*found.hosts.items()]:
        if why := _foreign(answer, own or _origin(answer)) or _untimely(answer, chosen.made if chosen else ""):
            found.refused[name] = why
            del found.hosts[name]


def _foreign(answer: HostAnswer, own: tuple[str, str, str]) -> str:
    """Say which of plan, stack and profile of a record is another than the sweep's."""
    for what, seen, asked in zip(("plan", "stack", "profile"), _origin(answer), own, strict=True):
        if seen != asked:
            shown = plain(seen, 40, lines=False) or "none"
            return f"its record is of another {what} ({shown}, and the sweep's is {asked or 'none'}); left out, let it run again"
    return ""


def _origin(one: FleetPlan | HostAnswer) -> tuple[str, str, str]:
    return one.id if isinstance(one, FleetPlan) else one.plan, one.stack, one.profile


def _untimely(answer: HostAnswer, made: str) -> str:
    """Say that a record is older than its plan, or of a time to come: an old file, or a clock that is wrong."""
    try:
        began = datetime.fromisoformat(answer.began)
        early = bool(made) and began < datetime.fromisoformat(made) - _CLOCKS
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


def _notes(found: FleetAnswers, chosen: FleetPlan | None, expected: Sequence[str]) -> list[str]:
    """Say what is true of the sweep itself."""
    notes = list[str]()
    if chosen is None:
        notes.append(
            f"there is no plan ({plan.NAME}): {len(found.hosts)} records are held against all that their own profile wants"
        )
    elif chosen.without:
        notes.append(f"the plan leaves out {' and '.join(chosen.without)}: whoever is proved is so without")
    if expected and (strangers := sorted(set(found.hosts) - set(expected))):
        notes.append(
            f"not {'in the plan' if chosen else 'among --hosts'}, and judged all the same: {', '.join(strangers[:5])}"
        )
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


def keeps(folder: Path, path: Path) -> bool:
    """Whether a path is that of what the folder of a sweep keeps: its plan, its judgement, or what hosts have left."""
    place, own = path.resolve(), folder.resolve()
    records = own / plan.RECORDS
    return place in (own / plan.NAME, own / judgement.NAME, records) or records in place.parents


def names(folder: Path) -> set[str]:
    """Return every name that a folder tells, of hosts of its plan and of files, whatever is in them."""
    found = set(plan.load(folder).hosts) if (folder / plan.NAME).is_file() else set()
    with contextlib.suppress(OSError):
        for path in (folder / plan.RECORDS).iterdir():
            stem = path.name.removesuffix(".json").removesuffix(".started")
            found |= {stem, plain(stem, 80, lines=False)}
    return found - {""}

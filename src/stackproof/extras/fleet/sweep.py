"""The folder of a sweep: its plan, what hosts left, and the judgement of it all."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from stackproof.api.base import Refusal, plain, write_atomically
from stackproof.extras.fleet import answers, judgement, plan
from stackproof.extras.fleet.judge import FleetCourt
from stackproof.extras.fleet.judgement import FleetJudgement

_NOBODY = "nothing says who was to answer: make a plan first, or name them with --hosts"


def judged(folder: Path, hosts: str | None = None) -> FleetJudgement:
    """Judge what a folder holds now; `hosts`: who was to answer, besides those of the plan.

    Raises:
        Refusal: it is no folder of a sweep, or its plan is damaged.
    """
    expected = plan.expanded(hosts) if hosts else []
    if hosts is not None and not expected:
        raise Refusal(
            f"--hosts '{plain(hosts, 40, lines=False)}' names nobody; write it as node[01-16], or leave it out"
        )
    there = (folder / plan.NAME).exists() or (folder / plan.NAME).is_symlink()
    chosen = plan.load(folder) if there else None
    found = answers.gather(folder, chosen.wants if chosen else None)
    name = plain(folder.absolute().name, 80, lines=False)
    chosen = chosen or plan.without_one(name, found.hosts.values(), expected)
    expected = [*expected, *chosen.hosts]
    _disown(found, chosen)
    strangers = _strangers(found, expected, "in the plan" if there else "among --hosts")
    problems = [*_left_out(chosen.without), *_unplanned(found, there), *strangers]
    court = FleetCourt(name, found, expected, problems, "" if expected else _NOBODY)
    return replace(court.judge(), stack=chosen.stack if there else "")


def _disown(found: answers.FleetAnswers, chosen: plan.FleetPlan) -> None:
    """Leave out what is none of this plan's, with the reason."""
    why = {name: said for name, answer in found.hosts.items() if (said := chosen.disowns(answer))}
    found.refused |= why
    for name in why:
        del found.hosts[name]


def _left_out(parts: Sequence[str]) -> list[str]:
    return [f"the plan leaves out {' and '.join(parts)}: whoever is proved is so without"] if parts else []


def _unplanned(found: answers.FleetAnswers, there: bool) -> list[str]:
    """Say that there is no plan: what then is held against what."""
    if there:
        return []
    return [
        f"there is no plan ({plan.NAME}): {len(found.hosts)} records are held against all that their own profile wants"
    ]


def _strangers(found: answers.FleetAnswers, expected: Sequence[str], of: str) -> list[str]:
    strangers = sorted(set(found.hosts) - set(expected)) if expected else []
    return [f"not {of}, and judged all the same: {', '.join(strangers[:5])}"] if strangers else []


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
    records = own / answers.RECORDS
    return place in (own / plan.NAME, own / judgement.NAME, records) or records in place.parents


def names(folder: Path) -> set[str]:
    """Return every name that a folder tells, of hosts of its plan and of files, whatever is in them."""
    found = set(plan.load(folder).hosts) if (folder / plan.NAME).is_file() else set()
    with contextlib.suppress(OSError):
        found |= {part for path in (folder / answers.RECORDS).iterdir() for part in _parts(path.name)}
    return found


def _parts(name: str) -> set[str]:
    """Return what a file's name tells: with what a terminal would obey, and without."""
    stem = name.removesuffix(".json").removesuffix(".started")
    return {stem, plain(stem, 80, lines=False)} - {""}

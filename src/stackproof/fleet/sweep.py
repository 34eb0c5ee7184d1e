"""The folder of a sweep: its plan, what hosts left, what duels said, and the judgement of it all."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from stackproof.base.files import write_atomically
from stackproof.base.text import plain
from stackproof.fleet import answers, duels, judgement, links, plan
from stackproof.fleet.judge import FleetCourt
from stackproof.fleet.judgement import FleetJudgement

_MOST_PROBLEMS = 20


def judged(folder: Path, hosts: str | None = None) -> FleetJudgement:
    """Judge what a folder holds now; `hosts`: who was to answer, besides those of the plan.

    Raises:
        Refusal: it is no folder of a sweep, or its plan is damaged.
    """
    expected = plan.expanded(hosts) if hosts else []
    chosen = plan.load(folder) if (folder / plan.NAME).exists() or (folder / plan.NAME).is_symlink() else None
    found = answers.gather(folder)
    if chosen:
        expected = [*expected, *chosen.hosts]
        _disown(found, chosen)
    said, damaged = duels.gather(
        folder, chosen.id if chosen else "", {name: one.began for name, one in found.hosts.items()}
    )
    slow, told = links.told(folder)
    name = plain(folder.absolute().name, 80, lines=False)
    problems = [*_left_out(chosen.without if chosen else ()), *_problems(found, damaged, expected), *told]
    return replace(
        FleetCourt(name, found, expected, said, problems, chosen.wants if chosen else None).judge(),
        links=slow,
        stack=chosen.stack if chosen else "",
    )


def _disown(found: answers.FleetAnswers, chosen: plan.FleetPlan) -> None:
    """Leave out what is none of this plan's, with the reason."""
    why = {name: said for name, answer in found.hosts.items() if (said := chosen.disowns(answer))}
    found.refused |= why
    for name in why:
        del found.hosts[name]


def _left_out(parts: Sequence[str]) -> list[str]:
    return (
        [f"the plan leaves out {' and '.join(parts)}, so nothing is proved by {'it' if len(parts) == 1 else 'them'}"]
        if parts
        else []
    )


def _problems(found: answers.FleetAnswers, damaged: Sequence[str], expected: Sequence[str]) -> list[str]:
    strangers = sorted(set(found.hosts) - set(expected)) if expected else []
    told = [f"not in the plan, and judged all the same: {', '.join(strangers[:5])}"] if strangers else []
    told += [f"no plan says who was to answer, so nobody is missed; {len(found.hosts)} did"] if not expected else []
    told += damaged
    more = [f"and {len(told) - _MOST_PROBLEMS} more"] if len(told) > _MOST_PROBLEMS else []
    return told[:_MOST_PROBLEMS] + more


def keep(found: FleetJudgement, folder: Path) -> str:
    """Keep a judgement beside its records, for the site and for duels; return why that cannot be, which spoils nothing."""
    path = folder / judgement.NAME
    try:
        write_atomically(path, judgement.as_json(found))
    except OSError as error:
        return f"{path}: the judgement cannot be kept ({error.strerror}); it is shown all the same"
    return ""


def names(folder: Path) -> set[str]:
    """Return every name that a folder tells, of hosts of its plan and of files, whatever is in them."""
    found = set(plan.load(folder).hosts) if (folder / plan.NAME).is_file() else set()
    places = (folder / answers.RECORDS, folder / duels.FOLDER, *sorted((folder / links.FOLDER).glob("round-*")))
    for place in places:
        with contextlib.suppress(OSError):
            found |= {part for path in place.iterdir() for part in _parts(path.name)}
    return found


def _parts(name: str) -> set[str]:
    """Return what a file's name tells: the whole, without its ending, and either host of a pair."""
    stem = name.removesuffix(".json").removesuffix(".started")
    return {stem, plain(stem, 80, lines=False), *stem.split("--")} - {""}

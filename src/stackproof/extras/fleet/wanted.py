"""What a plan wants of each host: steps, subjects, replays and cards; what is lacking leaves a host incomplete, also where all lack it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from stackproof.api.stack import stacks
from stackproof.extras.fleet import rules

STEPS = ("environment", "doctor", "smoke")
_RANKS = re.compile(r"-(\d+)-ranks$")


@dataclass(frozen=True)
class PlanWants:
    """What each host of a sweep is to do."""

    stack: str
    profile: str
    without: tuple[str, ...] = ()
    cards: int = 0
    """So many cards on each host; 0: as many as it says that it has."""


@cache
def subjects_of(stack: str, profile: str) -> tuple[str, ...]:
    """Return the subjects of each card in a profile, without those that the type of device cannot do."""
    chosen = rules.profile(profile)
    cannot = chosen.cannot.get(stacks.load(stack).device, ())
    return tuple(name for name in chosen.subjects if name not in cannot)


@cache
def together_of(stack: str, profile: str, cards: int) -> tuple[str, ...]:
    """Return what a host of so many cards does with all of them: what has as many ranks, or ranks that share one."""
    chosen = rules.profile(profile)
    shared = stacks.load(stack).device in chosen.shared
    return tuple(name for name in chosen.together if shared or _ranks(name) <= cards)


def _ranks(name: str) -> int:
    found = _RANKS.search(name)
    return int(found[1]) if found else 1


def parts() -> list[str]:
    """Return all that a plan may leave out."""
    table = rules.load()
    work = [name for one in table.profile for name in (*one.subjects, *one.together)]
    kernels = [row.kernel for row in table.replay]
    return list(dict.fromkeys((*STEPS[1:], *work, *kernels)))

"""What a plan wants of each host: steps, subjects, replays and cards; what is lacking leaves a host incomplete, also where all lack it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from stackproof.fleet import rules
from stackproof.fleet.answers import CardAnswer, HostAnswer
from stackproof.record.records import Verdict
from stackproof.stack import stacks

STEPS = ("environment", "doctor", "smoke")
_DONE = (Verdict.PASSED, Verdict.KNOWN_ISSUE)
_MOST_TOLD = 4
_RANKS = re.compile(r"-(\d+)-ranks$")


@dataclass(frozen=True)
class PlanWants:
    """What each host of a sweep is to do."""

    stack: str
    profile: str
    without: tuple[str, ...] = ()
    cards: int = 0
    """So many cards on each host; 0: as many as it says that it has."""

    def lacks(self, host: HostAnswer) -> str:
        """Say what a host has not done; an empty string where it has done all."""
        found = [*self._steps(host), *self._cards(host), *self._work(host)]
        more = f" and {len(found) - _MOST_TOLD} more" if len(found) > _MOST_TOLD else ""
        return f"{'; '.join(found[:_MOST_TOLD])}{more}" if found else ""

    def _steps(self, host: HostAnswer) -> Iterator[str]:
        for name in STEPS:
            if name not in self.without and host.steps.get(name) not in _DONE:
                yield f"{name} {host.steps[name].value}" if name in host.steps else f"no {name}"

    def _cards(self, host: HostAnswer) -> Iterator[str]:
        most = max(host.counted, self.cards)
        if len(host.cards) < most:
            who = "the plan wants" if self.cards >= most else "it has"
            yield f"{len(host.cards)} of the {most} cards that {who} answered"

    def _work(self, host: HostAnswer) -> Iterator[str]:
        for name in subjects_of(self.stack, self.profile):
            if name not in self.without and not (host.cards and all(name in _measured(card) for card in host.cards)):
                yield f"{name} not measured{_why(host, name)}"
        for name in together_of(self.stack, self.profile, max(host.counted, len(host.cards))):
            if name not in self.without and not any(name in _measured(card) for card in host.cards):
                yield f"{name} not measured{_why(host, name)}"
        for kernel, rows in rows_of(self.stack).items():
            left_out = kernel in self.without or kernel.rpartition("-")[0] in self.without
            if not left_out and not (host.cards and all(rows <= card.replayed.keys() for card in host.cards)):
                yield f"{kernel} not replayed, or not in full"


def _measured(card: CardAnswer) -> set[str]:
    return {key.name for key in card.seconds}


def _why(host: HostAnswer, name: str) -> str:
    return f" ({host.unmeasured[name]})" if host.unmeasured.get(name) else ""


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


@cache
def rows_of(stack: str) -> Mapping[str, frozenset[str]]:
    """Return the rows of the replay by kernel in each precision of the stack: one for each pattern of values."""
    table, precisions = rules.load(), stacks.load(stack).precisions
    kernels = [f"{row.kernel}-{dtype}" for row in table.replay for dtype in row.dtypes if dtype in precisions]
    return {name: frozenset(f"{name} {pattern}" for pattern in table.values.patterns) for name in kernels}


def parts() -> list[str]:
    """Return all that a plan may leave out."""
    table = rules.load()
    work = [name for one in table.profile for name in (*one.subjects, *one.together)]
    kernels = [row.kernel for row in table.replay]
    return list(dict.fromkeys((*STEPS[1:], *work, *kernels)))

"""What a side of a duel says, as untrusted input: each answer is read here and nowhere else, and what cannot be is not believed.

Our own clock is the bound: no side worked for longer than we waited for it.
"""

from __future__ import annotations

from dataclasses import dataclass

from stackproof.base.rpc import TURN, Message
from stackproof.base.text import plain
from stackproof.extras.fleet import answers
from stackproof.extras.fleet.answers import Replayed
from stackproof.record import store
from stackproof.record.records import Figure
from stackproof.record.store import State

_SHORTEST_S, _LONGEST_S = 1e-7, 60.0
"""What one run of a subject can take."""
_SHARE, TICK_S = 1.05, 0.01
"""Clocks of two hosts, and how long a busy host takes to answer at all, differ by less."""
_MOST_FACTS, _MOST_EXIT = 4096, 255


class UnbelievedError(Exception):
    """An answer that cannot be; what is wrong with it, beginning with a verb."""


@dataclass(frozen=True)
class SideHello:
    """What a side is: the facts of its state, which both must share; or why it does not start, in its own words."""

    state: State | None
    refused: str = ""


def hello(found: Message) -> SideHello | None:
    """Return what a side says first; None for what is something else, such as a login script's line."""
    facts, refused, code = found.get("facts"), found.get("refused"), found.get("exit_code")
    if isinstance(refused, str) and answers.count(code) and 0 < code <= _MOST_EXIT:
        return SideHello(None, refused)
    if not isinstance(facts, dict) or not 0 < len(facts) <= _MOST_FACTS or not isinstance(facts.get("torch"), str):
        return None
    return SideHello(answers.state(facts)) if all(isinstance(one, Figure) for one in facts.values()) else None


def turn(found: Message, asked: int) -> None:
    """Hold an answer against the turn that was asked for.

    Raises:
        UnbelievedError: it is of another one: it comes twice, late, or from nobody who was asked.
    """
    told = found.get(TURN)
    if not answers.count(told) or told != asked:
        raise UnbelievedError(f"answers turn {_shown(told)}, and turn {asked} was asked")


def seconds(found: Message, runs: int, waited: float) -> float:
    """Return the seconds of one run, of so many in a request for whose answer we have waited so long.

    Raises:
        UnbelievedError: they are no such number.
    """
    told = found.get("seconds")
    if isinstance(told, bool) or not isinstance(told, (int, float)) or not _SHORTEST_S <= told <= _LONGEST_S:
        raise UnbelievedError(
            f"says that a run takes {_shown(told)} seconds, which is no number from {_SHORTEST_S:g} to {_LONGEST_S:g}"
        )
    if told * runs > waited * _SHARE + TICK_S:
        raise UnbelievedError(
            f"says that {runs} runs took {told * runs:.3g} s, and we have waited {waited:.3g} s for them"
        )
    return float(told)


def replayed(found: Message, asked: int) -> Replayed:
    """Return what was replayed.

    Raises:
        UnbelievedError: it is none, or of fewer products than were asked for.
    """
    told = answers.replayed(found)
    if told is None:
        raise UnbelievedError("does not say a digest of 16 digits, how many products there were and how many were odd")
    if told.products < asked:
        raise UnbelievedError(f"replayed {told.products} products, and {asked} were asked for")
    return told


def differing(one: State, other: State) -> str:
    """Say in what two states differ that must be equal; nothing where they are."""
    changed = store.changes(one, other)
    found = [phrase for group, phrases in changed.items() if group != store.CODE for phrase in phrases]
    more = f" and {len(found) - 3} more" if len(found) > 3 else ""
    return plain("; ".join(found[:3]), 200, lines=False) + more


def _shown(value: object) -> str:
    """Return a value of any kind, short and clean."""
    return "nothing" if value is None else plain(repr(value)[:40], lines=False)

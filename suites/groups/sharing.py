"""Two ranks on one card: our preflight refuses them, and so does the library, in words that are recognised."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from stackproof.device import devices
from stackproof.ranks import libraries, preflight
from stackproof.ranks.launch import Arrangement
from stackproof.record.checks import CheckEnded, CheckFailed, NotApplicable
from stackproof.stack.stacks import Stack

WORLD = 2
_DEADLINE_S = 120.0
_WITHIN_S = 30.0


def refused_by_preflight(stack: Stack) -> str:
    """Return the sentence with which two ranks of the stack's own backend on one card are refused.

    Raises:
        CheckFailed: they are not.
        NotApplicable: ranks may share the device.
    """
    card = devices.default(stack.device)
    if card.shareable:
        raise NotApplicable(f"ranks share a {card} as any processes do")
    refusals = preflight.refusals(preflight.local_group(stack, stack.backend, (card.index,) * WORLD, _DEADLINE_S))
    refusal = next((sentence for sentence in refusals if "Duplicate GPU" in sentence), "")
    if not refusal:
        raise CheckFailed(f"two ranks of {stack.backend} on {card} were not refused")
    return refusal


def refused_by_library(stack: Stack, launches: Callable[..., Any]) -> str:
    """Return what the library itself says of two ranks on one card, with our preflight off.

    Raises:
        CheckFailed: it says it in other words, or lets them share, so that the table of libraries is stale.
        NotApplicable: ranks may share the device.
    """
    card, library = devices.default(stack.device), libraries.serving(stack.backend)
    if card.shareable or not library.separates(os.environ):
        raise NotApplicable(f"ranks of {stack.backend} may share {card} here")
    twice, table = Arrangement(stack.backend, (card.index,) * WORLD), libraries.LIBRARIES.name
    program = "stackproof.ranks.joined:report"
    try:
        talk = dict(library.talk)  # not every version puts its reason into the exception
        launches(program, twice, {}, _DEADLINE_S, within_s=_WITHIN_S, environment=talk, checked=False)
    except CheckEnded as ended:
        if "Duplicate GPU" not in str(ended):
            raise CheckFailed(f"the refusal was not recognised; add its words to {table}: {ended}") from ended
        return str(ended)
    raise CheckFailed(f"{library.name} let {WORLD} ranks share {card}: {table} says that it refuses them")

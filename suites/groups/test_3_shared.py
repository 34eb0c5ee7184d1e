"""Two ranks on one card, without the preflight: the library refuses them, in words that are recognised and explained."""

from __future__ import annotations

import os

import pytest

from stackproof import device as devices
from stackproof.checks import CheckEnded, NotApplicable, require
from stackproof.distributed import libraries
from stackproof.distributed.launch import Arrangement
from stackproof.records import Figure
from stackproof.stacks import Stack
from suites.groups.members import WORLD
from suites.ranks import Launches

_DEADLINE_S = 120.0
_WITHIN_S = 30.0


@pytest.mark.deadline(180)
def test_library_refuses(stack: Stack, launches: Launches, figures: dict[str, Figure]) -> None:
    """The library's own refusal ends in time and is explained; a library that lets them share makes its row in the table stale."""
    card, library = devices.default(stack.device), libraries.serving(stack.backend)
    if card.shareable or not library.separates(os.environ):
        raise NotApplicable(f"ranks of {stack.backend} may share {card} here")
    twice = Arrangement(stack.backend, (card.index,) * WORLD)
    program = "stackproof.distributed.bringup:report"
    try:
        launches(program, twice, {}, _DEADLINE_S, within_s=_WITHIN_S, checked=False)
    except CheckEnded as ended:
        figures["summary"] = str(ended)
        require(
            "Duplicate GPU" in str(ended),
            f"the refusal was not recognised; add its words to {libraries.LIBRARIES.name}: {ended}",
        )
        return
    require(
        False, f"{library.name} let {WORLD} ranks share {card}: {libraries.LIBRARIES.name} says that it refuses them"
    )

"""Two ranks on one card, without the preflight: the library refuses them, in words that are recognised and explained."""

from __future__ import annotations

import pytest

from stackproof.record.records import Figure
from stackproof.stack.stacks import Stack
from suites.groups.sharing import refused_by_library
from suites.ranks import Launches


@pytest.mark.deadline(180)
def test_library_refuses(stack: Stack, launches: Launches, figures: dict[str, Figure]) -> None:
    """The library's own refusal ends in time and is explained; a library that lets them share makes its row in the table stale."""
    figures["summary"] = refused_by_library(stack, launches)

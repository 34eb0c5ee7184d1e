"""Fixtures of the suites that launch ranks."""

from __future__ import annotations

from pathlib import Path

import pytest

from stackproof.runner.request import Session
from stackproof.stack.stacks import Stack
from suites.ranks import Launches


@pytest.fixture(scope="module")
def launches(stack: Stack, session_plan: Session) -> Launches:
    """Groups of ranks, launched once per module however many checks ask for them."""
    return Launches(stack, Path(session_plan.folder), session_plan.deadline_scale, session_plan.preflight)

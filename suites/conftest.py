"""Fixtures of the suites that launch ranks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from stackproof.runner.request import Request
from stackproof.stack.stacks import Stack
from suites.ranks import Launches


@pytest.fixture(scope="module")
def launches(stack: Stack, run_request: Request, progress: Callable[[str], None]) -> Launches:
    """Groups of ranks, launched once per module however many checks ask for them."""
    return Launches(stack, Path(run_request.folder), run_request.deadline_scale, run_request.preflight, progress)

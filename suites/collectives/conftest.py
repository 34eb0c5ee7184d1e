"""The rows of each backend, and the launches that several checks look at."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

import pytest

from stackproof.collectives.table import FLOATS, PROGRAM, World, rows, worlds
from stackproof.device import devices
from stackproof.ranks.rows import RowRunner
from stackproof.runner.request import Request
from stackproof.stack.stacks import Stack
from suites.ranks import Launches

Trials = Callable[[str], list[tuple[World, RowRunner]]]

_DEADLINE_S = 170.0
_ROW_S = 20.0


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give a check every backend that the stack declares, and every row of each."""
    backends = Request.load().stack.backends
    if "row" in metafunc.fixturenames:
        pairs = [(backend, row) for backend in backends for row in rows()]
        metafunc.parametrize(("backend", "row"), pairs, ids=[f"{backend}-{row.name}" for backend, row in pairs])
    elif "backend" in metafunc.fixturenames:
        metafunc.parametrize("backend", backends)


@pytest.fixture(scope="module")
def trials(request: pytest.FixtureRequest, stack: Stack, run_request: Request, launches: Launches) -> Trials:
    """The groups that answer for a backend and the checks chosen; each is launched when its first outcome is asked for."""
    chosen = {item.name for item in request.session.items}

    @cache
    def of(backend: str) -> list[tuple[World, RowRunner]]:
        offered = [row for row in rows() if row.dtype not in FLOATS or row.dtype in stack.precisions]
        asked = [row for row in offered if f"test_agrees[{backend}-{row.name}]" in chosen]
        runners = []
        for world in worlds(stack, backend, devices.visible(stack.device)):
            start = partial(launches, PROGRAM, world.arrangement, deadline_s=_DEADLINE_S, within_s=_ROW_S)
            folder = Path(run_request.folder) / f"outcomes-{backend}-{world.size}"
            tried = [row.name for row in asked if world.tries(row)] or [offered[0].name]
            runners.append((world, RowRunner(start, tried, world.size, folder, {"counts": world.counts})))
        return runners

    return of

"""One check for each subject of the profile that was asked for."""

from __future__ import annotations

import pytest

from stackproof.bench.rows import OwnBounds
from stackproof.bench.subjects import Profile, profile, subjects
from stackproof.runner.request import Request


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give a check that asks for a subject each subject in turn."""
    if "subject" not in metafunc.fixturenames:
        return
    request = Request.load()
    chosen = subjects(request.options["profile"], request.stack)
    metafunc.parametrize("subject", chosen, ids=[subject.name for subject in chosen])


@pytest.fixture(scope="session")
def chosen(run_request: Request) -> Profile:
    """The profile that was asked for."""
    return profile(run_request.options["profile"])


@pytest.fixture(scope="session")
def bounds() -> OwnBounds:
    """What products and copies did at best so far; they come first in the table."""
    return OwnBounds()

"""One check for each subject of the profile that was asked for."""

from __future__ import annotations

import pytest

from stackproof.bench.subjects import Profile, profile, subjects
from stackproof.runner.request import Session


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give a check that asks for a subject each subject in turn."""
    if "subject" not in metafunc.fixturenames:
        return
    session = Session.load()
    chosen = subjects(session.options["profile"], session.open_stack())
    metafunc.parametrize("subject", chosen, ids=[subject.name for subject in chosen])


@pytest.fixture(scope="session")
def chosen(session_plan: Session) -> Profile:
    """The profile that was asked for."""
    return profile(session_plan.options["profile"])

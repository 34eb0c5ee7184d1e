"""The pytest plugin for other people's tests: `pytest --stack xpu`. Inert unless that is given."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from stackproof.base.errors import Refusal

CHILD = "STACKPROOF_PYTEST"
"""The variable by which a pytest process knows that it is the one that runs the tests, and where its request is."""
_BESIDE = ("--stack-device", "--stack-json")
_LONGEST = 86400.0


def pytest_addoption(parser: pytest.Parser) -> None:
    """Take what it needs, in a group of its own."""
    group = parser.getgroup("stackproof", "tests on an accelerator stack, each under a deadline (stackproof)")
    group.addoption("--stack", metavar="NAME", help="run the tests on this stack, in a process that may hang or crash")
    group.addoption("--stack-device", metavar="DEVICE", default="", help="such as xpu:1 (default: the first)")
    group.addoption(
        "--stack-deadline", metavar="S", type=float, default=120.0,
        help="a test without a mark `deadline` hangs after so many seconds (default: 120)",
    )  # fmt: skip
    group.addoption("--stack-json", metavar="FILE", default="", help="write the record of the run there")


def pytest_configure(config: pytest.Config) -> None:
    """Be what this process is: the one that runs the tests, or the one that watches it."""
    if not config.getoption("--stack", default=None):
        if alone := next((flag for flag in _BESIDE if config.getoption(flag)), ""):
            pytest.exit(f"stackproof: {alone} says how tests run on a stack; name one with --stack", returncode=2)
        return
    config.addinivalue_line("markers", "deadline(seconds): the test is ended and fails as hung after this time")
    from stackproof.base.errors import Refusal

    try:
        seconds(config.getoption("--stack-deadline"), "--stack-deadline")
        if os.environ.get(CHILD):
            from stackproof.jobs.pytest_child import Child

            config.pluginmanager.register(Child(config), "stackproof-child")
        else:
            from stackproof.jobs.pytest_parent import Parent

            config.pluginmanager.register(Parent(config), "stackproof-parent")
    except Refusal as refusal:
        _refuse(refusal)


def seconds(given: object, what: str) -> float:
    """Return a deadline, or refuse what no clock can wait for."""
    from stackproof.base.errors import Refusal

    value = float(given) if isinstance(given, (int, float)) else 0.0
    if not 0 < value <= _LONGEST:  # neither is "nan"
        raise Refusal(f"{what}: {given!r} must be a number of seconds above 0, up to {_LONGEST:g}")
    return value


def _refuse(refusal: Refusal) -> None:
    pytest.exit(f"stackproof: {refusal}", returncode=refusal.exit_code)

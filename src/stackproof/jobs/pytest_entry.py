"""The pytest plugin for other people's tests: `pytest --stack xpu`. Inert unless that is given."""

from __future__ import annotations

import pytest

_BESIDE = ("--stack-device", "--stack-json")


def pytest_addoption(parser: pytest.Parser) -> None:
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
    from stackproof.jobs import pytest_runs

    try:
        pytest_runs.register(config)
    except Refusal as refusal:
        pytest_runs.refuse(refusal)


if __name__ == "__main__":  # of the verb: flags that pytest does not know are bad words too, and have their code
    ended = pytest.main()
    raise SystemExit(2 if ended == pytest.ExitCode.USAGE_ERROR else ended)

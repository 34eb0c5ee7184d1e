"""The checks of each backend: those that the stack under test declares."""

from __future__ import annotations

import pytest

from stackproof.runner.request import Request


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give a check that asks for a backend every one that the stack declares."""
    if "backend" in metafunc.fixturenames:
        metafunc.parametrize("backend", Request.load().stack.backends)

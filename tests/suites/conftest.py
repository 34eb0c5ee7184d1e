"""Tests here plant faults in whole runs of a stack's suites: minutes, so that they have a nox session of their own."""

from __future__ import annotations

from pathlib import Path

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what lies in this folder."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker("planted")

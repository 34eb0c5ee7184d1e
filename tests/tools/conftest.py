"""Laboratories, each a folder, judge with scipy, which is in no stack's environment: `nox -s gate-tests` runs their tests."""

from __future__ import annotations

import importlib.util
from pathlib import Path

_HERE = Path(__file__).parent


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave every file of a folder to the session that has scipy."""
    inside = collection_path.name.startswith("test_") and collection_path.parent != _HERE
    return True if inside and importlib.util.find_spec("scipy") is None else None

"""The searches of the demonstration judge with scipy, which is in no stack's environment: `nox -s gate-tests` runs these."""

from __future__ import annotations

import importlib.util
from pathlib import Path


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave every file to the session that has scipy."""
    return True if importlib.util.find_spec("scipy") is None and collection_path.name.startswith("test_") else None

"""The gate's tests need scipy, which is in no stack's environment: `nox -s gate-tests` runs them, and `nox -s tests` leaves them to it."""

from __future__ import annotations

import importlib.util
from pathlib import Path


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave this folder alone where there is no scipy; the session that has it fails if it finds no test."""
    return True if importlib.util.find_spec("scipy") is None else None

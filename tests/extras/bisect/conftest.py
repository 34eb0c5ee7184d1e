"""Which tests of a bisection run where: what confirms and reads sides needs scipy, which is in no stack's environment.

`nox -s gate-tests` has scipy and runs all of them; `nox -s tests` runs those that are plain computing, and what is listed here.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

WITH_STATISTICS = (
    "test_duels.py",
    "test_outcome.py",
    "test_outcome_fixes.py",
    "test_programs.py",
    "test_fixes.py",
    "test_run.py",
    "test_run_sides.py",
    "test_search.py",
    "test_search_workshop.py",
)


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave a file to the other session if what it needs is not installed in this one."""
    return True if importlib.util.find_spec("scipy") is None and collection_path.name in WITH_STATISTICS else None

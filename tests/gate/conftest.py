"""Which tests of the gate run where: its statistics need scipy, which is in no stack's environment, and its sides need torch.

`nox -s gate-tests` has scipy and starts sides in the cpu stack's environment; `nox -s tests` has torch and runs what is listed here.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

IN_A_SIDE = ("test_computed.py", "test_side_stations.py", "test_side.py", "test_group.py")


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave a file to the other session if what it needs is not installed in this one."""
    needed = "torch" if collection_path.name in IN_A_SIDE else "scipy"
    return True if importlib.util.find_spec(needed) is None and collection_path.name.startswith("test_") else None

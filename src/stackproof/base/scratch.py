"""A folder that lasts as long as this process does; what a process left that was killed is taken away by the next one that asks."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from stackproof.base import files

_LOCK = "in-use"
_YOUNG_S = 60.0
"""A folder this new may not be locked yet."""


def folder(prefix: str) -> Path:
    """Make a folder whose name begins so; it goes with this process, and those that nobody holds any more go now."""
    for left in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        if _abandoned(left):
            shutil.rmtree(left, ignore_errors=True)
    made = Path(tempfile.mkdtemp(prefix=prefix))
    if held := files.lock(made / _LOCK):
        with held:
            os.dup(held.fileno())  # holds it until the process ends, however it does
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


def _abandoned(left: Path) -> bool:
    with suppress(OSError):
        state = left.lstat()
        if state.st_uid != os.getuid() or time.time() - state.st_mtime < _YOUNG_S:
            return False
        if (left / _LOCK).is_file() and (free := files.lock(left / _LOCK, wait_s=0)):
            free.close()  # whoever made it is gone
            return True
    return False

"""A folder that lasts as long as this process does; what a process left that was killed is taken away by the next one that asks."""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path

_LOCK = "in-use"
_YOUNG_S = 60.0
"""A folder this new may not be locked yet."""


def folder(prefix: str) -> Path:
    """Make a folder whose name begins so; it goes with this process, and those that nobody holds any more go now."""
    for left in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        if _abandoned(left):
            shutil.rmtree(left, ignore_errors=True)
    made = Path(tempfile.mkdtemp(prefix=prefix))
    handle = os.open(made / _LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    fcntl.flock(handle, fcntl.LOCK_EX)  # held until the process ends, however it does
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


def _abandoned(left: Path) -> bool:
    with suppress(OSError):
        state = left.lstat()
        if state.st_uid != os.getuid() or time.time() - state.st_mtime < _YOUNG_S:
            return False
        handle = os.open(left / _LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)  # free: whoever made it is gone
            return True
        finally:
            os.close(handle)
    return False

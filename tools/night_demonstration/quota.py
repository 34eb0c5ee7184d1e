"""A CPU quota for everything that a process starts: a control group of its own, version 1 or 2. Needs root."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

from stackproof.base.errors import Refusal

_PERIOD_US = 10_000
"""Short beside a block of a tenth of a second, so that each block pays the same."""
_SHARES = "2048"
_NAME = "stackproof-demonstration"


class Quota:
    """The group; `share` of one core is granted."""

    def __init__(self, top: Path = Path("/sys/fs/cgroup")) -> None:
        self._first = (top / "cpu").is_dir()
        self.folder = (top / "cpu" if self._first else top) / _NAME

    def grant(self, share: float) -> None:
        """Grant so much from now on."""
        granted = int(share * _PERIOD_US)
        if self._first:
            (self.folder / "cpu.cfs_period_us").write_text(str(_PERIOD_US))
            (self.folder / "cpu.cfs_quota_us").write_text(str(granted))
            (self.folder / "cpu.shares").write_text(_SHARES)
        else:
            (self.folder / "cpu.max").write_text(f"{granted} {_PERIOD_US}")

    def enter(self) -> None:
        """Put the process that calls this into the group; its children follow."""
        (self.folder / "cgroup.procs").write_text(str(os.getpid()))

    @contextlib.contextmanager
    def made(self) -> Iterator[Quota]:
        """Make the group, and take it away at the end."""
        try:
            self.folder.mkdir(exist_ok=True)
        except OSError as error:
            raise Refusal(f"{self.folder}: no control group can be made ({error.strerror}); run it as root") from error
        try:
            yield self
        finally:
            for _ in range(50):  # the last process needs a moment to be gone
                with contextlib.suppress(OSError):
                    self.folder.rmdir()
                    break
                time.sleep(0.1)

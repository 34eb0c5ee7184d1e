"""A module that rank 1 cannot import: the process dies, as with a library of the wrong build."""

from __future__ import annotations

import os
import signal

from suites.failures.programs import healthy

__all__ = ["healthy"]

if os.environ.get("RANK") == "1":
    os.kill(os.getpid(), signal.SIGSEGV)

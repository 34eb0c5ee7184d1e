"""Imported before torch: imports leave no garbage, and looking for some takes a quarter of their time."""

from __future__ import annotations

import atexit
import gc
import os

from stackproof.base.processes import STARTED

if STARTED in os.environ:  # by what runs checks, for itself and its ranks
    gc.disable()


def done() -> None:
    """Collect garbage from now on, and look for none in what was imported until the process ends."""
    gc.freeze()
    gc.enable()
    atexit.register(gc.unfreeze)

"""asv's plug-in in a checkout: finds stackproof here, whatever is installed, or says what this Python lacks."""

from __future__ import annotations

import sys
from pathlib import Path

from asv import util

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))
try:
    import fastjsonschema  # noqa: F401 - imported late
    import packaging  # noqa: F401

    from stackproof.history.asv_plugin import Refused, StackEnvironment, setup
except ModuleNotFoundError as missing:
    raise util.UserError(
        f"{missing.name} is not installed where asv is; use `nox -s cpu-asv -- run`, or `python -m pip install .` here"
    ) from missing

__all__ = ["Refused", "StackEnvironment", "setup"]

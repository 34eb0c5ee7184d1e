"""TEST DOUBLE, not Intel's extension: it is there to be imported, and only after torch."""

from __future__ import annotations

import sys

if "torch" not in sys.modules:
    raise ImportError("torch has to be imported first")

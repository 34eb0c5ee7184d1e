"""What tests of the stacks share: an environment that is, at first, its lock."""

from __future__ import annotations

from pathlib import Path

import pytest

from . import proving


@pytest.fixture
def scene(tmp_path: Path) -> proving.Scene:
    """An environment with torch 9.1.0 and numpy 2.0, pinned by the lock of a stack named 'tiny'."""
    return proving.make(tmp_path)

"""What tests of the doctor share: no environment of this checkout and no interpreter of this machine shows through."""

from __future__ import annotations

from pathlib import Path

import pytest

from stackproof.stack import environments


@pytest.fixture(autouse=True)
def home(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder for the stacks' environments; looking for interpreters, which runs them, is left to test_presence."""
    monkeypatch.setattr(environments, "HOME", tmp_path / "stacks-home")
    if "presence" not in request.path.name:
        monkeypatch.setattr(environments, "find_interpreter", lambda stack: Path("/usr/bin/python3"))
    return tmp_path / "stacks-home"

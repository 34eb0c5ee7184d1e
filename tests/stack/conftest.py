"""What tests of the stacks share: an environment that is, at first, its lock, and a checkout to build some in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from stackproof.stack import environments, stacks

from .. import fakes
from . import proving

Sandbox = Callable[..., stacks.Stack]


@pytest.fixture
def scene(tmp_path: Path) -> proving.Scene:
    """An environment with torch 9.1.0 and numpy 2.0, pinned by the lock of a stack named 'tiny'."""
    return proving.make(tmp_path)


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    return tmp_path / "wheels"


@pytest.fixture
def sandbox(tmp_path: Path, wheels: Path, monkeypatch: pytest.MonkeyPatch) -> Sandbox:
    """Make a stack from the body of a lock, in a checkout and an environment home of its own."""
    (tmp_path / "src").mkdir()
    monkeypatch.setattr(environments, "ROOT", tmp_path)
    monkeypatch.setattr(environments, "HOME", tmp_path / ".nox" / "stacks")
    for name, value in fakes.offline(wheels).items():
        monkeypatch.setenv(name, value)

    def make(body: str, definition: str = fakes.TINY) -> stacks.Stack:
        folder = fakes.stack(tmp_path, "tiny", definition)
        fakes.lock(folder, body)
        return stacks.load("tiny", tmp_path / "stacks")

    return make

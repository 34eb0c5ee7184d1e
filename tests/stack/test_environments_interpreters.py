"""What environments are built with: an interpreter of the stack's version, and uv; what does not run is passed over."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stackproof.base.errors import Refusal
from stackproof.stack import environments, stacks

from .. import fakes
from .conftest import Sandbox


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
    return path


def says(version: str) -> str:
    return f"#!/bin/sh\necho {version}\n"


SHIM = "#!/bin/sh\necho 'pyenv: python3.98: command not found' >&2\nexit 127\n"


@pytest.fixture
def pythons(sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> stacks.Stack:
    """A stack on Python 3.98 or 3.97, and a host that has neither yet."""
    monkeypatch.setenv("PATH", f"{tmp_path / 'shims'}:{tmp_path / 'bin'}")
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    monkeypatch.setenv("UV_PYTHON_INSTALL_DIR", str(tmp_path / "uv"))
    return sandbox("", fakes.TINY.replace(f'["{fakes.THIS_PYTHON}"]', '["3.98", "3.97"]'))


@pytest.mark.parametrize(
    "shim",
    [SHIM, "#!/nonexistent/interpreter\n", says("3.11"), "#!/bin/sh\nprintf '\\377\\376'\n", ""],
    ids=["inactive shim", "no such loader", "another version", "rubbish", "empty"],
)
@pytest.mark.parametrize(
    "place",
    ["bin/python3.98", "pyenv/versions/3.98.1/bin/python3.98", "uv/cpython-3.98.0-linux/bin/python3.98"],
)
def test_interpreter_that_does_not_run_is_passed_over(
    pythons: stacks.Stack, tmp_path: Path, shim: str, place: str
) -> None:
    script(tmp_path / "shims" / "python3.98", shim)
    real = script(tmp_path / place, says("3.98"))
    assert environments.find_interpreter(pythons) == real


def test_preferred_version_comes_first(pythons: stacks.Stack, tmp_path: Path) -> None:
    second = script(tmp_path / "shims" / "python3.97", says("3.97"))
    assert environments.find_interpreter(pythons) == second
    first = script(tmp_path / "uv/cpython-3.98.0-linux/bin/python3.98", says("3.98"))
    assert environments.find_interpreter(pythons) == first


def test_uv_that_does_not_run_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script(tmp_path / "shims" / "uv", SHIM)
    own = script(tmp_path / "tools" / "bin" / "uv", "#!/bin/sh\necho uv 1\n")
    monkeypatch.setenv("PATH", f"{tmp_path / 'shims'}:{os.environ['PATH']}")
    monkeypatch.setattr(environments, "TOOLS", tmp_path / "tools")
    monkeypatch.setattr(environments.sys, "executable", str(tmp_path / "nowhere" / "python"))
    assert environments.find_uv(print) == own


def test_uv_that_cannot_be_installed_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(environments, "TOOLS", tmp_path / "tools")
    monkeypatch.setattr(environments.sys, "executable", str(script(tmp_path / "python", SHIM)))
    with pytest.raises(Refusal, match="cannot make an environment for uv: pyenv"):
        environments.find_uv(print)

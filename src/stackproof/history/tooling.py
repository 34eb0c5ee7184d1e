"""The environment of asv: its own, made once, so that no stack's lock holds a tool that only reads results."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

from .. import ROOT, environments
from ..environments import Say
from ..errors import Refusal

HOME = ROOT / ".nox" / "tools" / "asv"
REQUIREMENTS = ROOT / "benchmarks" / "requirements.in"
PROJECT = ROOT / "pyproject.toml"
_STAMP = "requirements.sha256"


def prepare(say: Say = print) -> Path:
    """Return the interpreter of asv's environment, made unless it is there and its requirements are the same.

    Raises:
        Refusal: it cannot be made.
    """
    python = environments.python_of(HOME)
    digest = _digest()
    with environments.only_builder(HOME):
        if not (python.exists() and _read(HOME / _STAMP) == digest):
            _build(python, say)
            (HOME / _STAMP).write_text(digest, encoding="utf-8")
    return python


def _digest() -> str:
    content = b"\0".join((REQUIREMENTS.read_bytes(), PROJECT.read_bytes(), sys.version.encode(), str(ROOT).encode()))
    return hashlib.sha256(content).hexdigest()


def _build(python: Path, say: Say) -> None:
    say(f"building asv's own environment from {REQUIREMENTS.relative_to(ROOT)}")
    uv = environments.find_uv(say)
    _run([str(uv), "venv", "--quiet", "--clear", "--python", sys.executable, str(HOME)])
    _run([str(uv), "pip", "install", "--quiet", "--python", str(python), "-r", str(REQUIREMENTS), "-r", str(PROJECT)])
    environments.link_checkout(HOME)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""


def _run(command: list[str]) -> None:
    ended = subprocess.run(command, stderr=subprocess.PIPE, text=True, errors="replace", check=False)
    if ended.returncode:
        said = " / ".join(line.strip() for line in ended.stderr.splitlines()[-4:]) or "it printed nothing"
        raise Refusal(f"{HOME}: asv's environment cannot be made: {said}")

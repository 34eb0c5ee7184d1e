"""What people type where they stand: a session of nox inside our checkout, the verb itself wherever there is no noxfile of ours."""

from __future__ import annotations

import importlib.metadata
import shlex
from pathlib import Path

from stackproof.base import places

_BUILD = frozenset({"smoke", "verify", "bench", "agree", "ddp", "rehearse"})
"""Verbs that build the environment of a lock where `--locked` asks for it; a session of nox always does."""


def sessions() -> bool:
    """Whether nox finds our sessions from the working directory."""
    return not places.INSTALLED and Path.cwd().is_relative_to(places.ROOT)


def words(stack: str, verb: str, *flags: str) -> list[str]:
    """Return the words that run a verb for a stack in the environment of its lock."""
    if sessions():
        return ["nox", "-s", f"{stack}-{verb}", *(["--", *flags] if flags else [])]
    return ["stackproof", verb, "--stack", stack, *(["--locked"] if verb in _BUILD else []), *flags]


def command(stack: str, verb: str, *flags: str) -> str:
    """Return the same as one line."""
    return shlex.join(words(stack, verb, *flags))


def relock(stack: str, definition: Path | None = None) -> str:
    """Return, quoted, what makes a lock anew; what an installed package carries of ours is made in a checkout alone."""
    if sessions():
        return f"`nox -s lock -- {stack}`"
    if definition and not definition.is_relative_to(places.ROOT):
        return f"`stackproof lock {stack}`"
    return f"`nox -s lock -- {stack}` in a checkout of stackproof"


def install(*packages: str) -> str:
    """Return what installs packages beside this Python; an environment that uv made has no pip."""
    tool = ["python", "-m", "pip"] if _has_pip() else ["uv", "pip"]
    return shlex.join([*tool, "install", *packages])


def _has_pip() -> bool:
    """Whether this Python has pip; `find_spec` may not ask, because setuptools takes that for pip at work and steps aside."""
    return any(importlib.metadata.distributions(name="pip"))


def missing(package: str, session: str) -> str:
    """Return what to do where a package is not installed: our session brings it, elsewhere it is installed by hand."""
    by_hand = f"`{install(package)}`"
    return f"use `nox -s {session}`, or {by_hand}" if sessions() else f"{by_hand} brings it"

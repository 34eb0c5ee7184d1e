"""What people type where they stand: a session of nox inside our checkout, else the verb itself; and what was typed, for the record."""

from __future__ import annotations

import importlib.metadata
import itertools
import os
import shlex
import shutil
import sys
import traceback
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from stackproof.base import places
from stackproof.base.errors import EnvironmentMismatchError, Refusal, StackUnavailableError
from stackproof.base.text import error_line

_IN_SESSION = "NOX_CURRENT_SESSION"
"""What nox tells the processes of a session."""
_BUILD = frozenset({"smoke", "verify", "bench", "ddp", "rehearse", "explore", "upstream"})
"""Verbs that build the environment of a lock where `--locked` asks for it; a session of nox always does."""


def sessions() -> bool:
    """Whether our sessions can be typed: nox is here, as in its sessions, and finds them from the working directory."""
    nox = _IN_SESSION in os.environ or shutil.which("nox")
    return bool(nox) and not places.INSTALLED and Path.cwd().is_relative_to(places.ROOT)


def words(stack: str, verb: str, *flags: str, session: bool | None = None) -> list[str]:
    """Return the words that run a verb for a stack in the environment of its lock; `session`: whether nox does, for who knows."""
    if sessions() if session is None else session:
        return ["nox", "-s", f"{stack}-{verb}", *(["--", *flags] if flags else [])]
    return ["stackproof", verb, "--stack", stack, *(["--locked"] if verb in _BUILD else []), *flags]


def step(stack: str, verb: str, name: str, *flags: str) -> str:
    """Return what runs a step of a verb, such as `fleet judge`, on something that names the stack itself."""
    if sessions():
        return command(stack, verb, name, *flags)
    return shlex.join(["stackproof", verb, name, *flags])


def in_checkout(line: str) -> str:
    """Return, quoted, what only our checkout can run, and for who stands elsewhere that it is to be typed there."""
    return f"`{line}`" if sessions() else f"`{line}` in a checkout of stackproof"


def command(stack: str, verb: str, *flags: str) -> str:
    """Return the same as one line."""
    return shlex.join(words(stack, verb, *flags))


def relock(stack: str, definition: Path | None = None) -> str:
    """Return, quoted, what makes a lock anew; the locks of our own stacks are made in a checkout alone."""
    if definition and not definition.is_relative_to(places.ROOT):
        project = os.environ.get(places.PROJECT, "")
        named = ["--project", project] if project and not Path.cwd().is_relative_to(project) else []
        return f"`{shlex.join(['stackproof', 'lock', *named, stack])}`"
    return in_checkout(f"nox -s lock -- {stack}")


def install(*packages: str) -> str:
    """Return what installs packages beside this Python."""
    return pip("install", *packages)


def pip(*words: str) -> str:
    """Return what changes what stands beside this Python; an environment that uv made has no pip."""
    # Not by `find_spec`, which setuptools takes for pip at work and steps aside.
    has_pip = any(importlib.metadata.distributions(name="pip"))
    return shlex.join([*(["python", "-m", "pip"] if has_pip else ["uv", "pip"]), *words])


REBUILD = "delete that folder and run the session again, it is rebuilt from the lock"
"""The remedy for an environment of ours that is not its lock."""


def unloadable(error: Exception) -> Refusal | None:
    """Return what to say of a module that could not be imported: it is not installed, or was taken out or edited; None of other errors."""
    frames = traceback.extract_tb(error.__traceback__)
    run = [frame.filename for frame in frames if frame.name == "<module>"]
    module = str(error.name or "") if isinstance(error, ImportError) else ""
    source = Path((isinstance(error, SyntaxError) and error.filename) or (run[-1:] or [""])[0])
    why = error_line(error)
    if not run and not isinstance(error, (ImportError, SyntaxError)):
        return None
    if module.startswith("stackproof") or (not module and source.is_relative_to(places.PACKAGE)):
        return Refusal(f"stackproof's own files are damaged ({why}); `git status` names them, or install it again")
    if "shared object" in str(error):
        return StackUnavailableError(
            f"{module or source} cannot be loaded on this host ({why}); install what that library belongs to"
        )
    if places.STAMP.is_file() and (module or source.is_relative_to(sys.prefix)):
        return EnvironmentMismatchError(f"MISMATCHED: the environment {sys.prefix} is damaged ({why}); {REBUILD}")
    if module:
        return Refusal(
            f"the Python package '{module}' is not installed here; run `{install(module.partition('.')[0])}`"
        )
    return Refusal(f"{source}: cannot be imported ({why}); mend it or install it again")


def missing(package: str, session: str) -> str:
    """Return what to do where a package is not installed: our session brings it, elsewhere it is installed by hand."""
    by_hand = f"`{install(package)}`"
    return f"use `nox -s {session}`, or {by_hand}" if sessions() else f"{by_hand} brings it"


_PLACES = ("--json", "--junit", "--results", "--markdown")
"""Flags that say where something is kept, and nothing that decides what is found; a night's page and earlier nights do."""
_STATE = ("--locked", "--continue")
"""Flags that say from where a run goes on, each a word alone."""
_words: list[str] = []


@contextmanager
def typing(words: Sequence[str]) -> Iterator[None]:
    """Keep the words of the command line while its verb runs."""
    own = itertools.takewhile(lambda word: word != "--", words)  # behind it stands somebody else's command
    dropped = _PLACES[:2] if words[:1] == ["night"] else _PLACES
    _words[:] = [word for word in without(own, dropped) if word not in _STATE]
    try:
        yield
    finally:
        _words.clear()


def typed() -> str:
    """Return the verb and its flags as one line; empty where nothing was typed."""
    return shlex.join(_words)


def without(words: Iterable[str], flags: Sequence[str]) -> Iterator[str]:
    """Yield the words but these flags and the value of each."""
    value = False
    for word in words:
        name, joined, _ = word.partition("=")
        if value:
            value = False
        elif name in flags:
            value = not joined
        else:
            yield word

"""Plug-ins: verbs and sessions of nox that are not the core's, found by entry points; our own extras are found in the same form.

An entry point of `stackproof.verbs` is `NAME = "module:function"`, whose function adds the verb NAME; one of `stackproof.sessions` names a
package with a file plugin.toml. Ours have such a file each, because a checkout on PYTHONPATH has no metadata.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, NoReturn

from stackproof.base.errors import Refusal
from stackproof.base.places import PACKAGE
from stackproof.base.text import plain
from stackproof.base.toml import read_toml
from stackproof.commands import arguments

TABLE = "plugin.toml"
_VERBS, _SESSIONS = "stackproof.verbs", "stackproof.sessions"
_EXTRAS = PACKAGE / "extras"
_OURS = f"{PACKAGE.name}.{_EXTRAS.name}."


def tables(extras: Path = _EXTRAS) -> list[Path]:
    return sorted(extras.glob(f"*/{TABLE}"))


def verbs() -> list[EntryPoint]:
    """Return the verbs of the extras that are here, then those of other packages."""
    ours = [row for path in tables() for row in read_toml(path).get("verbs", {}).items()]
    return [EntryPoint(name, target, _VERBS) for name, target in ours] + _of_others(_VERBS)


def _of_others(group: str) -> list[EntryPoint]:
    return [
        entry_point
        for entry_point in importlib.metadata.entry_points(group=group)
        if not entry_point.value.startswith(_OURS)
    ]


def add(known: arguments.Verbs) -> None:
    """Add the verbs of plug-ins to the command line; one that cannot be loaded is there, and says so when it is called."""
    for entry in verbs():
        if entry.name in known.choices:
            _warn(f"{_owner(entry)} brings a verb '{entry.name}' too, which is left out; it needs another name")
            continue
        try:
            function = entry.load()
            _require_only(entry.name, function)
        except (Exception, SystemExit) as error:  # it is somebody else's code
            _add_broken(known, entry, error)
        else:
            function(known)


def _require_only(name: str, function: Any) -> None:
    """Call the function of a verb on a command line of its own, where nothing is lost if it fails half-way."""
    alone = argparse.ArgumentParser().add_subparsers()
    function(alone)
    if list(alone.choices) != [name]:
        raise ValueError(f"it adds {', '.join(alone.choices) or 'nothing'}, not '{name}'")


def _add_broken(known: arguments.Verbs, entry: EntryPoint, error: BaseException) -> None:
    why = plain(f"{_owner(entry)} cannot be loaded ({type(error).__name__}: {error})", lines=False)

    def refuse(*_: Any) -> NoReturn:
        raise Refusal(f"the verb '{entry.name}' of {why}; mend that package, or uninstall it")

    verb = arguments.add(known, entry.name, f"of {why}".replace("%", "%%"), refuse)
    verb.parse_known_args = refuse  # type: ignore[method-assign, assignment] # whatever its flags are


def _owner(entry: EntryPoint) -> str:
    return f"the plug-in '{entry.dist.name if entry.dist else entry.value}'"


def sessions() -> Iterator[dict[str, Any]]:
    """Yield the tables of sessions (tools/sessions.toml) of extras and of other packages; a broken one is named and left out."""
    for path in tables():
        yield read_toml(path)
    for entry in _of_others(_SESSIONS):
        try:
            spec = importlib.util.find_spec(entry.value)
            folder = (spec.submodule_search_locations or [])[0] if spec else entry.value
            yield read_toml(Path(folder) / TABLE)
        except (Exception, SystemExit) as error:
            _warn(f"{_owner(entry)} brings no sessions: {error}; mend that package, or uninstall it")


def _warn(sentence: str) -> None:
    print(f"stackproof: {plain(sentence, lines=False)}", file=sys.stderr)  # noqa: T201

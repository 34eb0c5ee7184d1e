"""Flags that write what a verb finds in some form, such as `--json FILE`; without FILE, to the terminal in place of the text."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

from stackproof.api.base import Refusal, write_atomically
from stackproof.api.command import arguments

STDOUT = Path("-")


def add(verb: argparse.ArgumentParser, forms: Mapping[str, str]) -> None:
    """Add a flag for each form; its value says what it writes."""
    for name, what in forms.items():
        help_ = f"write {what} there; without FILE, instead of text"
        verb.add_argument(f"--{name}", nargs="?", const=STDOUT, type=arguments.file, metavar="FILE", help=help_)


def chosen(options: argparse.Namespace, forms: Mapping[str, str]) -> dict[str, Path]:
    """Return the forms that are asked for, and where each goes.

    Raises:
        Refusal: two of them want the terminal.
    """
    found = {name: getattr(options, name) for name in forms if getattr(options, name)}
    if list(found.values()).count(STDOUT) > 1:
        flags = [f"--{name}" for name in forms]
        raise Refusal(f"two of {', '.join(flags[:-1])} and {flags[-1]} want the terminal; name a file for one of them")
    return found


def write(found: Mapping[Path, str], text: str) -> None:
    """Write each form where it was asked for, and the text if none takes its place on the terminal.

    Raises:
        Refusal: a file cannot be written.
    """
    for path, content in found.items():
        if path == STDOUT:
            continue
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, content)
        except OSError as error:
            raise Refusal(f"{path}: cannot be written ({error.strerror}); free space or name another file") from error
    print(found.get(STDOUT, text).rstrip("\n"))  # noqa: T201

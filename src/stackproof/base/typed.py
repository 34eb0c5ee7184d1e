"""The words that this run was called with, for its record: a page can say how it is made again, with the flags that made it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

_PLACES = ("--json", "--junit", "--markdown", "--results", "--site")
"""Flags that say where something is kept: of this host, and nothing that decides what is found."""
_STATE = ("--locked", "--continue")
"""Flags that say from where a run goes on, each a word alone."""
_THEIRS = "--"
"""What stands behind it is somebody else's command."""
_words: list[str] = []


@contextmanager
def kept(words: Sequence[str]) -> Iterator[None]:
    """Keep the words of the command line while its verb runs."""
    _words[:] = _without_places(words)
    try:
        yield
    finally:
        _words.clear()


def words() -> str:
    """Return the verb and its flags as one line; empty where nothing was typed."""
    return shlex.join(_words)


def _without_places(given: Sequence[str]) -> Iterator[str]:
    value = False
    for word in given:
        if word == _THEIRS:
            return
        name, joined, _ = word.partition("=")
        if value:
            value = False
        elif name in _PLACES:
            value = not joined
        elif word not in _STATE:
            yield word

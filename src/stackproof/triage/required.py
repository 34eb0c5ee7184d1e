"""The fixed text that every match of a pattern must contain, so that a pattern can be looked for by its bytes first."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from .literals import SHORTEST

# The standard library's own parser of patterns moved; it has no public name.
_OURS = sys.version_info >= (3, 11)
_parser: Any = importlib.import_module("re._parser" if _OURS else "sre_parse")
_constants: Any = importlib.import_module("re._constants" if _OURS else "sre_constants")

Texts = tuple[str, ...]


def texts_of(pattern: str) -> tuple[bytes, ...]:
    """Return texts of which every match of the pattern contains at least one; none when the pattern has no such text.

    Raises:
        re.error: the pattern is broken.
    """
    parsed = _parser.parse(pattern)
    if parsed.state.flags & re.IGNORECASE:
        return ()
    best = _best(_alternatives(parsed))
    return tuple(text.encode() for text in best)


def _best(found: Iterable[Texts]) -> Texts:
    """Return the alternatives whose shortest text is longest."""
    usable = [texts for texts in found if texts and _size(texts) >= SHORTEST]
    return max(usable, key=_size, default=())


def _size(texts: Texts) -> int:
    return min(len(text.encode()) for text in texts)


def _alternatives(items: Iterable[Any]) -> list[Texts]:
    """Return sets of texts; of each set every match contains one."""
    found: list[Texts] = []
    run = ""
    for operator, argument in items:
        if operator is _constants.LITERAL:
            run += chr(argument)
            continue
        found.append((run,))
        run = ""
        found.extend(_inner(operator, argument))
    return [*found, (run,)]


def _inner(operator: Any, argument: Any) -> Sequence[Texts]:
    """Return what a group, a repetition or a choice contributes; what may be absent contributes nothing."""
    if operator is _constants.SUBPATTERN:
        return [] if argument[1] & re.IGNORECASE else _alternatives(argument[3])
    if operator in (_constants.MAX_REPEAT, _constants.MIN_REPEAT):
        return _alternatives(argument[2]) if argument[0] > 0 else []
    if operator is _constants.BRANCH:
        branches = [_best(_alternatives(branch)) for branch in argument[1]]
        return [tuple(text for branch in branches for text in branch)] if all(branches) else []
    return []

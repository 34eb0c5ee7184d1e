"""Logs repeat themselves: lines that differ in their digits alone have one shape, and one look at a shape does for all of them."""

from __future__ import annotations

from collections.abc import Iterator

from .literals import Plan
from .windows import Window

_MOST_SHAPES = 200_000
_PATIENCE = 32  # windows that are read line by line where looking at shapes did not help
_NEW = 0.3
_WANTED = 0.05

# Digits are one; a carriage return ends a line, because progress bars draw one over the other.
_SHAPE = bytes.maketrans(b"123456789\r", b"000000000\n")


class Shapes:
    """The shapes that a log showed so far, and which of them may hold what a plan looks for."""

    def __init__(self, plan: Plan, sample: bytes) -> None:
        self._plan = Plan((text.translate(_SHAPE) for text in plan.texts), sample.translate(_SHAPE))
        self._seen: set[int] = set()
        self._wanted: set[int] = set()
        self._direct = 0

    def ranges(self, window: Window) -> Iterator[tuple[int, int]]:
        """Yield the parts of the window that may hold what is looked for: all of it where shapes are many, or most are wanted."""
        if self._direct:
            self._direct -= 1
            return iter([(window.start, window.end)])
        lines = window.data[window.start : window.end].translate(_SHAPE).split(b"\n")
        self._learn(set(lines))
        found = list(self._places(lines, window.start)) if self._wanted else []
        if len(found) > _WANTED * len(lines):
            self._direct = _PATIENCE
        return iter(found)

    def _learn(self, shapes: set[bytes]) -> None:
        """Look at the shapes that are new."""
        new = [shape for shape in shapes if hash(shape) not in self._seen]
        if len(new) > _NEW * len(shapes) > 100:
            self._direct = _PATIENCE
        if len(self._seen) + len(new) > _MOST_SHAPES:
            self._seen = set()
        self._seen.update(map(hash, new))
        text = b"\n".join(new)
        position = 0
        while found := self._plan.find(text, position, len(text)):
            begin, end = text.rfind(b"\n", 0, found[0]) + 1, text.find(b"\n", found[0])
            position = end if end >= 0 else len(text)
            self._wanted.add(hash(text[begin:position]))

    def _places(self, lines: list[bytes], position: int) -> Iterator[tuple[int, int]]:
        for line in lines:
            end = position + len(line)
            if hash(line) in self._wanted:
                yield position, end
            position = end + 1

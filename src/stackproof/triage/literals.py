"""Finding any of some hundred fixed texts in bytes, at the speed of one regular expression.

Python's `re` tries the branches of an alternation only where a first byte fits. So each text is looked for from its rarest
byte on, as the log at hand uses bytes, and texts that begin alike share their beginning. A plain alternation is several times slower.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

SHORTEST = 3
"""Texts of fewer bytes are found everywhere and say nothing."""

Found = tuple[int, tuple[bytes, ...]]
"""Where the anchor of a text lies, and all texts that have it there."""

_SAMPLE = 1 << 16
_ENDS = None  # the key of a node for the texts that end there
_UNSEEN = 50  # what a byte weighs that the sample lacks: logs change as they go on


class Plan:
    """How to look for the texts in a log that uses bytes as the sample does."""

    def __init__(self, texts: Iterable[bytes], sample: bytes) -> None:
        self.texts = tuple(dict.fromkeys(texts))
        weights = _weights(sample)
        first = _first_bytes(self.texts, weights)
        self._anchors: dict[bytes, list[tuple[bytes, int]]] = {}
        for text in self.texts:
            begin = _anchor(text, first, weights)
            self._anchors.setdefault(text[begin:], []).append((text, begin))
        self._pattern = re.compile(_alternation(self._anchors)) if self.texts else None
        self._longest = max(map(len, self.texts), default=0)
        self._seen: dict[bytes, tuple[tuple[bytes, int], ...]] = {}

    def find(self, data: bytes, start: int, end: int) -> Found | None:
        """Return the first place in `data[start:end]` where the anchor of a text lies, and the texts that are there."""
        while self._pattern and (found := self._pattern.search(data, start, end + self._longest)):
            start = found.start() + 1
            if start > end:
                break
            texts = tuple(text for text, k in self._candidates(found[0]) if data.startswith(text, found.start() - k))
            if texts:
                return found.start(), texts
        return None

    def _candidates(self, matched: bytes) -> tuple[tuple[bytes, int], ...]:
        """Return the texts whose anchor begins with what matched, and where in them it does."""
        if matched not in self._seen:
            rows = (texts for anchor, texts in self._anchors.items() if anchor.startswith(matched))
            self._seen[matched] = tuple(text for texts in rows for text in texts)
        return self._seen[matched]


def _weights(sample: bytes) -> list[int]:
    """Return how often each byte occurs in a sample of the log."""
    counts = Counter(sample[:_SAMPLE])
    return [counts.get(byte, 0) + _UNSEEN for byte in range(256)]


def _first_bytes(texts: tuple[bytes, ...], weights: list[int]) -> set[int]:
    """Return a light set of bytes of which every text has one, early enough to leave an anchor of three bytes (greedy set cover)."""
    choices = {text: set(text[: 1 - SHORTEST]) for text in texts}
    left, chosen = set(texts), set[int]()
    while left:
        gain = Counter(byte for text in left for byte in choices[text])
        best = min(gain, key=lambda byte: (weights[byte] / gain[byte], byte))
        chosen.add(best)
        left = {text for text in left if best not in choices[text]}
    for byte in sorted(chosen, key=lambda byte: -weights[byte]):
        if all(choices[text] & (chosen - {byte}) for text in texts):
            chosen.discard(byte)
    return chosen


def _anchor(text: bytes, first: set[int], weights: list[int]) -> int:
    """Return where in the text the rarest of the chosen bytes is."""
    return text.index(min(set(text[: 1 - SHORTEST]) & first, key=lambda byte: (weights[byte], byte)))


def _alternation(anchors: Mapping[bytes, list[tuple[bytes, int]]]) -> bytes:
    """Return a pattern for any of the texts, found by their anchors; those that begin alike share the beginning."""
    root: dict[Any, Any] = {}
    for anchor, texts in anchors.items():
        node = root
        for byte in anchor:
            node = node.setdefault(byte, {})
        node[_ENDS] = [b"(?<=" + re.escape(text) + b")" if begin else b"" for text, begin in texts]
    return _branches(root)


def _branches(node: dict[Any, Any]) -> bytes:
    """Return the pattern for what may follow; where a text ends, look back whether its beginning is there, too."""
    parts = list(node.get(_ENDS, ()))
    if b"" in parts:  # what goes on from here is found with it
        return b""
    parts += [re.escape(bytes([byte])) + _branches(child) for byte, child in node.items() if byte is not _ENDS]
    return bytes(parts[0]) if len(parts) == 1 else b"(?:" + b"|".join(parts) + b")"

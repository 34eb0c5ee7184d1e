"""Text that is safe to show, whoever wrote it; words that match patterns; and figures as people read them."""

from __future__ import annotations

import html
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from itertools import accumulate

MOST = 8000
"""Characters that are shown of one text, escapes counted as they show; all of it is in the record."""
_NOTE = len(" [cut: 10 more characters]")
"""What is longer by no more than this is shown whole: to say that it is cut takes as much."""
_MOST_MARKS = 8
"""Marks that one letter may carry: more pile up over the lines above and below."""
_KEPT = "\t\n"
_BLANKS = "\u115f\u1160\u3164\uffa0\u2800"  # letters that show nothing
# Controls; what only formats, such as marks of direction (U+202E) and joiners; surrogates; private use; separators of lines.
_UNSEEN = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")


def plain(text: str, most: int = MOST, lines: bool = True) -> str:
    r"""Return text that shows as what it is: no escape sequence, nothing invisible, nothing that turns direction, and not endless.

    What cannot be shown is written as its escape, such as `\x1b` or `\u202e`. `lines`: whether it may have several.
    """
    first = text[: most + _NOTE]
    pieces: Sequence[str] = first if first.isascii() and first.isprintable() else _shown(first, _KEPT if lines else "")
    ends = range(1, len(first) + 1) if pieces is first else list(accumulate(map(len, pieces)))
    if len(first) == len(text) and (not ends or ends[-1] <= most + _NOTE):
        return "".join(pieces)
    fitting = bisect_right(ends, most)
    return f"{''.join(pieces[:fitting])} [cut: {len(text) - fitting} more characters]"


def is_visible(text: str) -> bool:
    """Whether a text has a character that shows: blanks, marks without a letter and what only formats say nothing."""
    return any(
        not (character.isspace() or unicodedata.combining(character) or _hidden(character)) for character in text
    )


def indented(text: str) -> str:
    """Return plain text of which each further line is set in: none of them can pass for a line of ours, such as a verdict."""
    return re.sub(r"\n(?=\S)", "\n    ", plain(text))


def in_html(text: str) -> str:
    """Return text as HTML and SVG hold it, in quotes too: it is never markup."""
    return html.escape(plain(text), quote=True)


def in_markdown(text: str) -> str:
    """Return text as one line of Markdown: never markup, never a cell's end, and nobody is called by it."""
    shown = html.escape(plain(" ".join(text.split())), quote=False)
    for character in "\\`*_{}[]|#~":
        shown = shown.replace(character, f"\\{character}")
    return shown.replace("@", "@\u200b")


def first_line(text: object, most: int = 300) -> str:
    """Return the first line that says something, such as an error's; what a C++ trace adds behind it is left out."""
    line = next((line.strip() for line in str(text).splitlines() if line.strip()), "no message")
    return line if len(line) <= most else f"{line[: most - 3]}..."


def error_line(error: BaseException, most: int = 300) -> str:
    return f"{type(error).__name__}: {first_line(error, most)}"


def tail(text: str, lines: int = 1, most: int = 300) -> str:
    """Return the last lines of what a process printed in one line: that is where it says why it ended."""
    words = [line.strip() for line in text.splitlines() if line.strip()]
    return " / ".join(words[-lines:])[:most] or "it printed nothing"


def counted(number: int, what: str) -> str:
    """Return a number of things: `1 night`, `2 nights`."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def first_few(words: Sequence[str], most: int = 4, between: str = ", ") -> str:
    """Return the first of some words, and how many more there are: `a, b and 3 more`."""
    more = f" and {len(words) - most} more" if len(words) > most else ""
    return f"{between.join(words[:most])}{more}"


def matches(word: str, patterns: Iterable[str]) -> bool:
    """Whether a word is one of the patterns itself, which may hold brackets, or matches one of them (fnmatch, with case)."""
    return any(word == pattern or fnmatchcase(word, pattern) for pattern in patterns)


OF_SUBJECT = "*::*[[]"
"""How the pattern begins that stands for a benchmark's subject; in this form nobody types it."""


def as_typed(pattern: str) -> str:
    """Return a pattern as somebody typed it: of a benchmark's subject only the name, and brackets as they are."""
    if pattern.startswith(OF_SUBJECT) and pattern.endswith("]"):
        pattern = pattern.removeprefix(OF_SUBJECT).removesuffix("]")
    return pattern.replace("[[]", "[")


def _shown(text: str, kept: str) -> list[str]:
    words, marks = [], 0
    for character in text:
        marks = marks + 1 if unicodedata.combining(character) else 0
        hidden = marks > _MOST_MARKS or _hidden(character)
        words.append(_escaped(character) if hidden and character not in kept else character)
    return words


def _hidden(character: str) -> bool:
    return character in _BLANKS or unicodedata.category(character) in _UNSEEN


def _escaped(character: str) -> str:
    number = ord(character)
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


RATES = {
    "s/sample": "samples/s", "s/token": "tokens/s", "s/iteration": "it/s", "s/GB": "GB/s",
    "s/GB over a link": "GB/s busbw", "s/TFLOP": "TFLOP/s",
}  # fmt: skip
"""The rate that a stored unit is shown as; a unit that is not listed (plain seconds) is shown as it is."""

_PARTS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))


def rate(value: float, unit: str) -> tuple[float, str]:
    """Return the rate and its unit for stored seconds per unit of work; what has no rate comes back unchanged."""
    return (1 / value, RATES[unit]) if unit in RATES and value else (value, unit)


def shown(value: float, unit: str) -> str:
    """Return a figure as people read it: a rate where there is one, seconds in a fitting part of a second where not."""
    figure, word = rate(value, unit)
    if word == "s":
        factor, word = next((part for part in _PARTS if abs(figure) >= part[0]), _PARTS[-1])
        figure /= factor
    return f"{figure:,.2f} {word}" if abs(figure) >= 1 or not figure else f"{figure:.3g} {word}"

"""Refusals: one sentence that names the thing and the remedy, with its exit code, and the known name that a typo meant."""

from __future__ import annotations

import difflib
import operator
import re
import sys
from collections.abc import Callable, Iterable
from functools import cache, reduce


class Refusal(Exception):  # noqa: N818 - a refusal is not always an error of ours
    """Something outside our code is wrong; the message is the whole report and no traceback is shown."""

    exit_code = 2


class StackUnavailableError(Refusal):
    """The host lacks what the stack needs (device, driver, interpreter)."""

    exit_code = 3


class EnvironmentMismatchError(Refusal):
    """What is installed is not what the lock says, or torch has another flavour."""

    exit_code = 4


def answer(tell: Callable[[], object]) -> int:
    """Print what a process of ours was started to tell, and return its exit code; a refusal goes to stderr."""
    try:
        print(tell())  # noqa: T201
    except Refusal as refusal:
        print(refusal, file=sys.stderr)  # noqa: T201
        return refusal.exit_code
    return 0


_FEW_SLIPS = 2


def suggestion(word: str, known: Iterable[str]) -> str:
    """Return ` (did you mean 'x'?)` for the nearest known word, else an empty string."""
    by_folded, typed = {name.casefold(): name for name in known}, word.casefold()
    alike = difflib.get_close_matches(typed, by_folded, n=max(1, len(by_folded)), cutoff=0.5)
    # What is alike is ranked by slips: `cup` shares as many letters with `dcu`, but is `cpu` with two of them swapped.
    near = min(alike, key=lambda name: distance(typed, name, _FEW_SLIPS), default="")
    return f" (did you mean '{by_folded[near]}'?)" if near else ""


# A short name has many neighbours: HIP_A and HIP_B are two variables, not one misspelt.
_LETTERS_PER_SLIP, _SHORT_WORD = 5, 3


def nearest(name: str, known: Iterable[str], most: int) -> str | None:
    """Return the known name that is at most `most` slips away, or that has the same words in another order; None without one.

    Case does not count. One slip is allowed for every five letters; names that differ in digits or in a short word are two names.
    """
    best: tuple[int, str] | None = None
    word, letters = name.upper(), _letters(name.upper())
    for other in known:
        limit = min(most, len(other) // _LETTERS_PER_SLIP - 1)
        if (letters ^ _letters(other)).bit_count() > 2 * limit:
            continue
        far = 0 if sorted(word.split("_")) == sorted(other.split("_")) else distance(word, other, limit)
        if far <= limit and (best is None or far < best[0]) and (far == 0 or not _siblings(word, other)):
            best = (far, other)
    return best[1] if best else None


def distance(word: str, other: str, limit: int) -> int:
    """Return the number of slips between two words (optimal string alignment), or `limit` + 1 if there are more."""
    if abs(len(word) - len(other)) > limit:
        return limit + 1
    before, row = list[int](), list(range(len(other) + 1))
    for down, left in enumerate(word, 1):
        earlier, before, row = before, row, [down]
        for across, top in enumerate(other, 1):
            best = min(before[across] + 1, row[-1] + 1, before[across - 1] + (left != top))
            if down > 1 and across > 1 and left == other[across - 2] and word[down - 2] == top:
                best = min(best, earlier[across - 2] + 1)  # a swap of neighbours
            row.append(best)
        if min(row) > limit:
            return limit + 1
    return min(row[-1], limit + 1)


@cache
def _letters(word: str) -> int:
    """The set of a word's characters as bits; one slip changes at most two of them."""
    return reduce(operator.or_, (1 << ord(char) % 128 for char in word), 0)


def _siblings(word: str, other: str) -> bool:
    """Whether the names differ in digits alone, or in a word so short that it is another word (NCCL_IB_SL, NCCL_IB_TC)."""
    if re.sub(r"\d", "", word) == re.sub(r"\d", "", other):
        return word != other
    pairs = list(zip(word.split("_"), other.split("_"), strict=False))
    return any(
        left != right and sorted(left) != sorted(right) and len(left) == len(right) <= _SHORT_WORD
        for left, right in pairs
    )

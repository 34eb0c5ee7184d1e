"""Refusals: one sentence that names the thing and the remedy, with the exit code of the contracts."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class Refusal(Exception):  # noqa: N818 - a refusal is not always an error of ours
    """Something outside our code is wrong; the message is the whole report and no traceback is shown."""

    exit_code = 2


class StackUnavailableError(Refusal):
    """The host lacks what the stack needs (device, driver, interpreter)."""

    exit_code = 3


class EnvironmentMismatchError(Refusal):
    """What is installed is not what the lock says, or torch has another flavour."""

    exit_code = 4


def suggestion(word: str, known: Iterable[str]) -> str:
    """Return ` (did you mean 'x'?)` for the nearest known word, else an empty string."""
    by_folded = {name.casefold(): name for name in known}
    near = [by_folded[name] for name in difflib.get_close_matches(word.casefold(), by_folded, n=1, cutoff=0.5)]
    return f" (did you mean '{near[0]}'?)" if near else ""

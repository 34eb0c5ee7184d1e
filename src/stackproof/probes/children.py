"""Asks a process of its own: it runs one function of ours, which prints its answer as JSON on the last line."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from stackproof.base import processes
from stackproof.base.files import parse_json
from stackproof.base.text import tail
from stackproof.record.checks import CheckHung, require


def ask(
    function: str, *words: str, what: str, seconds: float, environment: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Return the answer of `MODULE:FUNCTION`, run with these words as its arguments; `what` is what a failure calls the process.

    Raises:
        CheckFailed: it failed, or printed nothing.
        CheckHung: it did not end in time.
    """
    module, _, name = function.partition(":")
    command = [sys.executable, "-c", f"from {module} import {name}; {name}()", *words]
    ended = processes.run(command, seconds=seconds, environment=environment)
    if ended.timed_out:
        raise CheckHung(f"{what} did not end within {seconds:.0f} s")
    lines = ended.output.strip().splitlines()
    why = tail(ended.errors) if ended.errors.strip() else processes.describe_exit(ended.code)
    require(ended.ok and bool(lines), f"{what} failed: {why}")
    answer: dict[str, Any] = parse_json(lines[-1], what)
    return answer

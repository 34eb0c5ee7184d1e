"""Launches a command as it was typed, waits for it until its deadline, and says how it ended; what it printed is in its log."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from stackproof.base import kept_output, processes
from stackproof.base.errors import Refusal
from stackproof.base.text import plain
from stackproof.jobs.metrics import MOST_READ

_POLL_S = 0.002
_TRACE_S = 2.0
"""At its deadline Python writes down where it is; that is worth waiting for."""
_LINES, _WIDTH = 3, 400
FAULTHANDLER = "PYTHONFAULTHANDLER"


@dataclass(frozen=True)
class CommandEnd:
    """How a command ended: its status as `subprocess` tells it, its seconds, and the peak of resident memory of one process in bytes."""

    status: int
    seconds: float
    peak: int
    hung: bool

    @property
    def words(self) -> str:
        """Say how it ended."""
        return (
            f"had not ended after {self.seconds:.0f} s"
            if self.hung
            else f"ended with {processes.describe_exit(self.status)}"
        )


def run(words: Sequence[str], folder: Path, environment: Mapping[str, str], log: Path, deadline_s: float) -> CommandEnd:
    """Run a command in a session of its own and end all that it leaves behind.

    Raises:
        Refusal: it cannot be started, because there is no such program or folder.
    """
    mark = processes.new_mark()
    log.parent.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    with kept_output.kept(log, MOST_READ) as output:
        try:
            started = processes.start(list(words), output, {FAULTHANDLER: "1", **environment}, mark, cwd=str(folder))
        except OSError as error:
            raise cannot_start(words[0], folder, error) from error
        try:
            status, peak = _wait(started, began + deadline_s)
            seconds = time.monotonic() - began
            if status is None:
                with suppress(ProcessLookupError):
                    os.killpg(started.pid, signal.SIGABRT)
                _wait(started, time.monotonic() + _TRACE_S)
        finally:
            processes.end_tree(mark, started)
    return CommandEnd(-signal.SIGABRT if status is None else status, seconds, peak, hung=status is None)


def cannot_start(program: str, folder: Path, error: OSError) -> Refusal:
    """Return the sentence for a command that does not even start."""
    if not folder.is_dir():
        return Refusal(f"{folder}: there is no such folder to run '{plain(program, 200)}' in")
    return Refusal(
        f"'{plain(program, 200)}' cannot be started in {folder} ({error.strerror}); name a program of PATH, or by its path"
    )


def _wait(started: subprocess.Popen[bytes], until: float) -> tuple[int | None, int]:
    """Return the status, None at the deadline, and the peak of memory, which only the kernel's `wait4` tells."""
    while True:
        found, status, usage = os.wait4(started.pid, os.WNOHANG)
        if found:
            started.returncode = os.waitstatus_to_exitcode(status)
            return started.returncode, usage.ru_maxrss * 1024
        if time.monotonic() > until:
            return None, 0
        time.sleep(_POLL_S)


def last_words(log: Path) -> str:
    """Return the end of what a command printed, cleaned, in one line; Python's place in it first where it was ended there."""
    lines = [piece.strip() for line in processes.last_lines(log, 60, of_bytes=65536) for piece in line.split("\r")]
    lines = [line for line in lines if line]
    if trace := processes.traced(lines):
        at, frames = trace
        return plain(" / ".join((*frames[:1], *lines[max(0, at - 1) : at])), _WIDTH, lines=False)
    return plain(" / ".join(lines[-_LINES:]), _WIDTH, lines=False) or "nothing"

"""A command as it was typed: split into words, refused where only a shell could run it, shown without its secrets, and run to its end.

It is waited for until its deadline; what it printed is in its log.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from stackproof.base import files, processes
from stackproof.base.errors import Refusal
from stackproof.base.text import plain
from stackproof.jobs.metrics import MOST_READ

_PYTHON = re.compile(r"python(\d+(\.\d+)?)?$")
_WITH_VALUE = ("-W", "-X", "--check-hash-based-pycs")
_BUILTINS = ("cd", "source", ".", "export", "ulimit", "alias", "set", "eval", "exec")
_SECRET = re.compile(r"(?i)(token|secret|passw|api[-_]?key|credential)")
_QUOTED = re.compile(r"""\\(?:.|\Z)|'[^']*(?:'|\Z)|"(?:\\(?:.|\Z)|[^"\\])*(?:"|\Z)""", re.DOTALL)
_IN_DOUBLE = re.compile(r"\\(?:.|\Z)|([`$])", re.DOTALL)
"""What a shell acts on inside double quotes too, unless it is escaped."""


def split_command(command: str) -> list[str]:
    """Return the words of a command; it is run as it is, never by a shell.

    Raises:
        Refusal: it is empty, a quote is open, or it needs a shell.
    """
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise Refusal(f"--command cannot be split into words ({error}); close the quotes") from error
    if not words:
        raise Refusal("--command is empty; write what is to be run, such as --command 'python train.py --steps 50'")
    name, equals, _ = words[0].partition("=")
    builtin = f"{name}{equals}" if (equals and name.isidentifier()) or words[0] in _BUILTINS else ""
    if shell_only := needs_shell(command) or builtin:
        raise Refusal(
            f"--command has '{shell_only}', which only a shell acts on, and none is used; quote it, or write --command \"sh -c '...'\" "
            "(a variable also as 'env NAME=VALUE ...', a folder as --base-dir and --head-dir)"
        )
    return words


def needs_shell(command: str) -> str:
    """Return the first character that a shell would act on; nothing where there is none."""
    bare = _QUOTED.sub(lambda part: "".join(_IN_DOUBLE.findall(part[0])) if part[0][0] == '"' else "", command)
    match = re.search(r"[|&;<>*`$]", bare)
    return match[0] if match else ""


def shown(words: Sequence[str]) -> str:
    """Return a command as one line for a record: what is called a token, password or key is left out."""
    shown, hide = [], False
    for word in words:
        name, equals, _ = word.partition("=")
        secret = bool(_SECRET.search(name))
        shown.append("***" if hide else f"{name}=***" if equals and secret else word)
        hide = secret and not equals and word.startswith("-")
    return shlex.join(shown)


def inside(words: Sequence[str], at: int, to: Path, *flags: str) -> list[str]:
    """Return the command that runs Python's file, which begins at a word, inside our wrapper, which writes what it counts to `to`."""
    return [*words[:at], str(Path(__file__).with_name("inside.py")), "--to", str(to), *flags, "--", *words[at:]]


def python_at(words: Sequence[str]) -> int | None:
    """Return at which word Python's file or module begins; None for what is not Python, or is `-c` or standard input."""
    at = next((number for number, word in enumerate(words) if _PYTHON.match(Path(word).name)), None)
    if at is None:
        return None
    here = at + 1
    while here < len(words) and words[here].startswith("-") and words[here] != "-m":
        if words[here] in ("-c", "-"):
            return None
        here += 2 if words[here] in _WITH_VALUE else 1
    rest = list(words[here:])
    return here if len(rest) > (rest[:1] == ["-m"]) else None


_POLL_S = 0.002
_TRACE_S = 2.0
"""At its deadline Python writes down where it is; that is worth waiting for."""
_WIDTH = 400
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
        return (
            f"had not ended after {self.seconds:.0f} s"
            if self.hung
            else f"ended with {processes.describe_exit(self.status)}"
        )


def run(
    words: Sequence[str], folder: Path, environment: Mapping[str, str], log: Path, deadline_s: float, unset: Collection[str] = ()
) -> CommandEnd:  # fmt: skip
    """Run a command in a session of its own and end all that it leaves behind; `unset`: variables that it does not inherit.

    Raises:
        Refusal: it cannot be started, because there is no such program or folder.
    """
    mark = processes.new_mark()
    log.parent.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    with files.kept_output(log, MOST_READ) as output:
        try:
            started = processes.start(
                list(words), output, {FAULTHANDLER: "1", **environment}, mark, cwd=str(folder), unset=unset
            )
        except OSError as error:
            program = plain(words[0], 200)
            if not folder.is_dir():
                raise Refusal(f"{folder}: there is no such folder to run '{program}' in") from error
            raise Refusal(
                f"'{program}' cannot be started in {folder} {processes.why_not_started(words[0], error, folder)}"
            ) from error
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


def _wait(started: processes.Process, until: float) -> tuple[int | None, int]:
    """Return the status, None at the deadline, and the peak of memory, which only the kernel's `wait4` tells."""
    while True:
        process, status, usage = os.wait4(started.pid, os.WNOHANG)
        if process:
            started.returncode = os.waitstatus_to_exitcode(status)
            return started.returncode, usage.ru_maxrss * 1024
        if time.monotonic() > until:
            return None, 0
        time.sleep(_POLL_S)


def last_words(log: Path) -> str:
    """Return the end of what a command printed, cleaned, in one line; of one that was ended in Python its place in it."""
    return plain(processes.last_words(log), _WIDTH, lines=False)

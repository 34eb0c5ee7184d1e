"""What runs on a side as a program, a check of a suite or a command of one's own: its words, where, with which variables, and its end.

A run of a command means what `git bisect run` takes it for: 0 is good, 125 says nothing, any other code is bad.
"""

from __future__ import annotations

import errno
import os
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from stackproof.api.base import Refusal, files, in_shell, plain, processes
from stackproof.api.gate import SideSpec
from stackproof.api.record import NOT_EXECUTED, Verdict, reading

_WIDTH = 400
SKIPS = 125
"""The exit code with which a command says that a candidate cannot be tested."""
NOTHING, GOOD, REFUSED = "nothing", "good", "refused"
_BAD_WORDS = {Verdict.FAILED: "failed", Verdict.CRASHED: "crashed", Verdict.HUNG: "hung"}
WORDS = (NOTHING, GOOD, REFUSED, *_BAD_WORDS.values())


@dataclass(frozen=True)
class ProgramEnd:
    """How a run ended: in one word, and in a sentence."""

    word: str
    reason: str


class Attempt(Protocol):
    """A program that tells good from bad."""

    def __call__(self, side: SideSpec, folder: Path) -> ProgramEnd:
        """Run it on a side, with what it writes in a folder."""

    def words(self, side: SideSpec) -> list[str]:
        """Return what is started, for whoever wants to see it again."""


@dataclass(frozen=True)
class OwnCommand:
    """A command of one's own, where the programs of the side's environment come first; `seconds`: when it hangs."""

    given: Sequence[str]
    seconds: float

    def words(self, side: SideSpec) -> list[str]:  # noqa: ARG002 - the same on every side
        """Return the command as it was typed."""
        return list(self.given)

    def __call__(self, side: SideSpec, folder: Path) -> ProgramEnd:
        """Run it in the side's checkout, or where one stands."""
        status = _run(self.words(side), side, folder, self.seconds, side.folder or Path.cwd())
        lines = (plain(line, _WIDTH, lines=False) for line in processes.last_lines(folder / "output.log", 2))
        said = f"it printed last: {' / '.join(lines) or 'nothing'}"
        if status is None:
            return ProgramEnd("hung", f"did not end within {self.seconds:.0f} s; {said}")
        reason = f"ended with {processes.describe_exit(status)}; {said}"
        if status in (0, SKIPS):
            return ProgramEnd(NOTHING if status else GOOD, reason)
        return ProgramEnd("crashed" if status < 0 else "failed", reason)


@dataclass(frozen=True)
class SuiteCheck:
    """One check of a suite, such as `smoke/workloads::float32[yolov8n]`."""

    check: str
    seconds: float
    flags: Sequence[str] = ()

    def words(self, side: SideSpec) -> list[str]:
        """Return the verb that runs nothing else."""
        verb = "rehearse" if side.rehearsed else "verify"
        words = [str(side.python), "-m", "stackproof", verb, "--stack", side.stack]
        return [*words, "--suite", self.check.partition("/")[0], "--only", self.check, *self.flags]

    def __call__(self, side: SideSpec, folder: Path) -> ProgramEnd:
        """Run it, and read its record."""
        told = folder / "record.json"
        kept = ["--json", str(told), "--results", str(folder / "results")]
        status = _run([*self.words(side), *kept], side, folder, self.seconds, folder)
        if status is None:
            return ProgramEnd("hung", f"'{self.check}' did not end within {self.seconds:.0f} s")
        if status == Refusal.exit_code and not told.exists():
            return ProgramEnd(REFUSED, " ".join(processes.last_lines(folder / "output.log", 1)))
        return _of_record(self.check, told, folder)


def _of_record(check: str, told: Path, folder: Path) -> ProgramEnd:
    try:
        found = next((one for one in reading.read(told).checks if one.id == check), None)
    except Refusal:
        said = " / ".join(processes.last_lines(folder / "output.log", 2))
        return ProgramEnd(NOTHING, f"'{check}' did not run: {plain(said, lines=False)}")
    if found is None or found.verdict in NOT_EXECUTED:
        why = found.reason if found else "its record has no such check"
        return ProgramEnd(NOTHING, f"'{check}' did not run: {why}")
    if found.verdict in _BAD_WORDS:
        return ProgramEnd(_BAD_WORDS[found.verdict], found.reason)
    good = found.verdict in (Verdict.PASSED, Verdict.KNOWN_ISSUE)
    return ProgramEnd(GOOD if good else NOTHING, found.reason)


def _pythonpath(side: SideSpec) -> str:
    return os.pathsep.join(filter(None, (str(side.source), side.environment.get("PYTHONPATH", ""))))


def _run(words: list[str], side: SideSpec, folder: Path, seconds: float, where: Path) -> int | None:
    """Run a program of a side with its output in a file; return its status, or None where it had to be ended."""
    folder.mkdir(parents=True, exist_ok=True)
    path = os.pathsep.join((str(side.python.parent), os.environ.get("PATH", os.defpath)))
    environment, mark = {**side.environment, "PATH": path, "PYTHONPATH": _pythonpath(side)}, processes.new_mark()
    with files.kept_output(folder / "output.log") as output:
        try:
            child = processes.start(words, output, environment, mark, cwd=str(where), unset=side.unset)
        except OSError as error:
            raise Refusal(f"'{words[0]}' cannot be started ({error.strerror}); {_remedy(error)}") from error
        try:
            status: int | None = child.wait(seconds)
        except subprocess.TimeoutExpired:
            status = None
        finally:
            processes.end_tree(mark, child)
    if status != 0:
        require_room(folder, where, Path(tempfile.gettempdir()))
    return status


def _remedy(error: OSError) -> str:
    """Say what to do about a program that does not start: it may be there, and this host have nothing left for it."""
    spent = error.errno in (errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM)
    return "give it more of that (see `ulimit -a`)" if spent else "name a program that is there"


def require_room(*folders: Path) -> None:
    """Refuse to judge what failed while a disk is full that it may have needed: that says nothing of a side."""
    for folder in folders:
        if files.is_full(folder):
            raise Refusal(
                f"{folder}: there is no room, and what fails then says nothing of a side; make room, then run it again"
            )


def typed(words: Sequence[str], side: SideSpec) -> str:
    """Return what runs the same on a side again when it is pasted to a shell: its folder, its variables and its programs."""
    unset = [word for name in side.unset for word in ("-u", name)]
    variables = {**side.environment, "PYTHONPATH": _pythonpath(side)}
    told = in_shell(["env", *unset, *(f"{name}={value}" for name, value in sorted(variables.items()))])
    path = f'PATH={in_shell([str(side.python.parent)])}:"$PATH"'
    return f"{in_shell(['cd', str(side.folder or Path.cwd())])} && {told} {path} {in_shell(words)}"

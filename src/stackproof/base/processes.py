"""Process trees that end: every process we start carries a mark, dies with its parent, and can be found by the mark.

`HostLoad` tells from the same tables how busy others kept the host.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

Process = subprocess.Popen[bytes]
"""A program that `start` has started."""
MARK = "STACKPROOF_RUN"
ANSWERS = "STACKPROOF_ANSWERS"
"""Exit codes with which a session of nox ends well; of the verb that it calls, and of nothing that this starts."""
ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""What asks a run to end: Ctrl-C, a scheduler, a terminal that was closed."""
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36  # prctl(2)
_ENV_END = 51 - 3  # of the fields of /proc/PID/stat after the name
_NO_QUOTA = float(1 << 20)
ABSENT_S = 5.0
"""Who comes so much later than it meant to was itself stopped, such as by Ctrl-Z, and blames nobody for being late."""
_EXEC_S = 10.0  # execve takes less than a millisecond of processor time


def new_mark() -> str:
    """Return a mark for one run; children inherit it through the environment, however they are started."""
    return uuid.uuid4().hex


def start(
    command: list[str],
    output: IO[bytes],
    environment: Mapping[str, str],
    mark: str,
    pass_fds: Sequence[int] = (),
    cwd: str | None = None,
    unset: Collection[str] = (),
    *,
    asked: bool = False,
) -> Process:
    """Start a command in a session of its own, so that a Ctrl-C reaches us and not it, with its output in a file.

    `pass_fds`: open files that it inherits besides its output, such as an MPI launcher's; `unset`: variables that it does not inherit;
    `asked`: whether its stdin is a pipe of ours.
    """
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE if asked else subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        env=_marked(environment, mark, unset),
        start_new_session=True,
        pass_fds=pass_fds,
        cwd=cwd,
    )


def _marked(environment: Mapping[str, str], mark: str, unset: Collection[str]) -> dict[str, str]:
    """Return our own environment with these variables laid over it and the mark; a run inside a run is also found by the outer mark."""
    inherited = {name: value for name, value in os.environ.items() if name not in unset and name != ANSWERS}
    return {**inherited, **environment, MARK: f"{os.environ.get(MARK, '')}/{mark}".lstrip("/")}


NOT_EXECUTABLE, NOT_FOUND = 126, 127
"""What a shell, `run` and `watch` say of a program that could not be started."""


def why_not_started(program: str, error: OSError, folder: Path = Path()) -> str:
    """Return why a program cannot be started that a user typed, and what to type instead."""
    path, remedy = folder / program, "name a program of PATH, or by its path"
    if isinstance(error, PermissionError) and "/" in program and path.is_file() and not os.access(path, os.X_OK):
        name = shlex.quote(program)
        remedy = f"`chmod +x {name}`, or start it by its interpreter, such as `{'python' if path.suffix == '.py' else 'sh'} {name}`"
    return f"({error.strerror}); {remedy}"


@dataclass(frozen=True)
class Ended:
    """How a short-lived program ended; of one that could not be started `code` is as a shell has it, and `errors` says why.

    `code`: its exit code, or the negative number of a signal; `output`, `errors`: all that it printed on stdout and stderr.
    """

    code: int
    output: str = ""
    errors: str = ""
    timed_out: bool = False

    @property
    def started(self) -> bool:
        return self.code not in (NOT_EXECUTABLE, NOT_FOUND)

    @property
    def ok(self) -> bool:
        """Whether it ended by itself with exit code 0."""
        return self.code == 0 and not self.timed_out


def run(
    command: Sequence[str | Path],
    *,
    seconds: float,
    cwd: str | Path | None = None,
    environment: Mapping[str, str] | None = None,
    unset: Collection[str] = (),
    stdin: bytes = b"",
    decoding: str = "replace",
    captured: bool = True,
    pass_fds: Sequence[int] = (),
) -> Ended:
    """Run a program to its end, or end it with all that it started after `seconds`; nothing that it does raises an error here.

    `environment`: variables laid over our own; `unset`: variables that it does not inherit; `decoding`: what becomes of bytes
    that are no UTF-8; `captured`: whether its output is returned, else it goes to the terminal; `pass_fds`: open files that it inherits.
    """
    mark, pipe = new_mark(), subprocess.PIPE if captured else None
    try:
        process = subprocess.Popen(
            list(map(str, command)),
            stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
            stdout=pipe,
            stderr=pipe,
            env=_marked(environment or {}, mark, unset),
            start_new_session=captured,  # a program on the terminal needs the terminal's own session
            pass_fds=pass_fds,
            cwd=cwd,
        )
    except OSError as error:
        why = f"{error.filename or command[0]}: cannot be started ({error.strerror})"
        return Ended(NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE, errors=why)
    try:
        printed = _printed(process, stdin, seconds)
        timed_out = printed is None
        if printed is None:
            end_tree(mark, process)
            printed = _rest(process)
    except BaseException:
        end_tree(mark, process)
        raise
    output, errors = ((stream or b"").decode("utf-8", errors=decoding) for stream in printed)
    return Ended(process.returncode or 0, output, errors, timed_out)


def _printed(process: Process, stdin: bytes, seconds: float) -> tuple[bytes, bytes] | None:
    """Return what a program printed, or None where it did not end in time; time in which we were stopped as well does not count."""
    given = stdin or None
    while True:
        until = time.monotonic() + seconds
        try:
            return process.communicate(given, None if seconds == math.inf else seconds)
        except subprocess.TimeoutExpired:
            if time.monotonic() < until + ABSENT_S:
                return None
        given = None  # the rest of it is sent still


def _rest(process: Process) -> tuple[bytes, bytes]:
    """Return what a program had printed before it was ended; who took the mark off and holds its output open is not waited for."""
    try:
        return process.communicate(timeout=1.0)
    except subprocess.TimeoutExpired as late:
        return late.stdout or b"", late.stderr or b""


def die_with_parent() -> None:
    """Ask the kernel to kill this process when its parent ends, even if that is by SIGKILL; a no-op off Linux."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() == 1 and MARK in os.environ:  # the parent ended before the kernel was asked
            os._exit(1)


def with_mark(mark: str, table: Path = Path("/proc")) -> list[int]:
    """Return the ids of living processes that carry the mark, this one excepted; `table`: the kernel's, proc(5)."""
    numbers = []
    for folder in table.glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if int(folder.name) != os.getpid() and _carries(folder, mark):
                numbers.append(int(folder.name))
    return numbers


def _carries(process: Path, mark: str) -> bool:
    prefix = f"{MARK}=".encode()
    marks = [entry.removeprefix(prefix) for entry in _environ(process).split(b"\0") if entry.startswith(prefix)]
    return any(mark.encode() in entry.split(b"/") for entry in marks)


def _environ(process: Path) -> bytes:
    """Return the environment that a process was started with; while execve is under way there is none to read, and it is waited for."""
    until, environ = time.monotonic() + _EXEC_S, process / "environ"
    while not (read := environ.read_bytes()) and _execs(process) and time.monotonic() < until:
        time.sleep(0.001)
    return read or environ.read_bytes()  # it may have come while we asked


def _execs(process: Path) -> bool:
    """Whether a process has a program and no place for its environment yet (proc_pid_stat(5), env_end)."""
    (process / "exe").readlink()
    fields = (process / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    return fields[_ENV_END] == "0"


def end_tree(mark: str, root: Process | None = None, within_s: float = 5.0) -> None:
    """Kill every process that carries the mark and wait until they are gone."""
    until = time.monotonic() + within_s
    if root is not None and root.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(root.pid, signal.SIGKILL)
    while (living := with_mark(mark)) and time.monotonic() < until:
        for process in living:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        time.sleep(0.02)
    if root is not None:
        with contextlib.suppress(
            subprocess.TimeoutExpired
        ):  # a process that hangs in a driver cannot be ended by anybody
            root.wait(within_s)


@contextlib.contextmanager
def adopting() -> Iterator[None]:
    """Become the parent of every process that loses its own inside the block, and end them behind it: these may carry no mark.

    Off Linux nobody can.
    """
    if sys.platform != "linux":
        yield
        return
    prctl, before = ctypes.CDLL(None).prctl, _sent_away()
    prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        _end_adopted(before)
        prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def _sent_away() -> set[int]:
    """Return the children of this process that are of another session, as all are that `start` started, and what these leave."""
    own, away = os.getsid(0), set[int]()
    for pid in (pid for pid, row in process_table().items() if row.parent == os.getpid()):
        with contextlib.suppress(ProcessLookupError):  # another thread has reaped it meanwhile
            away |= {pid} if os.getsid(pid) != own else set()
    return away


def _end_adopted(before: Collection[int], within_s: float = 5.0) -> None:
    """Kill the children that were not there before, and what these leave, and wait until they are gone."""
    until = time.monotonic() + within_s
    while (living := _sent_away() - set(before)) and time.monotonic() < until:
        for process in living:
            with contextlib.suppress(ProcessLookupError, ChildProcessError):
                os.kill(process, signal.SIGKILL)
                os.waitpid(process, os.WNOHANG)
        time.sleep(0.02)


@contextlib.contextmanager
def handling(numbers: Iterable[int], handler: Any) -> Iterator[None]:
    """Let signals be handled so inside the block, and as they were behind it."""
    kept = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, before in kept.items():
            signal.signal(number, before)


@contextlib.contextmanager
def signals_ignored() -> Iterator[None]:
    """Let no SIGTERM, SIGHUP or Ctrl-C break off what must be finished, such as the record of a run that failed.

    A launcher that has lost one rank sends SIGTERM to all others, and SIGKILL half a minute later.
    """
    main = threading.current_thread() is threading.main_thread()
    with handling(ENDINGS if main else (), signal.SIG_IGN):
        yield


def describe_exit(status: int) -> str:
    """Say how a process ended: a signal by its name, else its exit code."""
    if status >= 0:
        return f"exit code {status}"
    try:
        return f"signal {signal.Signals(-status).name}"
    except ValueError:
        return f"signal {-status}"


def last_lines(path: Path, count: int = 5, of_bytes: int = 16384) -> list[str]:
    """Return the last lines of a log that may be huge and may hold any bytes."""
    try:
        with path.open("rb") as stream:
            stream.seek(max(0, path.stat().st_size - of_bytes))
            text = stream.read().decode("utf-8", errors="replace")
    except OSError:
        return []
    return [line.rstrip() for line in text.splitlines() if line.strip()][-count:]


_FATAL = "Fatal Python error"


def last_words(path: Path, count: int = 3) -> str:
    """Return the end of a log in one line; of a crash that Python wrote down, what it is and where, not its list of modules."""
    lines = last_lines(path, 200, of_bytes=65536)
    if (trace := crash_trace(lines)) is None:
        return " / ".join(lines[-count:]) or "nothing"
    at, frames = trace
    text = lines[at][lines[at].index(_FATAL) :]  # behind what stood in its line, such as pytest's dots
    return " / ".join(dict.fromkeys([*lines[max(0, at - 1) : at], text, *frames[:1], *own_frame(frames)]))


def crash_trace(lines: Sequence[str]) -> tuple[int, list[str]] | None:
    """Return at which line Python begins to tell of its own crash, and the frames of the thread, the innermost first."""
    lines = [line.strip() for line in lines]
    at = next((number for number, line in enumerate(lines) if _FATAL in line), None)
    if at is None:
        return None
    here = next((number for number, line in enumerate(lines) if line.startswith("Current thread")), at)
    return at, [line for line in lines[here:] if line.startswith("File ")]


def own_frame(frames: Sequence[str]) -> list[str]:
    """Return the first frame that is neither Python's nor a package's own, if there is one."""
    libraries = ("site-packages", "dist-packages", f"{sys.base_prefix}/lib", "/lib/python3")
    return [frame for frame in frames if not any(library in frame for library in libraries)][:1]


BUSY = "busy host"
"""How the note of a figure begins that was taken while others used the host."""
_BUSY = 0.1
"""From this share of all cores on, what others did on the host is worth a note."""


@dataclass(frozen=True)
class _Row:
    parent: int
    ticks: int


def process_table() -> dict[int, _Row]:
    """Return parent and processor time of every process, from proc(5); what its ended children used is its own."""
    rows = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except OSError:
            continue
        rows[int(folder.name)] = _Row(int(fields[1]), sum(map(int, fields[11:15])))
    return rows


def descendants(root: int, parents: Mapping[int, int]) -> set[int]:
    """Return the ids of all processes below one, by the table of parents."""
    numbers, fresh = set[int](), {root}
    while fresh:
        fresh = {pid for pid, parent in parents.items() if parent in fresh} - numbers
        numbers |= fresh
    return numbers


_MOST_CROWDED = 8.0


STARTED, _SLOW = "STACKPROOF_STARTED", "STACKPROOF_SLOW"
_START_S = 12.0
"""What a process takes at most to import torch and what stands on it, on a host of usual speed."""


def note_start() -> None:
    """Note by how much this process, whose parent wrote down when it started it, imported slowly; its children read that too."""
    with contextlib.suppress(ValueError):
        os.environ[_SLOW] = f"{(time.time() - float(os.environ.get(STARTED, ''))) / _START_S:.2f}"


def crowding() -> float:
    """Return by how much deadlines grow, 1 to 8: for processes that want a core for each core, and for imports that were slow."""
    value = 1.0
    with contextlib.suppress(OSError, ValueError):
        value = max(os.getloadavg()[0] / cores(), float(os.environ.get(_SLOW, "1")))
    return min(_MOST_CROWDED, max(1.0, value))


def load() -> str:
    return f"a load of {os.getloadavg()[0]:.0f} on {cores()} cores"


def cores(groups: Path = Path("/sys/fs/cgroup")) -> int:
    """Return how many of the host's cores this process may use: by its affinity, and by the quota of a container."""
    own = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(own, math.ceil(_quota(groups))))


def _quota(groups: Path) -> float:
    """Return the cores that the control group grants, version 2 (`cpu.max`) or 1; a container's own is the root."""
    for names in (("cpu.max",), ("cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us")):
        with contextlib.suppress(OSError, ValueError):
            granted, period = " ".join((groups / name).read_text(encoding="ascii") for name in names).split()
            if granted != "max" and int(granted) > 0:
                return int(granted) / int(period)
    return _NO_QUOTA


class HostLoad:
    """The share of the host's cores that others used since this was made."""

    def __init__(self) -> None:
        self._began, self._busy, self._own = time.monotonic(), _host_ticks(), _own_ticks()

    def share(self) -> float:
        """Return the share, from 0 to 1; 0 where the host does not tell."""
        spent = time.monotonic() - self._began
        others = max(0, (_host_ticks() - self._busy) - (_own_ticks() - self._own)) / os.sysconf("SC_CLK_TCK")
        return min(1.0, others / (spent * (os.cpu_count() or 1))) if spent > 0 else 0.0

    @staticmethod
    def note(share: float) -> tuple[str, ...]:
        """Return the note of a busy host, or none where others used little."""
        return (f"{BUSY}: others used {share:.0%} of its cores",) if share > _BUSY else ()


def _host_ticks() -> int:
    """Return the busy time of all cores: everything but idle and waiting (proc(5), /proc/stat)."""
    try:
        with Path("/proc/stat").open(encoding="ascii") as stream:
            fields = [int(word) for word in stream.readline().split()[1:9]]
    except (OSError, ValueError):
        return 0
    return sum(fields) - fields[3] - fields[4]


def _own_ticks() -> int:
    rows = process_table()
    own = {os.getpid()} | descendants(os.getpid(), {pid: row.parent for pid, row in rows.items()})
    return sum(rows[pid].ticks for pid in own if pid in rows)

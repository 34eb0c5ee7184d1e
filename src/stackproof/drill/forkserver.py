"""A Python that has imported what costs seconds, and forks a process for each that is asked for: no thread, no device, no work of its own.

Run as a file (`python .../forkserver.py SOCKET MODULE...`), so that nothing of stackproof is in it: a forked process imports
all of that anew, from its own path, after what was planted. `forking` is the other side.
"""

from __future__ import annotations

import array
import atexit
import contextlib
import ctypes
import faulthandler
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOM = "STACKPROOF_FORK_ROOM"
"""Only long: a forked process writes its own environment where the kernel shows that of the server (proc(5), environ)."""
_FREE = (
    "PYTHONPATH", "OMP_NUM_THREADS", "STACKPROOF_", "SIM_", "PYTEST_", "TORCHELASTIC_", "RANK", "LOCAL_", "GROUP_", "ROLE_",
    "WORLD_SIZE", "MASTER_", "TORCH_NCCL_ASYNC_ERROR_HANDLING",
)  # fmt: skip
"""How variables begin that may differ from the server's: taken over by a forked process, or read by nothing that it imports."""
_AUTOLOAD = "TORCH_DEVICE_BACKEND_AUTOLOAD"
"""Devices of packages (docs/simulated.md) come to torch in the forked process, from its path."""
_SET_PDEATHSIG = 1  # prctl(2)
_ENV_START = 50 - 3  # of the fields of /proc/PID/stat after the name
_OPTIONS = ("-X", "faulthandler", "-u")
_MOST_BYTES = 1 << 20
_LONG = 1 << 16


class ForkRequest:
    """What is asked for: a command, its variables, its folder, and the files for its output and for its errors."""

    def __init__(self, told: Mapping[str, Any], output: Sequence[int]) -> None:
        self.command: list[str] = told["command"]
        self.environment: dict[str, str] = told["environment"]
        self.folder: str = told["folder"]
        self.output = output

    def refusal(self, known: Sequence[Mapping[str, str]]) -> str:
        """Say why a forked process would not be what the command starts afresh, or nothing.

        `known`: the variables of the server as it started, and as its imports left them.
        """
        if self.command[0] != sys.executable:
            return f"another interpreter: {self.command[0]}"
        if not self.module:
            return "not a module"
        names = [name for name in {*self.environment, *known[0]} if not _free(name)]
        others = [name for name in names if self.environment.get(name) not in [one.get(name) for one in known]]
        if others:
            return f"other variables: {' '.join(sorted(others))}"
        return ""

    @property
    def module(self) -> str:
        """The module that `python -m` runs, or nothing: no other form is known here."""
        known = [*_OPTIONS, "-m"]
        place = next((place for place, word in enumerate(self.command[1:], 1) if word not in known[:-1]), 0)
        return self.command[place + 1] if self.command[place] == "-m" else ""

    @property
    def arguments(self) -> list[str]:
        """What stands after the module."""
        return self.command[self.command.index("-m") + 2 :]


def _free(name: str) -> bool:
    return name == "_" or name.startswith(_FREE)  # a shell sets "_" for each command


class ForkServer:
    """Takes requests, one process each, and says how each ended."""

    def __init__(self, path: str, modules: Sequence[str]) -> None:
        self._asked = dict(os.environ)
        os.environ[_AUTOLOAD] = "0"
        for name in modules:
            with contextlib.suppress(ImportError):
                importlib.import_module(name)
        os.environ.pop(_AUTOLOAD)
        self._variables = {name: value for name, value in os.environ.items() if self._asked.get(name) != value}
        self._paths = [entry for entry in sys.path if entry != str(Path(__file__).parent)]
        self._children: dict[int, tuple[int, socket.socket]] = {}
        """Of a descriptor of a process: its id, and the connection of who asked for it."""
        _require_alone()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(f"{path}~")
        self._listener.listen(64)
        Path(f"{path}~").rename(path)  # whoever sees it can connect
        gc.collect()
        gc.freeze()

    def serve(self) -> Callable[[], None]:
        """Serve until the server is killed; in a forked process, return what it has to do."""
        while True:
            asking = {connection.fileno(): handle for handle, (_, connection) in self._children.items()}
            ready, _, _ = select.select([self._listener.fileno(), *asking, *self._children], [], [])
            for one in ready:
                if one in self._children:
                    self._ended(one)
                elif asking.get(one) in self._children:
                    self._left(asking[one])
            if self._listener.fileno() in ready and (work := self._accept()):
                return work

    def _accept(self) -> Callable[[], None] | None:
        connection, _ = self._listener.accept()
        try:
            request = _received(connection)
        except (OSError, ValueError, KeyError):
            connection.close()
            return None
        if why := request.refusal((self._asked, dict(os.environ))):
            print(f"afresh: {' '.join(request.command)[:200]}: {why}", flush=True)  # noqa: T201
            _say(connection, {"refused": why})
            connection.close()
            _close(request.output)
            return None
        return self._fork(request, connection)

    def _fork(self, request: ForkRequest, connection: socket.socket) -> Callable[[], None] | None:
        heard, said = os.pipe()
        if child := os.fork():
            os.close(said)
            _close(request.output)
            os.read(heard, 1)  # it is itself by now, also for those who look for its mark
            os.close(heard)
            self._children[os.pidfd_open(child)] = (child, connection)
            _say(connection, {"pid": child})
            print(f"forked: {request.module}", flush=True)  # noqa: T201
            return None
        for handle, (_, other) in self._children.items():
            os.close(handle)
            other.close()
        for one in (self._listener, connection):
            one.close()
        os.close(heard)
        _become(request, {**request.environment, **self._variables}, self._paths)
        os.close(said)
        return lambda: _run(request)

    def _ended(self, handle: int) -> None:
        """Tell who asked how the process ended."""
        child, connection = self._children.pop(handle)
        _, status = os.waitpid(child, 0)
        os.close(handle)
        _say(connection, {"status": os.waitstatus_to_exitcode(status)})
        connection.close()

    def _left(self, handle: int) -> None:
        """Kill a process whose parent is gone, as the kernel does with a child that asked for it."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._children[handle][0], signal.SIGKILL)
        self._ended(handle)


def _require_alone() -> None:
    """End the server if a thread of it outlives a fork: what that holds, a forked process would wait for for ever.

    OpenBLAS ends its threads before a fork and starts others when it needs them.
    """
    if (child := os.fork()) == 0:
        os._exit(0)
    os.waitpid(child, 0)
    if (threads := len(os.listdir("/proc/self/task"))) != 1:  # noqa: PTH208 - what is imported must not matter
        sys.exit(f"what was imported keeps {threads} threads, so nothing can be forked from it")


def _received(connection: socket.socket) -> ForkRequest:
    """Return a request, which ends with a line end; the file for the output comes with its first bytes."""
    text, ancillary, _, _ = connection.recvmsg(_LONG, socket.CMSG_LEN(8))
    output = array.array("i")
    output.frombytes(ancillary[0][2])
    while not text.endswith(b"\n") and len(text) < _MOST_BYTES:
        text += connection.recv(_LONG) or b"\n"
    return ForkRequest(json.loads(text), output)


def _close(handles: Sequence[int]) -> None:
    for handle in handles:
        os.close(handle)


def _say(connection: socket.socket, what: Mapping[str, Any]) -> None:
    with contextlib.suppress(OSError):
        connection.sendall(json.dumps(what).encode() + b"\n")


def _become(request: ForkRequest, variables: Mapping[str, str], paths: Sequence[str]) -> None:
    """Make this process what the command starts: its session, files, folder, variables, arguments and path."""
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (request.output[0], 1), (request.output[-1], 2)):
        os.dup2(source, target)
    _close([nothing, *request.output])
    os.chdir(request.folder)
    os.environ.clear()
    os.environ.update(variables)
    _show(variables)
    sys.orig_argv, sys.argv = list(request.command), ["-m", *request.arguments]
    here = [] if getattr(sys.flags, "safe_path", False) else [request.folder]
    given = [entry for entry in variables.get("PYTHONPATH", "").split(os.pathsep) if entry]
    sys.path[:] = [*here, *given, *paths]
    importlib.invalidate_caches()


def _show(variables: Mapping[str, str]) -> None:
    """Write the variables where the kernel shows them to others, who know a process by its mark; the rest of the place is cleared."""
    fields = Path("/proc/self/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    start, end = int(fields[_ENV_START]), int(fields[_ENV_START + 1])
    rows = sorted(variables.items(), key=lambda row: not row[0].startswith("STACKPROOF_"))
    text = b"\0".join(os.fsencode(f"{name}={value}") for name, value in rows if name != ROOM)
    ctypes.memset(start, 0, end - start)
    ctypes.memmove(start, text, min(len(text), end - start - 1))


def _run(request: ForkRequest) -> None:
    """Do what the interpreter does when it starts: its start-up modules, then the module as the program."""
    if "faulthandler" in request.command:
        faulthandler.enable()
    if "-u" in request.command[: request.command.index("-m")]:
        for stream in (sys.stdout, sys.stderr):
            stream.reconfigure(write_through=True)  # type: ignore[union-attr]
    _vary()
    for name in ("sitecustomize", "usercustomize"):
        sys.modules.pop(name, None)
    with contextlib.suppress(ModuleNotFoundError):
        importlib.import_module("sitecustomize")
    code = _status(lambda: runpy.run_module(request.module, run_name="__main__", alter_sys=True))
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)  # taking hundreds of modules apart would copy all that is shared with the server


def _status(action: Callable[[], object]) -> int:
    """Return the exit status of a program: what it says, or 1 for an error, which is printed."""
    try:
        action()
    except SystemExit as ended:
        if ended.code is None or isinstance(ended.code, int):
            return ended.code or 0
        print(ended.code, file=sys.stderr)  # noqa: T201
        return 1
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
        return 1
    return 0


def _vary() -> None:
    """Take over what libraries take from a process's start: random numbers of its own, its number of threads, its devices."""
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed()
    if torch := sys.modules.get("torch"):
        if (threads := os.environ.get("OMP_NUM_THREADS", "")).isdigit():
            torch.set_num_threads(int(threads))
        if os.environ.get(_AUTOLOAD, "1") == "1" and hasattr(torch, "_import_device_backends"):  # since torch 2.5
            torch._import_device_backends()


if __name__ == "__main__":
    ctypes.CDLL(None).prctl(_SET_PDEATHSIG, signal.SIGKILL)
    ForkServer(sys.argv[1], sys.argv[2:]).serve()()

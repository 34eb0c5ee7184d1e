"""Starts processes by a fork of one that has its imports behind it: planted into the processes of a drill, and in nothing else.

What comes is the process that the command starts afresh, or nothing: `forkserver` refuses what it cannot make so.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

SERVER = "STACKPROOF_FORKSERVER"
"""Names the socket of a server."""
PROGRAM = Path(__file__).with_name("forkserver.py")
_Popen = subprocess.Popen
_KNOWN = {"env", "cwd", "stdin", "stdout", "stderr", "pass_fds", "start_new_session"}


def plant() -> None:
    """Let the server start every program from now on that this process starts as ours are: a session of its own, output in files."""
    for module in list(sys.modules.values()):  # torch's launcher, imported before the fork, has the name of its own
        if vars(module).get("Popen") is _Popen:
            module.Popen = Popen  # type: ignore[attr-defined]


class Popen(subprocess.Popen[bytes]):
    """Starts a process by a fork where the server can, else as ever."""

    def __new__(cls, args: list[str], **options: Any) -> Any:
        """Return what stands for the process."""
        return _fork(list(args), options) or super().__new__(cls)


class Forked(_Popen[bytes]):
    """A process that a server forked for us, with what we need of a child: its id, whether it ended, and how.

    When this process ends, or forgets it, the server kills it.
    """

    def __init__(self, command: list[str], pid: int, connection: socket.socket) -> None:
        self.args, self.pid, self.returncode = command, pid, None
        self.stdin = self.stdout = self.stderr = None
        self._connection, self._child_created = connection, False

    def poll(self) -> int | None:
        """Return how it ended, or None while it runs."""
        return self._look(0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end.

        Raises:
            TimeoutExpired: it runs on.
        """
        status = self._look(timeout)
        if status is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
        return status

    def _look(self, seconds: float | None) -> int | None:
        if self.returncode is None and select.select([self._connection], [], [], seconds)[0]:
            answer = _answer(self._connection)
            self.returncode = int(answer.get("status", -9))  # a server that was killed has taken it along
            self._connection.close()
        return self.returncode

    def __del__(self, *_: Any) -> None:
        """Leave no connection open; Popen's own would wait for a child of ours."""
        self._connection.close()


def _fork(command: list[str], options: dict[str, Any]) -> Forked | None:
    """Return a process that does what the command says, or None where it has to be started afresh."""
    output, errors = options.get("stdout"), options.get("stderr")
    files: list[Any] = [output] if errors == subprocess.STDOUT else [output, errors]
    plain = options.keys() <= _KNOWN and options.get("start_new_session") and not options.get("pass_fds")
    if not plain or options.get("env") is None or not all(hasattr(one, "fileno") for one in files):
        return None
    asked = {"command": command, "environment": dict(options["env"]), "folder": options.get("cwd") or str(Path.cwd())}
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(os.environ[SERVER])
        socket.send_fds(connection, [json.dumps(asked).encode() + b"\n"], [one.fileno() for one in files])
        answer = _answer(connection)
    except OSError:
        answer = {}
    if "pid" in answer:
        return Forked(command, answer["pid"], connection)
    connection.close()
    return None


def _answer(connection: socket.socket) -> dict[str, Any]:
    """Return one line of the server's, or nothing if it is gone; the next line may be there already, and stays for a later look."""
    text = b""
    with contextlib.suppress(OSError):
        while not text.endswith(b"\n") and (more := connection.recv(1)):
            text += more
    return dict(json.loads(text)) if text.endswith(b"\n") else {}

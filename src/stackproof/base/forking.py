"""Starts a process by a fork of one that has its imports behind it, where a drill offers that; elsewhere nothing is forked.

What comes is the process that the command starts afresh, or nothing: `forkserver` refuses what it cannot make so.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from stackproof.base.places import FIRED

SERVER = "STACKPROOF_FORKSERVER"
"""Names the socket of a server; listened to below a drill only, whose records say so."""
PROGRAM = Path(__file__).with_name("forkserver.py")


class Forked(subprocess.Popen[bytes]):
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
            told = _answer(self._connection)
            self.returncode = int(told.get("status", -9))  # a server that was killed has taken it along
            self._connection.close()
        return self.returncode

    def __del__(self, *_: Any) -> None:
        """Leave no connection open; Popen's own would wait for a child of ours."""
        self._connection.close()


def offered() -> bool:
    """Whether a drill offers a server here."""
    return bool(os.environ.get(FIRED)) and Path(os.environ.get(SERVER) or os.devnull).is_socket()


def fork(
    command: list[str], output: Sequence[IO[Any]], environment: Mapping[str, str], folder: str | None = None
) -> Forked | None:
    """Return a process that does what the command says, or None where it has to be started afresh.

    `output`: the file for its output, and one for its errors if they go elsewhere.
    """
    if not offered():
        return None
    asked = {"command": command, "environment": dict(environment), "folder": folder or str(Path.cwd())}
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(os.environ[SERVER])
        socket.send_fds(connection, [json.dumps(asked).encode() + b"\n"], [one.fileno() for one in output])
        told = _answer(connection)
    except OSError:
        told = {}
    if "pid" in told:
        return Forked(command, told["pid"], connection)
    connection.close()
    return None


def _answer(connection: socket.socket) -> dict[str, Any]:
    """Return one line of the server's, or nothing if it is gone; the next line may be there already, and stays for a later look."""
    text = b""
    with contextlib.suppress(OSError):
        while not text.endswith(b"\n") and (more := connection.recv(1)):
            text += more
    return dict(json.loads(text)) if text.endswith(b"\n") else {}

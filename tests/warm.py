"""Processes that start warm: forked from one that has imported torch, for tests to which a fresh start is not the point.

The server is this file run as a program. It forks a keeper for each job, which forks the process itself, tells its id, waits,
and tells how it ended.
"""

from __future__ import annotations

import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from stackproof import ROOT
from stackproof.base import processes

_MOST_BYTES = 1 << 17


class Child:
    """A process that the server forked, with what `subprocess.Popen` has of it."""

    def __init__(self, told: int) -> None:
        self._told = os.fdopen(told, "rb", buffering=0)
        self.pid = int(self._told.readline())
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Return the exit code as Popen does, or None while it runs."""
        if self.returncode is None and select.select([self._told], [], [], 0)[0]:
            self.wait()
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send the process a signal."""
        os.kill(self.pid, number)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end and return the exit code."""
        if self.returncode is None:
            if not select.select([self._told], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired([str(self.pid)], timeout or 0.0)
            self.returncode = int(self._told.readline())
            self._told.close()
        return self.returncode

    def kill(self) -> None:
        """End it."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)


_serving: list[tuple[socket.socket, subprocess.Popen[bytes]]] = []


def _server() -> socket.socket:
    """Return the wire to the server, started now unless it already was."""
    if not _serving:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        env = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), os.environ.get("PYTHONPATH", "")))}
        command = [sys.executable, "-X", "faulthandler", __file__, str(theirs.fileno())]
        _serving.append((ours, subprocess.Popen(command, env=env, pass_fds=[theirs.fileno()], cwd=ROOT)))
        theirs.close()
    return _serving[0][0]


def stop() -> None:
    """End the server; it also ends with this process, because its wire closes."""
    while _serving:
        wire, server = _serving.pop()
        wire.close()
        server.wait()


def fork(job: Mapping[str, Any], environment: Mapping[str, str], output: IO[bytes]) -> Child:
    """Start a job in a warm process: a module with its arguments (`argv`), or a `code` with folders to import from (`path`)."""
    reader, writer = os.pipe()
    message = json.dumps({**job, "environment": dict(environment)}).encode()
    socket.send_fds(_server(), [message], [output.fileno(), writer])
    os.close(writer)
    return Child(reader)


def start(
    command: list[str],
    output: IO[bytes],
    environment: Mapping[str, str],
    mark: str,
    pass_fds: Sequence[int] = (),
    cwd: str | None = None,
) -> Child:
    """Stand in for `processes.start`, of a module that Python runs, in this working directory."""
    assert not pass_fds and not cwd
    return fork(
        {"argv": command[command.index("-m") + 1 :]}, {**os.environ, **environment, processes.MARK: mark}, output
    )


def _serve(wire: socket.socket) -> None:
    """Fork a keeper for each job until the wire closes; returns in the job's own process too, once it has run."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        message, files, _, _ = socket.recv_fds(wire, _MOST_BYTES, 2)
        if not message:
            return
        if os.fork() == 0:
            wire.close()
            _keep(json.loads(message), *files)
            return
        for file in files:
            os.close(file)


def _keep(job: dict[str, Any], output: int, told: int) -> None:
    """Fork the job's process and wait for it."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    processes.die_with_parent()
    child = os.fork()
    if child == 0:
        os.close(told)
        _become(job, output)
        return
    os.close(output)
    os.write(told, f"{child}\n".encode())
    os.write(told, f"{os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}\n".encode())
    os._exit(0)


def _become(job: dict[str, Any], output: int) -> None:
    """Be the process that was asked for."""
    os.setsid()
    with Path(os.devnull).open("rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.environ.clear()
    os.environ.update(job["environment"])
    sys.path[:0] = job.get("path", [])
    if "argv" in job:
        sys.argv = job["argv"]
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    else:
        exec(compile(job["code"], "<code>", "exec"), {"__name__": "__main__"})


if __name__ == "__main__":
    sys.path.remove(str(Path(__file__).parent))  # a program's own folder, which no test would have

    import pytest  # noqa: F401
    import torch  # noqa: F401

    from stackproof.device import devices, numerics  # noqa: F401

    _serve(socket.socket(fileno=int(sys.argv[1])))

"""The gate's end of a side: a live process that answers within its deadline, or is ended and called hung or crashed."""

from __future__ import annotations

import json
import os
import select
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import processes
from ..records import Verdict

_START_S = 180.0
Answer = dict[str, Any]


class SideEndedError(Exception):
    """A side gave no answer that can be used: it computes wrong, crashed or hung; the message says which and where."""

    def __init__(self, verdict: Verdict, reason: str) -> None:
        super().__init__(reason)
        self.verdict = verdict


@dataclass(frozen=True)
class Seat:
    """Where a side runs: its name, its interpreter, what is put into its environment, and its arguments."""

    name: str
    python: Path
    source: Path
    """The folder that holds this side's `stackproof`."""
    environment: Mapping[str, str]
    stack: str
    rehearsed: bool
    profile: str
    device: str


class LiveSide:
    """A process that stays up between blocks; use it in a `with` block, so that it always ends."""

    def __init__(self, seat: Seat, log: Path) -> None:
        self.seat, self._log, self._buffer = seat, log, b""
        self._mark = processes.new_mark()
        reading, writing = os.pipe()
        arguments = [seat.stack, str(seat.rehearsed), seat.profile, seat.device, str(writing), repr(time.time())]
        command = [str(seat.python), "-m", "stackproof.gating.side", *arguments]
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=output, stderr=output, pass_fds=(writing,),
                env=self._environment(), start_new_session=True, cwd=log.parent,
            )  # fmt: skip
        os.close(writing)
        self._reading = reading

    def _environment(self) -> dict[str, str]:
        """Put the side's own source first; what the user's environment holds besides is the same for both sides."""
        path = [str(self.seat.source), self.seat.environment.get("PYTHONPATH") or os.environ.get("PYTHONPATH", "")]
        own = {**os.environ, **self.seat.environment, "PYTHONPATH": os.pathsep.join(filter(None, path))}
        return own | {processes.MARK: f"{os.environ.get(processes.MARK, '')}/{self._mark}".lstrip("/")}

    def hello(self) -> Answer:
        """Wait until the side is up and return what it is."""
        return self._answer("start-up", _START_S)

    def ask(self, request: str, deadline_s: float, **arguments: Any) -> Answer:
        """Return the answer to one request.

        Raises:
            SideEndedError: it computes wrong, crashed, or did not answer in time; the process is gone then, except after a
                wrong result or a missing capability, which only end the subject.
        """
        line = json.dumps({"ask": request, "deadline_s": deadline_s, **arguments}) + "\n"
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line.encode())
            self._process.stdin.flush()
        except OSError:
            raise self._gone(request) from None
        found = self._answer(request, deadline_s)
        if "verdict" in found:
            raise SideEndedError(Verdict(found["verdict"]), f"{self.seat.name}: {found['reason']}")
        return found

    def _answer(self, request: str, deadline_s: float) -> Answer:
        until = time.monotonic() + deadline_s
        while b"\n" not in self._buffer:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self._reading], [], [], left)[0]:
                self.end()
                raise SideEndedError(
                    Verdict.HUNG, f"{self.seat.name}: hung in '{request}' for {deadline_s:.0f} s{self._frame()}"
                )
            data = os.read(self._reading, 65536)
            if not data:
                raise self._gone(request)
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        found: Answer = json.loads(line)
        return found

    def _gone(self, request: str) -> SideEndedError:
        self._process.wait(5)
        said = " / ".join(processes.last_lines(self._log, 2)) or "nothing"
        how = processes.describe_exit(self._process.returncode)
        return SideEndedError(
            Verdict.CRASHED, f"{self.seat.name}: ended with {how} in '{request}'; it printed last: {said}"
        )

    def _frame(self) -> str:
        lines = processes.last_lines(self._log, 60, of_bytes=65536)
        found = next((line.strip() for line in lines if line.strip().startswith("File ")), "")
        return f"; it was in {found}" if found else ""

    def end(self) -> None:
        """End the process and everything that it started."""
        processes.end_tree(self._mark, self._process)

    def __enter__(self) -> LiveSide:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
        os.close(self._reading)

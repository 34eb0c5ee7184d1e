"""The gate's end of a side: a live process that answers within its deadline, or is ended and called hung or crashed."""

from __future__ import annotations

import json
import math
import os
import subprocess
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from stackproof.base import processes, rpc
from stackproof.base.errors import EnvironmentMismatchError, Refusal, StackUnavailableError
from stackproof.record.records import Verdict

_START_S = 180.0
_GRACE_S = 2.0
"""At its deadline a side writes down where it is; that is worth waiting for."""
_REFUSALS = {kind.exit_code: kind for kind in (Refusal, StackUnavailableError, EnvironmentMismatchError)}
Answer = rpc.Message


class SideEndedError(Exception):
    """A side gave no answer that can be used: it computes wrong, crashed or hung; the message says which and where."""

    def __init__(self, side: str, verdict: Verdict, reason: str) -> None:
        super().__init__(reason)
        self.side, self.verdict = side, verdict

    @property
    def gone(self) -> bool:
        """Whether the process itself is no more."""
        return self.verdict in (Verdict.HUNG, Verdict.CRASHED)


class OutOfTimeError(Exception):
    """The time of the whole comparison was over before a side answered; the message says in what."""


def gravest(ended: Sequence[SideEndedError]) -> SideEndedError:
    """Return the end that counts: a process that is gone, then a wrong result; where all are still there, it is both sides' end."""
    worst = max(ended, key=lambda error: (error.gone, error.verdict is Verdict.FAILED))
    if len(ended) > 1 and not worst.gone:
        worst.side = "both"
    return worst


@dataclass(frozen=True)
class SideSpec:
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
    drill: str = ""
    """A fault that is planted on this side, to try the gate itself."""
    backend: str = ""
    """What ranks talk over; empty for the stack's own."""
    proof: str = "unpinned"
    """What was proved of the environment, in one sentence."""
    unset: tuple[str, ...] = ()
    """Variables that this side lacks and the other has: they are taken out of whatever environment one stands in."""
    folder: Path | None = None
    """Where a command of one's own runs on this side, if not where one stands."""

    def lacking(self, names: Collection[str]) -> SideSpec:
        """Return this side without those of these variables that it does not state, whatever is exported where one stands."""
        return replace(self, unset=tuple(sorted(set(names) - set(self.environment))))


class LiveSide:
    """A process that stays up between blocks; use it in a `with` block, so that it always ends."""

    def __init__(self, spec: SideSpec, log: Path, run: str, scale: float = 1.0, until: float = math.inf) -> None:
        """Start it; whatever it prints goes to the log.

        `run`: the mark of the gate, which both sides carry so that neither takes the other for a stranger; `scale`: what deadlines are
        multiplied by; `until`: when it may take no longer, whatever the deadline (`time.monotonic`).
        """
        self.spec, self._log, self._scale, self._until = spec, log, scale, until
        self._mark, self._run = processes.new_mark(), run
        self._waits: tuple[str, float] = ("start-up", _START_S * scale)
        reading, writing = os.pipe()
        arguments = {
            "name": spec.name, "stack": spec.stack, "rehearsed": spec.rehearsed, "profile": spec.profile, "device": spec.device,
            "drill": spec.drill, "backend": spec.backend, "began": time.time(),
        }  # fmt: skip
        command = [str(spec.python), "-m", "stackproof.gate.side", str(writing), json.dumps(arguments)]
        with log.open("ab") as output:
            self._process = processes.start(
                command, output, {**spec.environment, "PYTHONPATH": self._path()}, f"{run}/{self._mark}".lstrip("/"),
                pass_fds=(writing,), cwd=str(log.parent), unset=spec.unset, asked=True,
            )  # fmt: skip
        os.close(writing)
        assert self._process.stdin is not None
        self._reading, self._channel = reading, rpc.Channel(reading, self._process.stdin.fileno())

    def _path(self) -> str:
        """Put the side's own source first; what the user's path holds besides is the same for both sides."""
        rest = self.spec.environment.get("PYTHONPATH") or os.environ.get("PYTHONPATH", "")
        return os.pathsep.join(filter(None, (str(self.spec.source), rest)))

    def hello(self) -> Answer:
        """Wait until the side is up and return what it is; it refuses to start for instance where there is no device."""
        found = self._receive()
        if "refused" in found:
            raise _REFUSALS.get(found["exit_code"], Refusal)(f"{self.spec.name}: {found['refused']}")
        return found

    def ask(self, request: str, deadline_s: float, **arguments: Any) -> Answer:
        """Return the answer to one request.

        A SideEndedError says that it computes wrong, crashed, or did not answer in time; the process is gone then, except after a wrong
        result or a missing capability, which only end the subject. An OutOfTimeError says that the whole comparison's time is over.
        """
        self.send(request, deadline_s, **arguments)
        return self.receive()

    def send(self, request: str, deadline_s: float, **arguments: Any) -> None:
        """Ask without waiting, so that both sides can work at once; `receive` gives the answer."""
        scaled = deadline_s * self._scale
        self._waits = (request, scaled)
        try:
            self._channel.send(request, deadline_s=scaled, **arguments)
        except rpc.ClosedError:
            raise self._gone(request) from None

    def receive(self) -> Answer:
        """Return the answer to what was sent last; raises as `ask` does."""
        found = self._receive()
        if "verdict" in found:
            raise SideEndedError(self.spec.name, Verdict(found["verdict"]), f"{self.spec.name}: {found['reason']}")
        return found

    def _receive(self) -> Answer:
        request, deadline_s = self._waits
        left = self._until - time.monotonic()
        try:
            return self._channel.receive(min(deadline_s + _GRACE_S, max(0.0, left)))
        except rpc.SilentError:
            self.end()
            if left < deadline_s + _GRACE_S:
                raise OutOfTimeError(f"'{request}' of the {self.spec.name}") from None
            reason = f"{self.spec.name}: hung in '{request}' for {deadline_s:.0f} s{self._frame()}"
            raise SideEndedError(self.spec.name, Verdict.HUNG, reason) from None
        except rpc.ClosedError:
            raise self._gone(request) from None

    def _gone(self, request: str) -> SideEndedError:
        try:
            how = processes.describe_exit(self._process.wait(5))
        except subprocess.TimeoutExpired:
            how = "its pipe closed"
        said = processes.last_words(self._log, 2)
        reason = f"{self.spec.name}: ended with {how} in '{request}'; it printed last: {said}"
        return SideEndedError(self.spec.name, Verdict.CRASHED, reason)

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
        if self._process.stdin is not None:
            self._process.stdin.close()

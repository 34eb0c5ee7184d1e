"""A side of a duel on another host: started by a launcher, spoken to over its standard input and output, ended when we hang up.

What goes wrong with it is said in our words; what it printed stays in its log.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from pathlib import Path
from statistics import median
from typing import NamedTuple

from stackproof.base import processes, rpc
from stackproof.base.rpc import Message
from stackproof.base.text import plain
from stackproof.extras.fleet import spoken
from stackproof.extras.fleet.answers import Replayed
from stackproof.extras.fleet.launcher import Launcher
from stackproof.extras.fleet.spoken import SideHello, UnbelievedError
from stackproof.record.store import State

_NOISE = 100
"""Lines that a login script may print before the side's first word."""
_MOST_BYTES = 1 << 20
"""No answer is longer."""
_TRIPS = 5
_QUICK_S, _LATE_S, _GRACE_S = 60.0, 2.0, 10.0


class SideLostError(Exception):
    """A side went away, or says what cannot be: it says nothing of its host, nor of the other side."""

    def __init__(self, host: str, how: str) -> None:
        super().__init__(f"{host}'s side {how}")
        self.host = host


class LeftOpenError(Exception):
    """Why a suspicion stays open beside this partner, though both sides live on."""


class BlockTimes(NamedTuple):
    """A block by two clocks: the seconds that the side says, and those that we have waited beyond the way there and back."""

    told: float
    waited: float


class FarSide:
    """A side on another host; use it in a `with` block, so that it always ends."""

    def __init__(self, launcher: Launcher, host: str, card: str, log: Path) -> None:
        self.host, self.log = host, log
        self.waited = 0.0
        """How long the last answer took."""
        self._launcher, self._turn, self._asked, self._began, self._until = launcher, 0, "start-up", 0.0, 0.0
        self._trips = list[float]()
        """How long an answer to nothing takes."""
        self._mark = processes.new_mark()
        environment = {**os.environ, processes.MARK: f"{os.environ.get(processes.MARK, '')}/{self._mark}".lstrip("/")}
        with log.open("ab") as output:
            try:
                self._process = subprocess.Popen(
                    launcher.command(host, card), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=output, env=environment,
                    start_new_session=True,
                )  # fmt: skip
            except OSError as error:
                raise SideLostError(host, f"cannot be started ({error.strerror})") from error
        assert self._process.stdin is not None and self._process.stdout is not None
        self._channel = rpc.Channel(self._process.stdout.fileno(), self._process.stdin.fileno(), _MOST_BYTES)

    def hello(self) -> State:
        """Wait until the side is up, and return its state; what login scripts print before is passed over.

        Raises:
            SideLostError: it does not come up, or refuses to.
        """
        self._asked, self._until = "start-up", time.monotonic() + self._launcher.start_s
        for _ in range(_NOISE):
            with contextlib.suppress(rpc.GarbledError):
                if found := spoken.hello(self._receive()):
                    return self._came_up(found)
        raise SideLostError(
            self.host, f"prints more than {_NOISE} lines before it answers; let login scripts be silent"
        )

    def _came_up(self, found: SideHello) -> State:
        if not found.state:
            self._note(found.refused)
            raise SideLostError(self.host, "refuses to start")
        for _ in range(_TRIPS):
            self.ask("close", _QUICK_S)
            self.answer()
            self._trips.append(self.waited)
        return found.state

    def ask(self, request: str, deadline_s: float, **arguments: object) -> None:
        """Ask without waiting, so that both sides can work at once; `answer` waits."""
        scaled = deadline_s * self._launcher.scale
        self._turn, self._asked, self._began = self._turn + 1, request, time.monotonic()
        self._until = self._began + scaled + _LATE_S
        try:
            self._channel.send(request, deadline_s=scaled, **{rpc.TURN: self._turn}, **arguments)
        except rpc.ClosedError:
            raise self._gone() from None

    def answer(self) -> Message:
        """Return the answer to what was asked last.

        Raises:
            LeftOpenError: it says that it cannot.
            SideLostError: it went away, or what came is no answer to it.
        """
        try:
            found = self._receive()
            spoken.turn(found, self._turn)
        except (rpc.GarbledError, UnbelievedError) as error:
            raise self._unbelieved(error) from error
        self.waited = time.monotonic() - self._began
        if "verdict" in found:
            self._note(str(found.get("reason")))
            raise LeftOpenError(f"{self.host}'s side says that it cannot do '{self._asked}'")
        return found

    def warm(self, seconds: float, deadline_s: float) -> float:
        """Let it warm up, and return the seconds of a run."""
        self.ask("warm", deadline_s, seconds=seconds)
        return self._seconds(1)

    def block(self, runs: int, deadline_s: float) -> BlockTimes:
        """Let it run so many times, and return how long that took."""
        self.ask("block", deadline_s, runs=runs)
        told = runs * self._seconds(runs)
        return BlockTimes(told, max(self.waited - median(self._trips) - spoken.TICK_S, told))

    def _seconds(self, runs: int) -> float:
        found = self.answer()
        try:
            return spoken.seconds(found, runs, self.waited)
        except UnbelievedError as error:
            raise self._unbelieved(error) from error

    def replayed(self, products: int) -> Replayed:
        """Return what it was asked to replay."""
        found = self.answer()
        try:
            return spoken.replayed(found, products)
        except UnbelievedError as error:
            raise self._unbelieved(error) from error

    def _unbelieved(self, error: Exception) -> SideLostError:
        what = f"answers with {error}" if isinstance(error, rpc.GarbledError) else str(error)
        return SideLostError(self.host, f"is not believed in '{self._asked}': it {what}")

    def _receive(self) -> Message:
        try:
            return self._channel.receive(max(self._until - time.monotonic(), 0.0))
        except rpc.SilentError:
            raise SideLostError(self.host, f"did not answer '{self._asked}' in time") from None
        except rpc.ClosedError:
            raise self._gone() from None

    def _gone(self) -> SideLostError:
        try:
            how = f"ended with {processes.describe_exit(self._process.wait(5))}"
        except subprocess.TimeoutExpired:
            how = "hung up"
        return SideLostError(self.host, f"{how} in '{self._asked}'")

    def _note(self, text: str) -> None:
        """Put what it says of itself into its log, behind what it printed."""
        with contextlib.suppress(OSError), self.log.open("a", encoding="utf-8") as log:
            log.write(f"{plain(text)}\n")

    def __enter__(self) -> FarSide:
        return self

    def __exit__(self, *_: object) -> None:
        """Hang up, so that the far process ends by itself, and the launcher with it; then end what is left of the launcher."""
        assert self._process.stdin is not None and self._process.stdout is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        self._process.stdout.close()  # who is still writing ends by that
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_GRACE_S * min(self._launcher.scale, 1.0))
        processes.end_tree(self._mark, self._process)

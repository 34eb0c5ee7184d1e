"""A live side on another host: started by a launcher that the user names, spoken to over its standard input and output."""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path

from stackproof.base import processes, rpc
from stackproof.base.errors import Refusal
from stackproof.fleet import rules
from stackproof.gate.live import Answer, LiveSide, SideSpec

_NOISE = 100
"""Lines that a login script may print before the side's first word."""
_GRACE_S = 10.0
PLACE = "{host}"


@dataclass(frozen=True)
class Launcher:
    """How a command is run on a host of the plan: words of the user's, in which {host} is the host."""

    words: tuple[str, ...]
    python: str
    stack: str
    profile: str
    scale: float = 1.0
    start_s: float = 300.0
    """How long a host may keep us waiting, such as for an allocation."""

    @classmethod
    def of(cls, text: str, python: str, stack: str, profile: str, scale: float, start_s: float) -> Launcher:
        """Read the words.

        Raises:
            Refusal: they are no words, or say nothing of the host.
        """
        try:
            words = tuple(shlex.split(text))
        except ValueError as error:
            raise Refusal(f"--launch: {error}; write words as a shell takes them") from error
        if not any(PLACE in word for word in words):
            raise Refusal(
                f"--launch '{text[:80]}' does not say where; write {PLACE} where the host goes, as in 'ssh {PLACE}'"
            )
        return cls(words, python, stack, profile, scale, start_s)

    def command(self, host: str, card: str) -> list[str]:
        """Return the command that brings a side up; the host is one of the plan, the card a number."""
        if not card.isdecimal():
            raise Refusal(f"card '{card[:20]}' is no number; the record of '{host}' cannot be believed")
        launch = [word.replace(PLACE, rules.host(host)) for word in self.words]
        side = [self.python, "-m", "stackproof", "fleet", "side", "--stack", self.stack, "--profile", self.profile]
        return [*launch, *side, "--host", rules.host(host), "--card", card]


class FarSide(LiveSide):
    """A side on another host; it ends when we hang up."""

    def __init__(self, launcher: Launcher, host: str, card: str, log: Path) -> None:
        command = launcher.command(host, card)
        self.spec = SideSpec(host, Path(launcher.python), Path(), {}, launcher.stack, False, launcher.profile, "")
        self._log, self._scale = log, launcher.scale
        self._mark = processes.new_mark()
        self._waits = ("start-up", launcher.start_s)
        environment = {**os.environ, processes.MARK: f"{os.environ.get(processes.MARK, '')}/{self._mark}".lstrip("/")}
        with log.open("ab") as output:
            try:
                self._process = subprocess.Popen(
                    command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=output, env=environment, start_new_session=True
                )  # fmt: skip
            except OSError as error:
                raise Refusal(
                    f"--launch: '{command[0]}' cannot be started ({error.strerror}); name a program that is here"
                ) from error
        assert self._process.stdin is not None and self._process.stdout is not None
        self._reading = os.dup(self._process.stdout.fileno())
        self._process.stdout.close()
        self._channel = rpc.Channel(self._reading, self._process.stdin.fileno())

    def hello(self) -> Answer:
        """Wait until the side is up; what login scripts print before is passed over."""
        for _ in range(_NOISE):
            with contextlib.suppress(ValueError):
                return super().hello()
        raise Refusal(
            f"{self.spec.name}: prints more than {_NOISE} lines before it answers; let its login scripts be silent"
        )

    def end(self) -> None:
        """Hang up, so that the far process ends by itself, and the launcher with it; then end what is left of the launcher."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_GRACE_S)
        super().end()

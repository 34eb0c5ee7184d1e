"""Rounds of pairs: in each every host has one partner, all pairs at once; the next round begins when all have ended, or their time has."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from stackproof.base import processes
from stackproof.base.errors import Refusal
from stackproof.extras.fleet import links, plan, rules
from stackproof.extras.fleet.launcher import launch_words
from stackproof.extras.fleet.plan import FleetPlan

PLACES = ("{first}", "{second}")
_POLL_S = 0.5
_GRACE_S = 5.0


@dataclass(frozen=True)
class PairLauncher:
    """How two ranks are started on two hosts: words of the user's, in which {first} and {second} are the hosts."""

    words: tuple[str, ...]
    python: str
    minutes: float

    @classmethod
    def of(cls, text: str, python: str, minutes: float) -> PairLauncher:
        """Read the words.

        Raises:
            Refusal: they are no words, or do not say where.
        """
        return cls(launch_words(text, PLACES), python, minutes)

    def command(self, made: FleetPlan, folder: Path, first: str, second: str) -> list[str]:
        """Return the command of a pair; both hosts are of the plan."""
        named = dict(zip(PLACES, (rules.host(first), rules.host(second)), strict=True))
        launch = [
            word.replace("{first}", named["{first}"]).replace("{second}", named["{second}"]) for word in self.words
        ]
        rendezvous = f"file://{folder}"
        program = f"stackproof.extras.fleet.pair:{made.profile}"
        own = ["--stack", made.stack, "--folder", str(folder), "--rendezvous", rendezvous, "--program", program]
        return [*launch, self.python, "-m", "stackproof", "ranks", *own]


def measure(made: FleetPlan, folder: Path, count: int, launcher: PairLauncher, say: Callable[[str], None]) -> None:
    """Measure so many rounds; what earlier ones left is taken away, as it says nothing of today."""
    shutil.rmtree(folder / links.FOLDER, ignore_errors=True)
    for number, pairs in enumerate(plan.rounds(made.hosts, count)):
        say(f"round {number + 1} of {count}: {len(pairs)} pairs")
        _round(made, folder, number, pairs, launcher)


def _round(
    made: FleetPlan, folder: Path, number: int, pairs: Sequence[tuple[str, str]], launcher: PairLauncher
) -> None:
    mark, started, until = (
        processes.new_mark(),
        list[subprocess.Popen[bytes]](),
        time.monotonic() + 60 * launcher.minutes,
    )
    try:
        for first, second in pairs:
            place = links.place(folder, number, first, second)
            place.mkdir(parents=True, exist_ok=True)
            with (place / "launch.log").open("wb") as output:
                started.append(processes.start(launcher.command(made, place, first, second), output, {}, mark))
        while any(one.poll() is None for one in started) and time.monotonic() < until:
            time.sleep(_POLL_S)
    except OSError as error:
        raise Refusal(f"a pair cannot be started: {error.strerror}; is '{launcher.words[0]}' here?") from error
    finally:
        for one in started:
            one.terminate()
        processes.end_tree(mark)
        for one in started:
            with contextlib.suppress(subprocess.TimeoutExpired):
                one.wait(_GRACE_S)

"""Runs the gates of a calibration side by side, each pinned to a core of its own: one gate of small work keeps one core busy."""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from ..errors import Refusal
from .calibrate import Trial, attempt
from .doses import Dose
from .gate import Contest

Job = tuple[Dose, int]
_LOOK_S = 0.5


class Silent:
    """Is told of every launch and keeps it to itself: hundreds of gates are a line each."""

    def launched(self, number: int, most: int, subject: str) -> None:
        """Say nothing."""

    def looked(self, board: object) -> None:
        """Say nothing."""


class Crew:
    """Workers that take the next gate when they are free, until none is left or the time is over."""

    def __init__(self, contest: Contest, jobs: Iterator[Job], until: float, keep: Callable[[Trial], None]) -> None:
        """Take what is compared, what is to be run, when to stop starting (`time.monotonic`), and who keeps a trial."""
        self._contest, self._jobs, self._until, self._keep = contest, jobs, until, keep
        self._lock, self._over = threading.Lock(), threading.Event()
        self._failed: list[BaseException] = []

    def run(self, many: int) -> None:
        """Run so many gates at once; Ctrl-C loses those that run and no other.

        Raises:
            Refusal: there are fewer cores than that.
        """
        with tempfile.TemporaryDirectory(prefix="calibration-", ignore_cleanup_errors=True) as folder:
            workers = [
                threading.Thread(target=self._work, args=(core, many, folder), daemon=True) for core in cores(many)
            ]
            for worker in workers:
                worker.start()
            try:
                while any(worker.is_alive() for worker in workers):
                    time.sleep(_LOOK_S)
            finally:
                self._over.set()
        if self._failed:
            raise self._failed[0]

    def _work(self, core: int | None, many: int, folder: str) -> None:
        try:
            if core is not None:
                os.sched_setaffinity(0, {core})  # of this thread, and of the processes that it starts
            pinned = {"at once": f"{many} at once, each on a core of its own"} if core is not None else {}
            while (job := self._next()) is not None:
                with tempfile.TemporaryDirectory(dir=folder) as own:
                    trial = attempt(self._contest, *job, Path(own), Silent())
                with self._lock:
                    if not self._over.is_set():
                        self._keep(replace(trial, facts={**trial.facts, **pinned}))
        except BaseException as error:
            self._failed.append(error)
            self._over.set()

    def _next(self) -> Job | None:
        with self._lock:
            if self._over.is_set() or time.monotonic() > self._until:
                return None
            return next(self._jobs, None)


def cores(many: int) -> list[int | None]:
    """Return a core for each of so many gates; one alone is not pinned."""
    if many == 1:
        return [None]
    free = sorted(os.sched_getaffinity(0))
    if many > len(free):
        raise Refusal(f"--side-by-side {many}: there are {len(free)} cores here, and each gate needs one of its own")
    return list(free[:many])

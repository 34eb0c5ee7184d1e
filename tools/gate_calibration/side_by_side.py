"""Runs the gates of a calibration side by side, each in a process of its own and pinned to a core of its own.

One gate of small work keeps one core busy. Gates in threads of one process would share its interpreter's lock.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path

from stackproof.base.errors import Refusal
from stackproof.base.processes import HostLoad, describe_exit, die_with_parent
from stackproof.gate.gate import Comparison
from stackproof.gate.live import SideEndedError
from tools.gate_calibration.calibrate import Trial, attempt
from tools.gate_calibration.doses import Dose

Job = tuple[Dose, int]
Gate = Callable[[Comparison, Dose, int, Path], Trial]
_LOOK_S = 0.5
_SPAWN = multiprocessing.get_context("spawn")


class Pool:
    """Workers that take the next gate when they are free, until none is left or the time is over."""

    def __init__(
        self,
        comparison: Comparison,
        jobs: Iterator[Job],
        until: float,
        keep: Callable[[Trial], None],
        gate: Gate = attempt,
    ) -> None:
        """Take what is compared, what is to be run, when to stop starting (`time.monotonic`), who keeps a trial, and what runs a gate."""
        self._comparison, self._jobs, self._until, self._keep, self._gate = comparison, jobs, until, keep, gate
        self._lock, self._over = threading.Lock(), threading.Event()
        self._failed: list[BaseException] = []

    def run(self, many: int) -> None:
        """Run so many gates at once; Ctrl-C loses those that run and no other.

        Raises:
            Refusal: there are fewer cores than that, or a gate could not be run.
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
                for process in multiprocessing.active_children():
                    process.kill()
        if self._failed:
            raise self._failed[0]

    def _work(self, core: int | None, many: int, folder: str) -> None:
        try:
            pinned = {"at once": f"{many} at once, each on a core of its own"} if core is not None else {}
            while (job := self._next()) is not None:
                load = HostLoad()
                with tempfile.TemporaryDirectory(dir=folder) as own:
                    trial = self._one(core, job, Path(own))
                facts = {**trial.facts, "load": load.share(), **pinned}
                with self._lock:
                    if not self._over.is_set():
                        self._keep(replace(trial, facts=facts))
        except BaseException as error:
            self._failed.append(error)
            self._over.set()

    def _next(self) -> Job | None:
        with self._lock:
            if self._over.is_set() or time.monotonic() > self._until:
                return None
            return next(self._jobs, None)

    def _one(self, core: int | None, job: Job, folder: Path) -> Trial:
        """Run one gate in a process of its own and return what it was."""
        reading, writing = _SPAWN.Pipe(duplex=False)
        process = _SPAWN.Process(target=_alone, args=(writing, core, self._gate, self._comparison, *job, folder))
        process.start()
        writing.close()
        try:
            answer: Trial | str = reading.recv()
        except EOFError:
            process.join()
            answer = f"its process ended with {describe_exit(process.exitcode or 0)}"
        process.join()
        if isinstance(answer, str):
            raise Refusal(f"{job[0].name}, gate {job[1] + 1}: {answer}")
        return answer


def _alone(
    answers: Connection, core: int | None, gate: Gate, comparison: Comparison, dose: Dose, number: int, folder: Path
) -> None:
    """Run a gate on this core and send the trial, or in one sentence why there is none."""
    die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever started this hears it too, and ends this
    if core is not None:
        os.sched_setaffinity(0, {core})  # of this process, and of the sides that it starts
    try:
        answers.send(gate(comparison, dose, number, folder))
    except (Refusal, SideEndedError) as error:
        answers.send(str(error))


def cores(many: int) -> list[int | None]:
    """Return a core for each of so many gates; one alone is not pinned."""
    if many == 1:
        return [None]
    free = sorted(os.sched_getaffinity(0))
    if many > len(free):
        raise Refusal(f"--side-by-side {many}: there are {len(free)} cores here, and each gate needs one of its own")
    return list(free[:many])

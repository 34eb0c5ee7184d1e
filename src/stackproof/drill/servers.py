"""The fork servers of a drill: most of a run's seconds are imports, and a process that has them behind it can be forked.

A fault is planted in the forked process as in one that was started afresh: before the first line of ours, by the same start-up code.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from stackproof.base import processes
from stackproof.drill import forking
from stackproof.drill.forkserver import ROOM
from stackproof.drill.inject import Site
from stackproof.drill.table import STACK, Call, ForkedSuites
from stackproof.stack import environments, stacks, startup

_FEWEST = 4
"""Runs for which it pays to import beforehand."""
_ROOM_BYTES = 1 << 14
_STARTS_S = 120.0
_LOOK_S = 0.05

Run = tuple[Call, Path]
Key = tuple[Path, tuple[str, ...]]


@dataclass
class ForkServers:
    """What can be forked, by interpreter and by what was imported."""

    rows: Sequence[ForkedSuites] = ()
    folder: Path = Path()
    _sockets: dict[Key, Path] = field(default_factory=dict)
    _started: list[processes.Process] = field(default_factory=list)
    _mark: str = field(default_factory=processes.new_mark)

    def offer(self, site: Site, runs: Sequence[Run]) -> None:
        """Let the processes of a run at a site be forked, if there is a server for it."""
        for call, python in runs:
            if found := self._sockets.get(self._key(call, python)):
                site.variables[forking.SERVER] = str(found)

    def counted(self) -> dict[str, int]:
        """Return how many processes were forked, and how many asked for it and were started afresh."""
        lines = [line for log in self.folder.glob("*.log") for line in log.read_text(encoding="utf-8").splitlines()]
        words = Counter(line.partition(":")[0] for line in lines)
        return {"processes forked": words["forked"], "processes that could not be forked": words["afresh"]}

    def start(self, runs: Iterable[Run]) -> None:
        """Start a server for all that enough of these runs would ask of it."""
        wanted = Counter(self._key(call, python) for call, python in runs)
        chosen = [key for key, count in wanted.items() if key[1] and count >= _FEWEST]
        sockets = {key: self.folder / f"{number}.socket" for number, key in enumerate(chosen)}
        self._started += [self._start(key, path) for key, path in sockets.items()]
        until = time.monotonic() + _STARTS_S
        for server, (key, path) in zip(self._started, sockets.items(), strict=True):
            while not path.exists() and server.poll() is None and time.monotonic() < until:
                time.sleep(_LOOK_S)
            if path.exists():
                self._sockets[key] = path

    def end(self) -> None:
        """End them, and whatever is left of what they forked."""
        for server in self._started:
            processes.end_tree(self._mark, server)

    def _start(self, key: Key, path: Path) -> processes.Process:
        python, modules = key
        guarded = startup.guarded(stacks.load(STACK), os.environ, bool(environments.stamp(python.parent.parent)))
        variables = {**guarded, "PYTHONPATH": "", ROOM: "." * _ROOM_BYTES}
        command = [str(python), str(forking.PROGRAM), str(path), *modules]
        with path.with_suffix(".log").open("wb") as output:
            return processes.start(command, output, variables, self._mark)

    def _key(self, call: Call, python: Path) -> Key:
        """Return the interpreter and the modules of the first row that has all that the suites of a call import; else nothing."""
        suites = call.suites or (call.verb,)
        rows = [[row for row in self.rows if name in row.suites] for name in suites]
        asked = {name for found in rows for row in found for name in row.modules}
        enough = [row.modules for row in self.rows if asked <= set(row.modules)] if all(rows) else []
        return python, next(iter(enough), ())


@contextmanager
def serving(servers: ForkServers, runs: Iterable[Run]) -> Iterator[ForkServers]:
    """Start what these runs need, and end it."""
    servers.folder.mkdir(parents=True, exist_ok=True)
    try:
        servers.start(runs)
        yield servers
    finally:
        servers.end()

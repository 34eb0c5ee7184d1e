"""Groups of ranks that several checks look at: a launch costs seconds, so it happens once, also when it fails."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from stackproof.ranks.blame import Traces
from stackproof.ranks.launch import Arrangement, launch
from stackproof.ranks.rows import RowRunner
from stackproof.record.records import Figure
from stackproof.stack import capabilities
from stackproof.stack.stacks import Stack


@dataclass(frozen=True)
class _Arranged:
    arrangement: Arrangement

    @property
    def note(self) -> str:
        """What such a group does not prove, to be put behind a sentence."""
        return f"; {self.arrangement.note}" if self.arrangement.note else ""


@dataclass(frozen=True)
class Group(_Arranged):
    """The ranks' evidence of one launch, in order of rank, how they were arranged, and where their files are."""

    folder: Path
    ranks: list[dict[str, Any]]

    @property
    def traces(self) -> Traces:
        """The files that the ranks left."""
        return Traces(self.folder, len(self.ranks))


def require_group(stack: Stack, world_size: int, backend: str, figures: dict[str, Figure]) -> None:
    """Note the world size; fewer ranks than the stack asks for prove no collective, however right their results are.

    Raises:
        CapabilityMissing: there are too few; what was tried was right as far as it goes.
    """
    figures["world size"] = world_size
    if world_size < stack.least_ranks:
        capabilities.withhold(
            "a-card-each",
            f"{stack.definition}: a collective needs {stack.least_ranks} ranks, and {backend} had cards for "
            f"{world_size}: its results are right there, and nothing was exchanged between ranks",
        )


@dataclass(frozen=True)
class Cases(_Arranged):
    """A group that works through cases, each of which has an outcome of its own, whatever became of the others."""

    runner: RowRunner

    @property
    def folder(self) -> Path:
        """Where the ranks keep their tensors."""
        return self.runner.folder


class Launches:
    """Launches programs on ranks, and remembers each outcome; `checked`: whether the preflight runs before each."""

    def __init__(
        self,
        stack: Stack,
        folder: Path,
        deadline_scale: float,
        checked: bool = True,
        progress: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.stack, self._folder, self._scale, self._checked = stack, folder, deadline_scale, checked
        self._progress = progress
        self._known: dict[str, Group | Exception] = {}
        self._cases: dict[str, Cases] = {}

    def cases(self, program: str, arrangement: Arrangement, arguments: dict[str, Any], deadline_s: float) -> Cases:
        """Return the group that works through the cases of a program; it is launched when the first outcome is asked for."""
        key = json.dumps([program, asdict(arrangement), arguments], sort_keys=True)
        if key not in self._cases:
            start = partial(self, program, arrangement, deadline_s=deadline_s)
            folder = self._place(f"cases of {key}", arrangement)
            runner = RowRunner(start, [], len(arrangement.cards), folder, arguments=arguments)
            self._cases[key] = Cases(arrangement, runner)
        return self._cases[key]

    def __call__(
        self,
        program: str,
        arrangement: Arrangement,
        arguments: dict[str, Any],
        deadline_s: float,
        *,
        within_s: float = 0.0,
        environment: Mapping[str, str] | None = None,
        checked: bool | None = None,
    ) -> Group:
        """Return the group that ran `module:function` with these arguments.

        Raises:
            PreflightRefusal, CheckFailed, CheckCrashed, CheckHung: as `launch` found; the same again for every check that asks.
        """
        options: dict[str, Any] = {
            "within_s": within_s * self._scale,
            "environment": dict(environment or {}),
            "checked": self._checked if checked is None else checked,
        }
        key = json.dumps([program, asdict(arrangement), arguments, options], sort_keys=True)
        options["progress"] = self._progress
        if key not in self._known:
            place = self._place(key, arrangement)
            while place.exists():  # of a process that was ended: what it left would tell of other ranks
                place = place.with_name(f"{place.name}-again")
            self._known[key] = self._attempt(program, arrangement, arguments, deadline_s, place, options)
        outcome = self._known[key]
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def _place(self, key: str, arrangement: Arrangement) -> Path:
        return self._folder / f"{arrangement.backend}-{len(arrangement.cards)}-{zlib.crc32(key.encode()):08x}"

    def _attempt(
        self,
        program: str,
        arrangement: Arrangement,
        arguments: dict[str, Any],
        deadline_s: float,
        folder: Path,
        options: dict[str, Any],
    ) -> Group | Exception:
        try:
            ranks = launch(program, self.stack, arrangement, arguments, folder, deadline_s * self._scale, **options)
        except Exception as error:
            return error
        return Group(arrangement, folder, ranks)

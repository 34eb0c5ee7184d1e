"""Groups of ranks that several checks look at: a launch costs seconds, so it happens once, also when it fails."""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stackproof.distributed.launch import Arrangement, launch
from stackproof.stacks import Stack


@dataclass(frozen=True)
class Group:
    """The ranks' evidence of one launch, in order of rank, how they were arranged, and where their files are."""

    arrangement: Arrangement
    folder: Path
    ranks: list[dict[str, Any]]

    @property
    def note(self) -> str:
        """What such a group does not prove, to be put behind a sentence."""
        return f"; {self.arrangement.note}" if self.arrangement.note else ""


class Launches:
    """Launches programs on ranks, and remembers each outcome."""

    def __init__(self, stack: Stack, folder: Path, deadline_scale: float) -> None:
        self.stack, self._folder, self._scale = stack, folder, deadline_scale
        self._known: dict[str, Group | Exception] = {}

    def __call__(self, program: str, arrangement: Arrangement, arguments: dict[str, Any], deadline_s: float) -> Group:
        """Return the group that ran `module:function` with these arguments.

        Raises:
            CheckFailed, CheckCrashed, CheckHung: as `launch` found; the same again for every check that asks.
        """
        key = json.dumps([program, arrangement.backend, arrangement.cards, arguments], sort_keys=True)
        if key not in self._known:
            self._known[key] = self._attempt(program, arrangement, arguments, deadline_s, self._place(key, arrangement))
        found = self._known[key]
        if isinstance(found, Exception):
            raise found
        return found

    def _place(self, key: str, arrangement: Arrangement) -> Path:
        return self._folder / f"{arrangement.backend}-{len(arrangement.cards)}-{zlib.crc32(key.encode()):08x}"

    def _attempt(
        self, program: str, arrangement: Arrangement, arguments: dict[str, Any], deadline_s: float, folder: Path
    ) -> Group | Exception:
        try:
            ranks = launch(program, self.stack, arrangement, arguments, folder, deadline_s * self._scale)
        except Exception as error:
            return error
        return Group(arrangement, folder, ranks)

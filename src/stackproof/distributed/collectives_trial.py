"""Outcomes of all rows on one group, over as many launches as it takes: a row that kills the ranks costs a launch, not the rest."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..checks import CheckCrashed, CheckEnded, CheckFailed, CheckHung, CheckInconclusive
from ..device import HOST, Device
from ..stacks import Stack
from . import libraries
from .collectives_data import MOST_RANKS
from .collectives_rows import COUNTS, SHORT, Row
from .collectives_rules import Lack, lacking
from .launch import Arrangement

PROGRAM = "stackproof.distributed.collectives:check"
MOST_LAUNCHES = 6
SIZES = (2, 3)

Outcome = dict[str, Any]
Start = Callable[[dict[str, Any]], object]


@dataclass(frozen=True)
class World:
    """A group to try, the element counts to try in it, and the torch device type of its tensors."""

    arrangement: Arrangement
    counts: tuple[int, ...]
    device: str

    @property
    def size(self) -> int:
        """The world size."""
        return len(self.arrangement.cards)

    @property
    def label(self) -> str:
        """How sentences name it, with what it does not prove."""
        note = f"; {self.arrangement.note}" if self.arrangement.note else ""
        return f"{self.arrangement.backend}, {self.size} rank{'s' if self.size > 1 else ''}{note}"

    def lack(self, row: Row) -> Lack | None:
        """Return the row of data that says that the backend does not offer this, or None."""
        return lacking(row, self.arrangement.backend, self.device)

    def tries(self, row: Row) -> bool:
        """Whether the row is given to the ranks; the others would end them."""
        lack = self.lack(row)
        return lack is None or lack.tried


def worlds(stack: Stack, backend: str, cards: Sequence[Device]) -> list[World]:
    """Return the groups that answer for a backend of the stack: two ranks with all counts, then an odd number and all cards.

    Odd world sizes find what powers of two hide. Where the library wants a card for each rank and there is one, it is tried alone:
    that has bugs of its own (https://github.com/NVIDIA/nccl/issues/1950).
    """
    library = libraries.serving(backend)
    if stack.device not in library.devices:
        note = f"{library.name} takes no tensors of {stack.device}, so they are the host's"
        found = [Arrangement(backend, (0,) * size, note, on_host=True) for size in SIZES]
    elif len(cards) > 1 or library.own_cards:
        sizes = sorted({min(size, len(cards), MOST_RANKS) for size in (*SIZES, len(cards))})
        found = [Arrangement(backend, tuple(card.index for card in cards[:size])) for size in sizes]
    else:
        note = "" if cards[0].shareable else f"the ranks share {cards[0]}"
        found = [Arrangement(backend, (cards[0].index,) * size, note) for size in SIZES]
    device = HOST.kind if found[0].on_host else stack.device
    return [World(arrangement, SHORT if number else COUNTS, device) for number, arrangement in enumerate(found)]


@dataclass
class Trial:
    """Runs rows through `start`, which launches the program with the arguments that it is given, once somebody asks for one."""

    start: Start
    rows: list[Row]
    world: World
    folder: Path
    row_s: float
    ranks: list[Outcome] = field(default_factory=list)
    """What the ranks said of themselves when the first launch began: backend and implementation, in order of rank."""
    _ended: dict[str, list[Outcome] | CheckEnded] = field(default_factory=dict)

    def outcome(self, row: Row) -> list[Outcome]:
        """Return what each rank found, in order of rank.

        Raises:
            CheckFailed, CheckCrashed, CheckHung: the row ended its ranks so, or no group formed.
            CheckInconclusive: too many rows before it did.
        """
        if not self._ended:
            self._run()
        found = self._ended[row.name]
        if isinstance(found, CheckEnded):
            raise found
        return found

    def _run(self) -> None:
        left, last = [row.name for row in self.rows], ""
        for number in range(MOST_LAUNCHES):
            last, left = self._attempt(left, self.folder / str(number))
            if not left:
                return
        for name in left:
            self._ended[name] = CheckInconclusive(
                f"was not reached: {MOST_LAUNCHES} launches ended before it, the last in {last}"
            )

    def _attempt(self, names: list[str], folder: Path) -> tuple[str, list[str]]:
        """Launch once; return the row in which it ended, if it did, and those that are still to do."""
        folder.mkdir(parents=True, exist_ok=True)
        arguments = {"rows": names, "counts": self.world.counts, "row_s": self.row_s, "outcomes": str(folder)}
        failure = _failure(lambda: self.start(arguments))
        ranks = [left_by(folder, rank) for rank in range(self.world.size)]
        self.ranks = self.ranks or [found[""] for found in ranks if found and "" in found]
        for name in names:
            if all(found and name in found for found in ranks):
                self._ended[name] = [found[name] for found in ranks if found]
        left = [name for name in names if name not in self._ended]
        if failure is None and left:
            failure = CheckFailed(f"the ranks ended without an error and without an outcome for {left[0]}")
        if failure is None:
            return "", []
        if None in ranks:  # no group formed
            self._ended |= dict.fromkeys(left, failure)
            return "", []
        self._ended[left[0]] = self._expired(left[0], ranks, folder) or failure
        return left[0], left[1:]

    def _expired(self, name: str, ranks: Sequence[dict[str, Outcome] | None], folder: Path) -> CheckHung | None:
        """Return the hang, if a rank gave up waiting, with what the ranks said that had come to an end."""
        hung = [rank for rank in range(self.world.size) if (folder / f"rank{rank}.expired").exists()]
        if not hung:
            return None
        said = [
            f"rank {rank} said: {found[name]['refusal']['said']}"
            for rank, found in enumerate(ranks)
            if found and name in found and found[name]["refusal"]
        ]
        who = " and ".join(f"rank {rank}" for rank in hung)
        return CheckHung("; ".join([f"{who} did not come back from {name} within {self.row_s:.0f} s", *said]))


def _failure(action: Callable[[], object]) -> CheckEnded | None:
    try:
        action()
    except (CheckFailed, CheckCrashed, CheckHung) as ended:
        return ended
    return None


def left_by(folder: Path, rank: int) -> dict[str, Outcome] | None:
    """Return the outcomes that a rank left, by name of row; None if it never began. A line that was cut off has no outcome."""
    try:
        text = (folder / f"rank{rank}.outcomes").read_text(encoding="utf-8")
    except OSError:
        return None
    whole = [line for line in text.splitlines(keepends=True) if line.endswith("\n")]
    return {outcome["row"]: outcome for outcome in map(json.loads, whole)}

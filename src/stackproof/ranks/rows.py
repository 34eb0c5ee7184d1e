"""Rows that ranks work through in one launch: each outcome is kept as it comes, over as many launches and processes as it takes.

A row that ends its ranks costs a launch, not the rest; a row that has an outcome is neither begun again nor blamed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stackproof.base import files
from stackproof.base.errors import Refusal
from stackproof.base.files import write_atomically
from stackproof.record.checks import CheckCrashed, CheckEnded, CheckFailed, CheckHung, CheckInconclusive
from stackproof.record.outcomes import Outcome, left_by

MOST_LAUNCHES = 6
_KINDS = {kind.__name__: kind for kind in (CheckFailed, CheckCrashed, CheckHung)}


@dataclass
class RowRunner:
    """Runs rows through `start`, which launches a program with the arguments that it is given, once somebody asks for one.

    The program leaves an outcome a line in `rankN.outcomes` of the folder `outcomes`: the first, of row "", says who the rank is,
    and names the `rows` where nobody chose them.
    """

    start: Callable[[dict[str, Any]], object]
    rows: list[str]
    """In their order; none: those that the ranks announce."""
    size: int
    folder: Path
    arguments: dict[str, Any] = field(default_factory=dict)
    ranks: list[Outcome] = field(default_factory=list)
    """What the ranks reported of themselves when the first launch began, in order of rank."""
    _ended: dict[str, list[Outcome] | CheckEnded] = field(default_factory=dict)
    _failure: CheckEnded | Refusal | None = None

    def outcome(self, name: str) -> list[Outcome]:
        """Return what each rank found, in order of rank.

        Raises:
            CheckFailed, CheckCrashed, CheckHung: the row ended its ranks so, or no group formed.
            CheckInconclusive: too many rows before it did.
            PreflightRefusal: nothing was started.
        """
        if not self._ended and self._failure is None:
            self._run()
        result = self._ended.get(name, self._failure)
        if not isinstance(result, list):
            raise result or CheckFailed(f"the ranks ended without an error, and never began {name}")
        return result

    def _run(self) -> None:
        left, last = list(self.rows), ""
        for number in range(MOST_LAUNCHES):
            last, left = self._attempt(left, self.folder / str(number))
            named = self.rows or not last  # ranks that were ended before they named their rows are asked again
            if not left and named:
                return
        for name in left:
            self._ended[name] = CheckInconclusive(
                f"was not reached: {MOST_LAUNCHES} launches ended before it, the last in {last}"
            )

    def _attempt(self, names: list[str], folder: Path) -> tuple[str, list[str]]:
        """Launch once, or take over the launch of an earlier process; return the row in which it ended, and those still to do."""
        known = folder.is_dir()
        if known:  # nothing is kept of a launch that was ended from outside, or that nobody saw fail
            asked, kind, reason = files.try_read_json(folder / "ended.json") or ([], "", "")
            failure: CheckEnded | None = _KINDS[kind](reason) if kind else None
        else:
            asked, failure = names, self._launch(names, folder)
        ranks = [left_by(folder, rank) for rank in range(self.size)]
        self.ranks = self.ranks or [groups[""] for groups in ranks if groups and "" in groups]
        self.rows = self.rows or (self.ranks or [{}])[0].get("rows", [])
        for name in asked or self.rows:
            if name not in self._ended and all(groups and name in groups for groups in ranks):
                self._ended[name] = [groups[name] for groups in ranks if groups]
        left, undone = ([name for name in some or self.rows if name not in self._ended] for some in (names, asked))
        if known and failure is None:
            return "a process that was ended from outside", left
        if failure is None and left:
            failure = CheckFailed(f"the ranks ended without an error and without an outcome for {left[0]}")
        if failure is None:
            return "", []
        if None in ranks:  # no group formed
            self._ended |= dict.fromkeys(left, failure)
            self._failure = failure
            return "", []
        if undone:
            last = undone[0]
            self._ended[last] = _with_refusals(failure, last, ranks) if isinstance(failure, CheckHung) else failure
        else:
            last = (asked or self.rows)[-1]
            self._ended[last] = type(failure)(f"every row had come to its end; as the ranks left, {failure}")
        return last, [name for name in left if name != last]

    def _launch(self, names: list[str], folder: Path) -> CheckEnded | None:
        folder.mkdir(parents=True)
        fields = {"rows": names, "outcomes": str(folder), "kept": str(self.folder)}
        failure: CheckEnded | None = None
        try:
            self.start({**self.arguments, **fields})
        except (CheckFailed, CheckCrashed, CheckHung) as ended:
            failure = ended
        except Refusal as refused:
            self._failure = refused
            raise
        kept = [names, type(failure).__name__, str(failure)] if failure else []
        write_atomically(folder / "ended.json", json.dumps(kept))
        return failure


def _with_refusals(hung: CheckHung, name: str, ranks: Sequence[dict[str, Outcome] | None]) -> CheckHung:
    """Add what ranks said that refused the row for which others hung."""
    lines = [
        f"rank {rank} said: {groups[name]['refusal']['message']}"
        for rank, groups in enumerate(ranks)
        if groups and groups.get(name, {}).get("refusal")
    ]
    return CheckHung("; ".join([str(hung), *lines]))

"""What a run outlived: it went on after a complaint, to its good end or for some more steps."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cached_property

from stackproof.triage import rules
from stackproof.triage.deaths import People, Weight, deaths, of_role
from stackproof.triage.incidents import Incident
from stackproof.triage.probes import Hit, Position
from stackproof.triage.scan import Evidence

_ENDED = "it was ended by "
_EXITED = "it ended with "
_STOPPED = re.compile(
    r"\b(?:[Rr]eceived|[Gg]ot) (?:signal )?SIG|^raised (?:\w+\.)*(?:KeyboardInterrupt|CancelledError)\b"
)
_TAIL = 200  # lines that may follow a sign of a good end
_STEPS = 3
"""So many signs of work after an exception show that somebody handled it; another rank may print one or two before it waits."""


class Survival:
    """Whether what went wrong was outlived."""

    def __init__(self, evidence: Evidence, candidates: Iterable[Incident]) -> None:
        self._evidence = evidence
        self._candidates = tuple(candidates)
        self.end = good_end(evidence)

    def outlived(self, row: Incident) -> bool:
        """Whether the run went on after it: somebody handled it, it was a warning, or somebody wanted the end."""
        return not _lasts(row) and (self._reached_its_end(row) or self._went_on(row))

    def _reached_its_end(self, row: Incident) -> bool:
        end = self.end.place if self.end else None
        if self.end is None or end is None or end.source != row.first.place.source or _other_rank(self.end, row):
            return False
        later = [other for other in self._candidates if other.first.place > end]
        if _stopped(row):
            return all(map(_stopped, later))
        return not later and not self._dies_after(end)

    def _went_on(self, row: Incident) -> bool:
        """Whether the same file shows work after it, and no end of a process after that."""
        last = max(hit.place for hit in row.hits)
        work = [hit for hit in self._work(row.hint) if hit.place.source == last.source and hit.place > last]
        if len(work) < (1 if row.hint else _STEPS) or all(_other_rank(hit, row) for hit in work):
            return False
        return not self._dies_after(max(hit.place for hit in work))

    def _dies_after(self, place: Position) -> bool:
        return any(other > place for other in self._deaths if other.source == place.source)

    def _work(self, weak: bool) -> Iterable[Hit]:
        return {hit.place: hit for hit in of_role(self._evidence, rules.ALIVE, weak)}.values()

    @cached_property
    def _deaths(self) -> tuple[Position, ...]:
        found = deaths(self._evidence, People(self._evidence))
        return tuple(death.hit.place for death in found if death.weight <= Weight.EXIT)


def good_end(evidence: Evidence) -> Hit | None:
    """Return the last line that shows a good end, if it stands at the end of its file: what a run prints when it is through."""
    hits = (hit for hit in of_role(evidence, rules.FINISHED) if not evidence.files[hit.place.source].damage)
    last = (hit for hit in hits if evidence.files[hit.place.source].lines - hit.place.line <= _TAIL)
    return max(last, key=lambda hit: hit.place, default=None)


def _lasts(row: Incident) -> bool:
    """Whether it remains however the run ends: results that are wrong, and processes that are dead."""
    return row.lasting or (row.title.startswith((_ENDED, _EXITED)) and not _stopped(row))


def _stopped(row: Incident) -> bool:
    """Whether somebody told it to stop: a server has no other end."""
    said = row.first.block.exception if row.first.block else ""
    return bool(not row.signature and (_STOPPED.search(row.first.text) or _STOPPED.search(f"raised {said}")))


def _other_rank(hit: Hit, row: Incident) -> bool:
    """Whether a line is of a rank that it did not happen to."""
    return hit.who[0] == "rank" and row.who[0][0] == "rank" and hit.who not in row.who

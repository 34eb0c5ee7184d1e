"""What a run outlived: only work that was done after it counts, never an orderly end of the process; earlier runs in the same file."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import pairwise

from stackproof.triage import rules
from stackproof.triage.deaths import People, Weight, deaths, of_role
from stackproof.triage.incidents import Incident
from stackproof.triage.probes import Hit, Position
from stackproof.triage.scan import LATE, Evidence

_ENDED = "it was ended by "
_EXITED = "it ended with "
_STOPPED = re.compile(
    r"\b(?:[Rr]eceived|[Gg]ot) (?:signal )?SIG|^raised (?:\w+\.)*(?:KeyboardInterrupt|CancelledError)\b"
)
_WARNING = re.compile(r"\b[A-Z]\w*Warning: |(?<!NCCL )\bWARN(?:ING)?\b|(?:^|: )W(?:\d{3,4})? |\[W[ :\d]")
_PASSED = r"(?<!not )(?<!not be )(?<!never )\b(?:resolved|recovered|resuming|retried|sent help message)\b"
_LEVEL = r"\b(?:ERROR|FATAL|CRITICAL)\b|(?:^|: |\[)[EF](?:\d{3,4})? "
_QUIET = re.compile(
    rf"^(?!.*(?:{_LEVEL}))(?:.*(?:{_WARNING.pattern}|{_PASSED}|: [WI] \S+:\d+\]|help / error messages))"
)
_EVENT = re.compile(r"\bWarning +[A-Z]\w+ ")  # of Kubernetes
_STEPS = 3
"""So many signs of work after an exception show that somebody handled it; another rank may print one or two before it waits."""
_AT_ONCE, _HANDLED_WITHIN = 3, 60  # lines after a failure within which somebody says that it was dealt with


class Survival:
    """Whether what went wrong was outlived."""

    def __init__(self, evidence: Evidence, candidates: Iterable[Incident]) -> None:
        self._evidence = evidence
        self._candidates = tuple(candidates)
        self._done = max(
            _late(evidence, [*of_role(evidence, rules.FINISHED), *_reached(evidence)]), key=_place, default=None
        )
        claimed = _late(evidence, of_role(evidence, rules.CLAIMED))
        self.end = max((*claimed, *([self._done] if self._done else [])), key=_place, default=None)
        """The line that shows a good end: that the work was done, or at least somebody who says so."""

    def outlived(self, row: Incident) -> bool:
        """Whether the run went on after it: somebody handled it, it was a warning, or somebody wanted the end."""
        if self._lasts(row):
            return False
        if self._quiet(row):
            return True
        mild = not row.hint and (all(_WARNING.search(hit.text) for hit in row.hits) or self._dealt_with(row, _AT_ONCE))
        event = all(_EVENT.search(hit.text) for hit in row.hits)
        end = self.end if mild or _stopped(row) else self._done
        return self._reached(end, row) or self._went_on(row, 1 if mild or row.hint or event else _STEPS)

    def disputed(self, rows: list[Incident]) -> bool:
        """Whether nothing but complaints is left, and somebody says later that all is well."""
        return bool(rows) and all(row.hint and self._reached(self.end, row) for row in rows)

    def in_earlier_run(self, row: Incident) -> bool:
        """Whether the same file shows a new start after it, and what became of that."""
        return all(hit.place < self._restarts.get(hit.place.source, hit.place) for hit in row.hits)

    def _quiet(self, row: Incident) -> bool:
        """Whether it is a warning of no signature, or says itself that it passed, in a log that shows that the work was done."""
        if row.signature or not row.hint or not all(_QUIET.search(hit.text) for hit in row.hits):
            return False
        place = row.first.place
        return bool(
            self.end and self.end.place.source == place.source and not self._dies_after(min(place, self.end.place))
        )

    def _lasts(self, row: Incident) -> bool:
        if row.title.startswith((_ENDED, _EXITED)) and not _stopped(row):
            return True
        return row.lasting and not self._dealt_with(row, _HANDLED_WITHIN)

    def _dealt_with(self, row: Incident, within: int) -> bool:
        last = max(hit.place for hit in row.hits)
        dealt = (hit.place for hit in of_role(self._evidence, rules.HANDLED) if hit.place.source == last.source)
        return any(0 <= place.line - last.line <= within for place in dealt)

    def _reached(self, end: Hit | None, row: Incident) -> bool:
        if end is None or end.place.source != row.first.place.source or _other_rank(end, row):
            return False
        later = [other for other in self._candidates if other.first.place > end.place]
        if _stopped(row):
            return all(map(_stopped, later))
        return not later and end.place > row.hits[0].place and not self._dies_after(end.place)

    def _went_on(self, row: Incident, least: int) -> bool:
        last = max(hit.place for hit in row.hits)
        work = [hit for hit in self._work(least == 1) if hit.place.source == last.source and hit.place > last]
        if len(work) < least or all(_other_rank(hit, row) for hit in work):
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

    @cached_property
    def _restarts(self) -> dict[int, Position]:
        failed = [*self._deaths, *(row.first.place for row in self._candidates)]
        shown = [*failed, *map(_place, self._work(weak=False)), *([self.end.place] if self.end else [])]
        found: dict[int, Position] = {}
        for ending in (row for row in rules.endings() if row.role == rules.START):
            tally = self._evidence.tally(ending.probe.key)
            for one, other in pairwise(sorted({*map(_place, tally.kept), *map(_place, tally.last.values())})):
                alike = one.source == other.source
                if alike and any(one < place < other for place in failed) and any(place > other for place in shown):
                    found[one.source] = max(other, found.get(one.source, other))
        return found


def _place(hit: Hit) -> Position:
    return hit.place


def _late(evidence: Evidence, hits: Iterable[Hit]) -> list[Hit]:
    files = evidence.files
    ends = {n: file.lines - LATE for n, file in enumerate(files) if not file.damage}
    return [hit for hit in hits if hit.place.line >= ends.get(hit.place.source, math.inf)]


def _reached(evidence: Evidence) -> Iterator[Hit]:
    ends: list[Hit] = []
    for ending in (row for row in rules.endings() if row.role == rules.COUNTER):
        tally = evidence.tally(ending.probe.key)
        states = sorted({*tally.kept, *tally.last.values()}, key=_place)
        if not states:
            continue
        totals = Counter(hit.groups["of"] for hit in states)
        whole = max(totals, key=lambda of: (totals[of], int(of)))
        last = [hit for hit in states if hit.groups["of"] == whole][-1]
        if last.groups["n"] != whole:
            return
        ends.append(last)
    yield from ends


def _stopped(row: Incident) -> bool:
    said = row.first.block.exception if row.first.block else ""
    return bool(not row.signature and (_STOPPED.search(row.first.text) or _STOPPED.search(f"raised {said}")))


def _other_rank(hit: Hit, row: Incident) -> bool:
    return hit.who[0] == "rank" and row.who[0][0] == "rank" and hit.who not in row.who

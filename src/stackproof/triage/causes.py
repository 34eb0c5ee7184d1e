"""The root cause of a failed run: what the first rank to fail said, not what the log ends with; and what the run outlived."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from operator import attrgetter

from stackproof.triage import rules
from stackproof.triage.deaths import ABORTED, CUT, Death, People, Weight, deaths, of_role
from stackproof.triage.rules import CERTAIN, CONSEQUENCE, FAULT, NOISE, UNKNOWN, Signature
from stackproof.triage.scan import LATE, Evidence
from stackproof.triage.search import Hit, Position, Who


@dataclass(frozen=True)
class Incident:
    """One thing that happened: to whom, what it means, what to do, and the lines that prove it.

    `signature` is empty for a failure that no signature knows; `who` names the ranks, the first to fail first.
    """

    signature: str
    kind: str
    title: str
    cause: str
    remedy: str
    link: str
    certainty: str
    who: tuple[Who, ...]
    count: int
    hits: tuple[Hit, ...]
    lasting: bool = False
    """Whether it stays a failure of a run that went on."""
    general: bool = False
    """Whether a more special one that is said with it knows more."""
    hint: bool = False
    """Whether it is only a library's complaint."""

    @property
    def first(self) -> Hit:
        return self.hits[0]


@dataclass
class Diagnosis:
    """What a log says: the root cause if anything failed, further independent faults, what follows, what is harmless."""

    root: Incident | None = None
    others: list[Incident] = field(default_factory=list)
    consequences: list[Incident] = field(default_factory=list)
    survived: list[Incident] = field(default_factory=list)
    earlier: list[Incident] = field(default_factory=list)
    """What ended earlier runs in the same file."""
    noise: list[Incident] = field(default_factory=list)
    collective: str = ""
    end: Hit | None = None
    """The line that shows a good end."""
    ordered: bool = True
    """Whether the log shows which of several failures came first."""


_STOPPED = re.compile(
    r"\b(?:[Rr]eceived|[Gg]ot) (?:signal )?SIG|^raised (?:\w+\.)*(?:KeyboardInterrupt|CancelledError)\b"
)
_WARNING = re.compile(r"\b[A-Z]\w*Warning: |(?<!NCCL )\bWARN(?:ING)?\b|(?:^|: )W(?:\d{3,4})? |\[W[ :\d]")
_EVENT = re.compile(r"\bWarning +[A-Z]\w+ ")  # of Kubernetes
_place = attrgetter("place")
_STEPS = 3
"""So many signs of work after an exception show that somebody handled it; another rank may print one or two before it waits."""
_AT_ONCE, _HANDLED_WITHIN = 3, 60  # lines after a failure within which somebody says that it was dealt with


class Survival:
    """Whether what went wrong was outlived."""

    def __init__(self, known: _Known, candidates: Iterable[Incident]) -> None:
        evidence = self._evidence = known.evidence
        self._deaths = tuple(death.hit.place for death in known.deaths if death.weight <= Weight.EXIT)
        self._candidates = tuple(candidates)
        self._done = max(
            _late(evidence, [*of_role(evidence, rules.FINISHED), *_reached(evidence)]), key=_place, default=None
        )
        claimed = _late(evidence, of_role(evidence, rules.CLAIMED))
        self.end = max((*claimed, *([self._done] if self._done else [])), key=_place, default=None)
        """The line that shows a good end: that the work was done, or at least somebody who says so."""

    def outlived(self, row: Incident) -> bool:
        """Whether the run went on after it: somebody handled it, it was a warning, or somebody wanted the end."""
        ended = row.title.startswith(("it was ended by ", "it ended with ")) and not _stopped(row)
        if ended or (row.lasting and not self._dealt_with(row, _HANDLED_WITHIN)):
            return False
        mild = not row.hint and (all(_WARNING.search(hit.text) for hit in row.hits) or self._dealt_with(row, _AT_ONCE))
        event = all(_EVENT.search(hit.text) for hit in row.hits)
        end = self.end if mild or _stopped(row) else self._done
        return self.reached(end, row) or self._went_on(row, 1 if mild or row.hint or event else _STEPS)

    def in_earlier_run(self, row: Incident) -> bool:
        """Whether the same file shows a new start after it, and what became of that."""
        return all(hit.place < self._restarts.get(hit.place.source, hit.place) for hit in row.hits)

    def _dealt_with(self, row: Incident, within: int) -> bool:
        last = max(hit.place for hit in row.hits)
        dealt = (hit.place for hit in of_role(self._evidence, rules.HANDLED) if hit.place.source == last.source)
        return any(0 <= place.line - last.line <= within for place in dealt)

    def reached(self, end: Hit | None, row: Incident) -> bool:
        """Whether a line shows a good end after it."""
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
    def _restarts(self) -> dict[int, Position]:
        failed = [*self._deaths, *(row.first.place for row in self._candidates)]
        shown = [*failed, *map(_place, self._work(weak=False)), *([self.end.place] if self.end else [])]
        restarts: dict[int, Position] = {}
        for ending in rules.endings(rules.START):
            tally = self._evidence.tally(ending.probe.key)
            for start, other in pairwise(sorted({*map(_place, tally.kept), *map(_place, tally.last.values())})):
                alike = start.source == other.source
                if alike and any(start < place < other for place in failed) and any(place > other for place in shown):
                    restarts[start.source] = max(other, restarts.get(start.source, other))
        return restarts


def _late(evidence: Evidence, hits: Iterable[Hit]) -> list[Hit]:
    files = evidence.files
    ends = {n: file.lines - LATE for n, file in enumerate(files) if not file.damage}
    return [hit for hit in hits if hit.place.line >= ends.get(hit.place.source, math.inf)]


def _reached(evidence: Evidence) -> list[Hit]:
    ends: list[Hit] = []
    for ending in rules.endings(rules.COUNTER):
        tally = evidence.tally(ending.probe.key)
        states = sorted({*tally.kept, *tally.last.values()}, key=_place)
        if not states:
            continue
        totals = Counter(hit.groups["of"] for hit in states)
        whole = max(totals, key=lambda of: (totals[of], int(of)))
        last = [hit for hit in states if hit.groups["of"] == whole][-1]
        if last.groups["n"] != whole:
            return []
        ends.append(last)
    return ends


def _stopped(row: Incident) -> bool:
    raised = f"raised {row.first.block.exception}" if row.first.block else ""
    return bool(not row.signature and (_STOPPED.search(row.first.text) or _STOPPED.search(raised)))


def _other_rank(hit: Hit, row: Incident) -> bool:
    return hit.who[0] == "rank" and row.who[0][0] == "rank" and hit.who not in row.who


_MOST_LINES = 6
_MESSAGE_LINES = 8
_ONE_EVENT = 25  # lines within which a library says the same once more, and better
_GROUP = re.compile(r"\{(\w+)\}")


def judge(evidence: Evidence) -> Diagnosis:
    """Return what the evidence of one run amounts to."""
    known = _Known(evidence)
    diagnosis = Diagnosis(noise=[known.finding(row) for row in known.of(NOISE)])
    candidates = _candidates(known)
    later = Survival(known, candidates)
    diagnosis.end = later.end
    diagnosis.earlier = [row for row in candidates if later.in_earlier_run(row)]
    diagnosis.survived = [row for row in candidates if row not in diagnosis.earlier and later.outlived(row)]
    failed = [row for row in candidates if row not in diagnosis.earlier and row not in diagnosis.survived]
    # Where nothing but complaints is left, and somebody says later that all is well, neither is believed.
    if failed and all(row.hint and later.reached(later.end, row) for row in failed):
        diagnosis.survived, failed, diagnosis.end = diagnosis.survived + failed, [], None
    diagnosis.consequences = [row for row in failed if row.kind == CONSEQUENCE]
    ranked, diagnosis.ordered = _by_time([row for row in failed if row.kind == FAULT])
    if not ranked:
        ranked = _by_time(diagnosis.consequences)[0][:1]
    ranked = _special_first(ranked)
    diagnosis.root = ranked[0] if ranked else None
    diagnosis.others = [row for row in ranked[1:] if not row.hint]
    diagnosis.consequences = [row for row in diagnosis.consequences if row is not diagnosis.root]
    if diagnosis.root:
        diagnosis.collective = _collective(known, diagnosis.root)
    return diagnosis


class _Known:
    """What is known of one run before anything is judged: who is who, how each ended, which signatures are recognised."""

    def __init__(self, evidence: Evidence) -> None:
        self.evidence, self.people = evidence, People(evidence)
        self.deaths = deaths(evidence, self.people)
        seen = [row for row in rules.load_all() if evidence.tally(row.id).count]
        holds = {probe.key: bool(evidence.tally(probe.key).count) for row in seen for probe in row.conditions}
        wanted = {key: key.split("/")[1] == "context" for key in holds}
        self.rows = [row for row in seen if all(holds[probe.key] is wanted[probe.key] for probe in row.conditions)]

    def of(self, kind: str) -> list[Signature]:
        return [row for row in self.rows if row.kind == kind]

    def finding(self, row: Signature, hits: Iterable[Hit] | None = None) -> Incident:
        tally = self.evidence.tally(row.id)
        chosen = tally.edges if hits is None else list(hits)
        who = tuple(dict.fromkeys(map(self.people.who, chosen)))
        title = _GROUP.sub(lambda match: chosen[0].groups.get(match[1], "?"), row.title)
        facts = (title, row.cause, row.remedy, row.link, row.certainty)
        shown = chosen if len(chosen) <= _MOST_LINES else [*chosen[: _MOST_LINES - 1], chosen[-1]]
        return Incident(
            row.id, row.kind, *facts, who, tally.count, tuple(shown), lasting=row.lasting, general=row.general
        )

    def best(self, text: str) -> Signature | None:
        """Return the row that fits a text best: certain before likely, with conditions before without, the longer text first."""

        def precision(row: Signature) -> tuple[bool, bool, bool, bool, int]:
            return row.kind == NOISE, not row.general, row.certainty == CERTAIN, bool(row.context), row.longest

        return max((row for row in self.rows if row.probe.match(text)), key=precision, default=None)


def _candidates(known: _Known) -> list[Incident]:
    recognised = []
    for row in known.of(FAULT) + known.of(CONSEQUENCE):
        if own := [hit for hit in known.evidence.tally(row.id).edges if known.best(hit.text) is row]:
            recognised.append(known.finding(row, own))
    return recognised + _unexplained(known, recognised) or _ended(known)


def _ended(known: _Known) -> list[Incident]:
    rows = known.deaths
    followed = [death for death in rows if death.weight is Weight.FOLLOWED]
    for weight in (Weight.HINT, Weight.SENTENCE):
        complaints = [death for death in rows if death.weight is weight and known.best(death.hit.text) is None]
        if complaints and (weight is Weight.HINT or not followed):
            vague = weight is Weight.SENTENCE
            return [replace(_unknown(death, [death], []), hint=not followed, general=vague) for death in complaints]
    return [replace(_unknown(death, followed[:1], []), kind=CONSEQUENCE) for death in followed[:1]]


def _unexplained(known: _Known, recognised: list[Incident]) -> list[Incident]:
    chains, by_who = [hit.place for hit in of_role(known.evidence, rules.CHAIN)], dict[Who, list[Death]]()
    for death in known.deaths:
        by_who.setdefault(death.who, []).append(death)
    unknown: list[tuple[Weight, Incident]] = []
    followed = _first_consequences(known)
    codes = (death for ended in by_who.values() for death in ended if death.weight in (Weight.EXIT, Weight.SIGNAL))
    blamed = {death.who for death in codes if death.who[0] == "rank"}
    for who, ended in by_who.items():
        left = [death for death in ended if known.best(death.words) is None]
        decisive = _decisive(left, followed.get(who))
        faults = [row for row in recognised if row.kind == FAULT and who in row.who]
        if decisive is None or (faults and not _apart(decisive, faults)):
            continue
        kind = CONSEQUENCE if any(row.certainty == CERTAIN for row in faults) else FAULT
        unknown.append((decisive.weight, replace(_unknown(decisive, left, chains), kind=kind)))
    known_of = [*recognised, *(row for _, row in unknown)]
    left_over = [row for weight, row in unknown if not _silent(weight, row, known_of)]
    if len(blamed) == 1:  # an exception that names no rank is that rank's
        nameless = [row.who[0][0] != "rank" and row.first.block is not None for row in left_over]
        left_over = [
            replace(row, who=tuple(blamed)) if no else row for row, no in zip(left_over, nameless, strict=True)
        ]
    return _merged(left_over)


def _silent(weight: Weight, row: Incident, findings: list[Incident]) -> bool:
    """Whether an end says nothing beside what else is known.

    An exit code does not where anything was said; of nobody in particular, also where a peer was lost. A signal does not where
    it may be the end of a fault that has no rank.
    """
    nameless = row.who[0][0] != "rank"
    others = [other for other in findings if other is not row]
    if weight is Weight.EXIT:
        explained = any(other.kind == FAULT and (other.signature or other.first.block) for other in others)
        return explained or (nameless and any(other.kind == CONSEQUENCE for other in others))
    faults = [other for other in others if other.kind == FAULT and other.signature]
    return weight is Weight.SIGNAL and any(other.who[0][0] != "rank" for other in faults)


def _merged(rows: list[Incident]) -> list[Incident]:
    ranked = [row for row in rows if row.who[0][0] == "rank"]
    for row in [row for row in rows if row not in ranked]:
        same = [other for other in ranked if other.title == row.title]
        if len(same) == 1:
            ranked[ranked.index(same[0])] = replace(same[0], hits=(*row.hits, *same[0].hits))
        else:
            ranked.append(row)
    return ranked


def _apart(death: Death, faults: list[Incident]) -> bool:
    if death.hit.block is None:
        return False
    first, last = death.hit.place, death.hit.block.last_line + _MESSAGE_LINES
    hits = [hit for row in faults for hit in row.hits if hit.place.source == first.source]
    return not any(first.line <= hit.place.line <= last for hit in hits)


def _first_consequences(known: _Known) -> dict[Who, Position]:
    first: dict[Who, Position] = {}
    for hit in (hit for row in known.of(CONSEQUENCE) for hit in known.evidence.tally(row.id).first.values()):
        who = known.people.known(hit.who)
        first[who] = min(hit.place, first.get(who, hit.place))
    return first


def _decisive(ended: list[Death], followed: Position | None) -> Death | None:
    left = [death for death in ended if death.weight <= Weight.EXIT]
    if followed is not None:
        left = [death for death in left if death.hit.place < followed]
    if not left:
        return None
    weight = min(death.weight for death in left)
    chosen = [death for death in left if death.weight is weight]
    if chosen[0].what == ABORTED:  # a process that aborts has said why
        chosen = [replace(death, weight=weight) for death in left if death.hit.groups.get("said")] or chosen
    whole = [death for death in chosen if CUT not in death.what] or chosen
    return whole[-1] if weight is Weight.EXCEPTION else chosen[0]


def _unknown(death: Death, ended: list[Death], chains: list[Position]) -> Incident:
    first = _beginning(death, ended, chains)
    began = f", which began as: {first.what.removeprefix('raised ')}" if first is not death else ""
    hints = sorted(
        (other for other in ended if other.weight in (Weight.HINT, Weight.SENTENCE)), key=lambda other: other.weight
    )
    hints = [other for other in hints if other.hit.place < death.hit.place][:1]
    complaint = f"; before that it {hints[0].what}" if hints else ""
    hits = tuple(row.hit for row in (first, death, *hints))
    cause = f"{UNKNOWN}: it {death.what}{began}{complaint}"
    remedy = "Read the lines below; if the cause turns out to be a common one, add a signature to data/signatures"
    title = f"it {death.what}{complaint if death.weight >= Weight.SIGNAL else ''}"
    return Incident("", FAULT, title, cause, remedy, "", "", (death.who,), 1, tuple(dict.fromkeys(hits)))


def _beginning(death: Death, ended: list[Death], chains: list[Position]) -> Death:
    first = death
    for earlier in reversed([other for other in ended if other.hit.block and other.hit.place < death.hit.place]):
        if not any(earlier.hit.place < link < first.hit.place for link in chains):
            break
        first = earlier
    return first


def _by_time(rows: list[Incident]) -> tuple[list[Incident], bool]:
    """Return the findings, the first to happen first, and whether the log shows that order.

    One file is written in order; files are compared by the times in them. Where those are missing, certain faults come first.
    """
    if len({row.first.place.source for row in rows}) <= 1:
        return sorted(rows, key=lambda row: row.first.place), True
    if all(row.first.seconds is not None for row in rows):
        return sorted(rows, key=lambda row: (row.first.seconds or 0.0, row.first.place)), True
    return sorted(rows, key=lambda row: (row.certainty != CERTAIN, not row.signature, row.first.place)), False


def _special_first(ranked: list[Incident]) -> list[Incident]:
    for row in ranked[1:] if ranked and ranked[0].general else ():
        first, here = ranked[0].first.place, row.first.place
        if row.signature and not row.general and here.source == first.source and here.line - first.line <= _ONE_EVENT:
            return [row, *(other for other in ranked if other is not row)]
    return ranked


def _collective(known: _Known, root: Incident) -> str:
    hits = (hit for fact in rules.facts(rules.COLLECTIVE) for hit in known.evidence.tally(fact.probe.key).last.values())
    own = [hit for hit in hits if known.people.who(hit) == root.who[0] and hit.groups.get("value")]
    return max((hit.place, hit.groups["value"].lower()) for hit in own)[1] if own else ""

"""The root cause of a failed run: what the first rank to fail said, not what the log ends with."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from stackproof.triage import rules
from stackproof.triage.deaths import ABORTED, CUT, Death, People, Weight, deaths, of_role
from stackproof.triage.incidents import UNKNOWN, Diagnosis, Incident
from stackproof.triage.probes import Hit, Position, Who
from stackproof.triage.rules import CERTAIN, CONSEQUENCE, FAULT, NOISE, Signature
from stackproof.triage.scan import Evidence
from stackproof.triage.survival import Survival

_MOST_LINES = 6
_MESSAGE_LINES = 8
_ONE_EVENT = 25  # lines within which a library says the same once more, and better
_GROUP = re.compile(r"\{(\w+)\}")


def judge(evidence: Evidence) -> Diagnosis:
    """Return what the evidence of one run amounts to."""
    known = _Known(evidence)
    people = People(evidence)
    found = Diagnosis(noise=[known.finding(row, people) for row in known.of(NOISE)])
    candidates = _candidates(known, people, evidence)
    later = Survival(evidence, candidates)
    found.end = later.end
    found.earlier = [row for row in candidates if later.in_earlier_run(row)]
    found.survived = [row for row in candidates if row not in found.earlier and later.outlived(row)]
    failed = [row for row in candidates if row not in found.earlier and row not in found.survived]
    if candidates and not failed:
        failed = [
            row
            for row in _ended(known, evidence, people)
            if row.hint and not later.outlived(row) and not later.in_earlier_run(row)
        ]
    if later.disputed(failed):
        found.survived, failed, found.end = found.survived + failed, [], None
    found.consequences = [row for row in failed if row.kind == CONSEQUENCE]
    ranked, found.ordered = _by_time([row for row in failed if row.kind == FAULT])
    if not ranked:
        ranked = _by_time(found.consequences)[0][:1]
    ranked = _special_first(ranked)
    found.root = ranked[0] if ranked else None
    found.others = [row for row in ranked[1:] if not row.hint]
    found.consequences = [row for row in found.consequences if row is not found.root]
    if found.root:
        found.collective = _collective(evidence, people, found.root)
    return found


class _Known:
    """The signatures that apply to a run."""

    def __init__(self, evidence: Evidence) -> None:
        self.evidence = evidence
        self.rows = [row for row in rules.load_all() if evidence.tally(row.id).count and self._applies(row)]

    def _applies(self, row: Signature) -> bool:
        for probe in row.conditions:
            kind = probe.key.split("/")[1]
            if bool(self.evidence.tally(probe.key).count) != (kind == "context"):
                return False
        return True

    def of(self, kind: str) -> list[Signature]:
        """Return the rows of a kind."""
        return [row for row in self.rows if row.kind == kind]

    def finding(self, row: Signature, people: People, hits: Iterable[Hit] | None = None) -> Incident:
        """Return the finding for a row, with all or some of its hits."""
        tally = self.evidence.tally(row.id)
        chosen = tally.edges if hits is None else list(hits)
        who = tuple(dict.fromkeys(map(people.who, chosen)))
        title = _GROUP.sub(lambda found: chosen[0].groups.get(found[1], "?"), row.title)
        facts = (title, row.cause, row.remedy, row.link, row.certainty)
        shown = chosen if len(chosen) <= _MOST_LINES else [*chosen[: _MOST_LINES - 1], chosen[-1]]
        return Incident(
            row.id, row.kind, *facts, who, tally.count, tuple(shown), lasting=row.lasting, general=row.general
        )

    def best(self, text: str) -> Signature | None:
        """Return the row that fits a text best: certain before likely, with conditions before without, the longer text first."""
        fitting = [row for row in self.rows if row.probe.match(text)]
        return max(fitting, key=_precision, default=None)


def _precision(row: Signature) -> tuple[bool, bool, bool, bool, int]:
    return (
        row.kind == NOISE,
        not row.general,
        row.certainty == CERTAIN,
        bool(row.context),
        row.longest,
    )


def _candidates(known: _Known, people: People, evidence: Evidence) -> list[Incident]:
    rows = (_recognised(known, people, row) for row in known.of(FAULT) + known.of(CONSEQUENCE))
    recognised = [row for row in rows if row is not None]
    found = recognised + _unexplained(known, people, evidence, recognised)
    return found or _ended(known, evidence, people)


def _ended(known: _Known, evidence: Evidence, people: People) -> list[Incident]:
    found = deaths(evidence, people)
    followed = [death for death in found if death.weight is Weight.FOLLOWED]
    for weight in (Weight.HINT, Weight.SENTENCE):
        complaints = [death for death in found if death.weight is weight and known.best(death.hit.text) is None]
        if complaints and (weight is Weight.HINT or not followed):
            vague = weight is Weight.SENTENCE
            return [replace(_unknown(death, [death], []), hint=not followed, general=vague) for death in complaints]
    return [replace(_unknown(death, followed[:1], []), kind=CONSEQUENCE) for death in followed[:1]]


def _recognised(known: _Known, people: People, row: Signature) -> Incident | None:
    own = [hit for hit in known.evidence.tally(row.id).edges if known.best(hit.text) is row]
    return known.finding(row, people, own) if own else None


def _unexplained(known: _Known, people: People, evidence: Evidence, recognised: list[Incident]) -> list[Incident]:
    chains, by_who = [hit.place for hit in of_role(evidence, rules.CHAIN)], dict[Who, list[Death]]()
    for death in deaths(evidence, people):
        by_who.setdefault(death.who, []).append(death)
    found: list[tuple[Weight, Incident]] = []
    followed = _first_consequences(known, people)
    blamed = {death.who for ended in by_who.values() for death in ended if _blames(death)}
    for who, ended in by_who.items():
        left = [death for death in ended if known.best(_words(death)) is None]
        decisive = _decisive(left, followed.get(who))
        faults = [row for row in recognised if row.kind == FAULT and who in row.who]
        if decisive is None or (faults and not _apart(decisive, faults)):
            continue
        kind = CONSEQUENCE if any(row.certainty == CERTAIN for row in faults) else FAULT
        found.append((decisive.weight, replace(_unknown(decisive, left, chains), kind=kind)))
    known_of = [*recognised, *(row for _, row in found)]
    left_over = [row for weight, row in found if not _silent(weight, row, known_of)]
    return _merged([_attributed(row, blamed) for row in left_over])


def _blames(death: Death) -> bool:
    return death.who[0] == "rank" and death.weight in (Weight.EXIT, Weight.SIGNAL)


def _attributed(row: Incident, blamed: set[Who]) -> Incident:
    nameless = row.who[0][0] != "rank" and row.first.block is not None
    return replace(row, who=tuple(blamed)) if nameless and len(blamed) == 1 else row


def _silent(weight: Weight, row: Incident, findings: list[Incident]) -> bool:
    """Whether an end says nothing beside what else is known.

    An exit code does not where anything was said; of nobody in particular, also where a peer was lost. A signal does not where
    it may be the end of a fault that has no rank.
    """
    nameless = row.who[0][0] != "rank"
    others = [other for other in findings if other is not row]
    if weight is Weight.EXIT:
        said = any(other.kind == FAULT and (other.signature or other.first.block) for other in others)
        return said or (nameless and any(other.kind == CONSEQUENCE for other in others))
    faults = [other for other in others if other.kind == FAULT and other.signature]
    return weight is Weight.SIGNAL and any(other.who[0][0] != "rank" for other in faults)


def _merged(found: list[Incident]) -> list[Incident]:
    ranked = [row for row in found if row.who[0][0] == "rank"]
    for row in [row for row in found if row not in ranked]:
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


def _first_consequences(known: _Known, people: People) -> dict[Who, Position]:
    found: dict[Who, Position] = {}
    for hit in (hit for row in known.of(CONSEQUENCE) for hit in known.evidence.tally(row.id).first.values()):
        who = people.known(hit.who)
        found[who] = min(hit.place, found.get(who, hit.place))
    return found


def _words(death: Death) -> str:
    return death.hit.block.exception if death.hit.block else death.hit.text


def _decisive(ended: list[Death], followed: Position | None) -> Death | None:
    found = [death for death in ended if death.weight <= Weight.EXIT]
    if followed is not None:
        found = [death for death in found if death.hit.place < followed]
    if not found:
        return None
    weight = min(death.weight for death in found)
    chosen = [death for death in found if death.weight is weight]
    if chosen[0].what == ABORTED:  # a process that aborts has said why
        chosen = [replace(death, weight=weight) for death in found if death.hit.groups.get("said")] or chosen
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


def _in_one_file(rows: list[Incident]) -> bool:
    return len({row.first.place.source for row in rows}) <= 1


def _by_time(rows: list[Incident]) -> tuple[list[Incident], bool]:
    """Return the findings, the first to happen first, and whether the log shows that order.

    One file is written in order; files are compared by the times in them. Where those are missing, certain faults come first.
    """
    if _in_one_file(rows):
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


def _collective(evidence: Evidence, people: People, root: Incident) -> str:
    found = []
    for fact in rules.facts():
        if fact.role == rules.COLLECTIVE:
            for hit in evidence.tally(fact.probe.key).last.values():
                if people.who(hit) == root.who[0] and hit.groups.get("value"):
                    found.append((hit.place, hit.groups["value"].lower()))
    return max(found)[1] if found else ""

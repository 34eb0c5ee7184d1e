"""How each rank ended, as far as its log, its launcher and the kernel say; without knowing why."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

from stackproof.triage import rules
from stackproof.triage.scan import Evidence
from stackproof.triage.search import Groups, Hit, Who

ABORTED = f"was ended by {signal.SIGABRT.name}"
CUT = "an exception whose text the log does not hold"
_FRAME = re.compile(r"\s*File \"")
_LAUNCHER_ENDS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_SPOKEN_OF = re.compile(r"\(pid: (\d{1,9})\)|\bby PID (\d{1,9})")
_LAST = 5  # lines at the end of a log in which a mere sentence says how it ended
_SHELL_OFFSET = 128  # a shell reports a signal as 128 + its number


class Weight(IntEnum):
    """How much a death says about its cause, most first."""

    EXCEPTION = 0
    """The process said what went wrong: an exception that ended it, or a fault."""
    SIGNAL = 1
    """It was ended by a signal and did not say why."""
    EXIT = 2
    """It ended with an exit code."""
    HINT = 3
    """A library complained; whether anything ended is not shown."""
    SENTENCE = 4
    """A sentence at the end of the log sounds like a failure."""
    FOLLOWED = 5
    """It was ended because something else had failed, or only repeats that."""


@dataclass(frozen=True)
class Death:
    """One way in which a rank is said to have ended."""

    who: Who
    weight: Weight
    what: str
    hit: Hit

    @property
    def words(self) -> str:
        """The exception that ended it, else the line that says so."""
        return self.hit.block.exception if self.hit.block else self.hit.text

    @property
    def line(self) -> tuple[int, int]:
        """The file and the number of the line."""
        return self.hit.place.source, self.hit.place.line


class People:
    """Who is who: lines name ranks or processes, and some lines say which process is which rank."""

    def __init__(self, evidence: Evidence) -> None:
        self._ranks: dict[int, int] = {}
        for ending in rules.endings(rules.PROCESS, rules.EXIT):
            for hit in evidence.tally(ending.probe.key).kept:
                if "pid" in hit.groups and "rank" in hit.groups:
                    self._ranks.setdefault(int(hit.groups["pid"]), int(hit.groups["rank"]))

    def who(self, hit: Hit) -> Who:
        """Return who is meant: the rank if it is known; a launcher's line may speak of another process."""
        if hit.who[0] != "rank" and (match := _SPOKEN_OF.search(hit.text)):
            return self.known(("pid", int(match[1] or match[2])))
        return self.known(hit.who)

    def known(self, who: Who) -> Who:
        """Return the rank of a process, if any line gave it."""
        kind, number = who
        return ("rank", self._ranks[number]) if kind == "pid" and number in self._ranks else who


def of_role(evidence: Evidence, role: str, weak: bool = True) -> Iterator[Hit]:
    """Yield the hits on the endings of a role, weak ones among them or not: the first ones, and the last of each writer."""
    for ending in rules.endings(role):
        if weak or not ending.weak:
            tally = evidence.tally(ending.probe.key)
            yield from tally.kept
            yield from tally.last.values()


def deaths(evidence: Evidence, people: People) -> list[Death]:
    """Return every way in which ranks are said to have ended, in the order of the logs."""
    ignored = {(hit.place.source, hit.place.line + 1) for hit in of_role(evidence, rules.IGNORED)}
    endings = rules.endings(rules.FATAL, rules.EXIT, rules.BARE, rules.HINT, rules.HANG)
    rows = [death for ending in endings for death in _of(ending, evidence, people)]
    rows = _outermost(sorted(rows, key=lambda death: death.hit.place))
    raised = {(death.hit.place.source, death.hit.block.last_line) for death in rows if death.hit.block}
    rows = [death for death in rows if death.line not in (ignored if death.hit.block else raised)]
    better = {death.line: death.weight for death in sorted(rows, key=lambda death: -death.weight)}
    return [death for death in rows if death.weight < Weight.HINT or death.weight <= better[death.line]]


def _outermost(rows: list[Death]) -> list[Death]:
    kept: list[Death] = []
    reaches: dict[tuple[int, Who], int] = {}
    for death in rows:
        if block := death.hit.block:
            key = death.hit.place.source, death.hit.who
            if _FRAME.match(death.hit.text) and death.hit.place.line <= reaches.get(key, 0):
                continue
            reaches[key] = max(block.last_line, reaches.get(key, 0))
        kept.append(death)
    return kept


def _of(ending: rules.Ending, evidence: Evidence, people: People) -> Iterator[Death]:
    sentence = ending.weak and ending.role == rules.HINT
    for hit in evidence.tally(ending.probe.key).kept:
        early = evidence.files[hit.place.source].lines - hit.place.line > _LAST
        if hit.groups.get("code") == "0" or (sentence and early):
            continue
        who = people.who(hit)
        if ending.role == rules.EXIT:
            yield _exit(hit, who)
        elif hit.block is not None:
            yield _raised(hit.block.exception, hit, who)
        elif ending.role == rules.BARE:
            yield _raised(hit.groups.get("what", hit.text.strip()), hit, who)
        else:
            yield _spoken(ending, hit, who)


def _exit(hit: Hit, who: Who) -> Death:
    if "rank" in hit.groups:
        who = ("rank", int(hit.groups["rank"]))
    number = _signal(hit.groups)
    if number is None:
        code = hit.groups.get("code", "")
        return Death(who, Weight.EXIT, f"ended with exit code {code}" if code else hit.groups.get("what", "ended"), hit)
    name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
    weight = Weight.FOLLOWED if number in _LAUNCHER_ENDS else Weight.EXIT if number == signal.SIGABRT else Weight.SIGNAL
    return Death(who, weight, f"was ended by {name}", hit)


def _signal(groups: Groups) -> int | None:
    if name := groups.get("signal") or rules.words().get(groups.get("what", "")):
        return int(getattr(signal, name, 0)) or None
    if "number" in groups:
        return int(groups["number"])
    code = int(groups.get("code", 0))
    if code < 0:
        return -code
    return code - _SHELL_OFFSET if code > _SHELL_OFFSET and code - _SHELL_OFFSET in set(signal.Signals) else None


def _raised(text: str, hit: Hit, who: Who) -> Death:
    follows = any(pattern.match(text) for pattern in rules.ends().wrappers)
    return Death(who, Weight.FOLLOWED if follows else Weight.EXCEPTION, f"raised {text or CUT}", hit)


def _spoken(ending: rules.Ending, hit: Hit, who: Who) -> Death:
    what = hit.groups.get("what") or hit.text.strip()
    text = f": {hit.groups['said']}" if hit.groups.get("said") else ""
    if ending.role == rules.HANG:
        return Death(who, Weight.SIGNAL, "hung until its deadline (a dump of its stack follows in the log)", hit)
    name = rules.words().get(what)
    hint = Weight.SENTENCE if ending.weak else Weight.HINT
    weight = hint if ending.role == rules.HINT else Weight.EXIT if ending.weak else Weight.SIGNAL
    return Death(who, weight, f"was ended by {name}" if name else f"said {what}{text}", hit)

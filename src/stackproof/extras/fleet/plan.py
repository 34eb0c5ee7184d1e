"""The plan of a sweep: which hosts, which stack, how much; one file in the folder that all hosts share, and the only source of commands."""

from __future__ import annotations

import dataclasses
import itertools
import json
import random
import re
import secrets
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Annotated, Any

from stackproof.api.base import OneOf, Refusal, Table, Wrong, files, plain, suggestion, write_atomically
from stackproof.api.stack import stacks
from stackproof.extras.fleet import rules, wanted
from stackproof.extras.fleet.answers import RECORDS, HostAnswer

SCHEMA = "stackproof.extras.fleet-plan/1"
NAME = "plan.json"
PROFILES = ("tiny", "full")
_MOST_BYTES = 64 << 20
_CLOCKS = timedelta(hours=1)
"""So much the clocks of hosts may differ before what one left is called older than its plan."""
_ID = re.compile(r"[0-9a-f]{16}")
_RANGE = re.compile(r"(\d+)(?:-(\d+))?")
_BRACKETS = re.compile(r"\[([0-9,-]+)\]")


@dataclass(frozen=True)
class FleetPlan:
    """Hosts in the order in which they are asked, which is drawn: a sweep in the order of racks would take heat for slowness."""

    schema: Annotated[str, OneOf((SCHEMA,))]
    fleet: str
    stack: str
    profile: Annotated[str, OneOf(PROFILES)]
    hosts: tuple[str, ...]
    without: tuple[Annotated[str, OneOf(wanted.parts)], ...] = ()
    """What no host does; the judgement says so."""
    cards: int = 0
    """So many cards on each host; 0: as many as each says that it has."""
    id: str = ""
    """Drawn when the plan is made; each record names it."""
    made: str = ""

    def __post_init__(self) -> None:
        if (bad := next((name for name in self.hosts if not rules.is_host(name)), None)) is not None:
            raise Wrong("hosts", f"holds {bad[:80]!r}, which is no name of a host")
        if len(set(self.hosts)) < len(self.hosts):
            raise Wrong("hosts", "holds a host twice")
        if self.cards < 0:
            raise Wrong("cards", f"is {self.cards}; it must be 0, for as many as a host has, or more")
        if self.id and not _ID.fullmatch(self.id):
            raise Wrong("id", f"is {self.id[:40]!r}; it must be sixteen hexadecimal digits")
        if self.made and not _is_time(self.made):
            raise Wrong("made", f"is {self.made[:40]!r}; it must be a time such as 2027-01-31T12:00:00+00:00")

    @property
    def wants(self) -> wanted.PlanWants:
        """Return what each host is to do."""
        return wanted.PlanWants(self.stack, self.profile, self.without, self.cards)

    @property
    def _terms(self) -> tuple[object, ...]:
        return set(self.hosts), self.stack, self.profile, set(self.without), self.cards

    def keep(self, folder: Path) -> Path:
        """Write the plan into a folder, with the folders that hosts write to; an equal one that is there stays.

        Raises:
            Refusal: there is another plan, or it cannot be written.
        """
        path = folder / NAME
        if path.exists() or path.is_symlink():
            if load(folder)._terms != self._terms:
                raise Refusal(
                    f"{path}: is the plan of other hosts or other work; name a new folder, one for each sweep"
                )
            return path
        try:
            (folder / RECORDS).mkdir(parents=True, exist_ok=True)
            write_atomically(path, json.dumps(dataclasses.asdict(self), indent=1) + "\n")
        except OSError as error:
            raise Refusal(
                f"{path}: cannot be written ({error.strerror}); name a folder that all hosts can write to"
            ) from error
        return path

    def disowns(self, answer: HostAnswer) -> str:
        """Say why a record is none of this sweep's; an empty string where it is one."""
        own = {"plan": self.id, "stack": self.stack, "profile": self.profile}
        for what, wants in own.items():
            told = getattr(answer, what)
            if told != wants:
                shown = plain(told, 40, lines=False) or "none"
                return f"its record is of another {what} ({shown}, and the sweep's is {wants or 'none'}); left out, let it run again"
        return _untimely(answer.began, answer.took, self.made)


def _is_time(text: str) -> bool:
    try:
        return datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False


def _untimely(began: str, took: float, made: str) -> str:
    """Say that a record is older than its plan, or of a time to come."""
    try:
        when = datetime.fromisoformat(began)
        early = bool(made) and when < datetime.fromisoformat(made) - _CLOCKS
        late = when + timedelta(seconds=took) > datetime.now(timezone.utc) + _CLOCKS
    except OverflowError:
        early, late = False, True
    except (ValueError, TypeError):
        return "its record does not say when it began; left out, let it run again"
    if not early and not late:
        return ""
    said = f"before the plan was made ({made[:16]})" if early else f"and ended {took:.3g} s later, in a time to come"
    return f"its record began {plain(began[:16], lines=False)}, {said}; left out, set its clock and let it run again"


def load(folder: Path) -> FleetPlan:
    """Read the plan of a sweep.

    Raises:
        Refusal: there is none, or it is damaged.
    """
    path, remedy = folder / NAME, "make one with `stackproof fleet plan`"
    if why := files.why_unreadable(path, _MOST_BYTES):
        raise Refusal(f"{path}: {why}; {remedy}")
    try:
        found: Any = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise Refusal(f"{path}: is damaged or cut short; {remedy}") from error
    if not isinstance(found, dict):
        raise Refusal(f"{path}: is no plan; {remedy}")
    chosen = Table(path, found).row(FleetPlan)
    if lacks := next((name for name in ("hosts", "id", "made") if not getattr(chosen, name)), ""):
        raise Refusal(f"{path}: '{lacks}' is empty, so it says neither who is swept nor what is an answer; {remedy}")
    if chosen.stack not in stacks.names():
        said = plain(chosen.stack, 40, lines=False)
        raise Refusal(f"{path}: is of stack '{said}', which is none{suggestion(said, stacks.names())}; {remedy}")
    return chosen


def without_one(fleet: str, answers: Iterable[HostAnswer], hosts: Sequence[str]) -> FleetPlan:
    """Return what stands for a plan where a folder has none: what most of its records say that they follow, nothing left out."""
    told = Counter((one.plan, one.stack, one.profile) for one in answers)
    (plan, stack, profile), _ = max(told.items(), key=lambda one: (one[1], one[0]), default=(("", "", PROFILES[0]), 0))
    return FleetPlan(SCHEMA, fleet, stack, profile, tuple(dict.fromkeys(hosts)), id=plan if _ID.fullmatch(plan) else "")


def make(
    fleet: str,
    stack: str,
    profile: str,
    hosts: Iterable[str],
    seed: int | None = None,
    without: Sequence[str] = (),
    cards: int = 0,
) -> FleetPlan:
    """Return a plan whose hosts stand in an order that is drawn.

    Raises:
        Refusal: there is no host, or a name that can be none, or nothing of that name could be left out.
    """
    named = list(dict.fromkeys(rules.host(name) for name in hosts))
    if not named:
        raise Refusal("no host is named; write --hosts 'node[01-16]', or --hosts-file FILE with a name a line")
    known = wanted.parts()
    if (bad := next((name for name in without if name not in known), None)) is not None:
        raise Refusal(
            f"--without '{plain(bad, 60)}' is nothing that hosts do{suggestion(bad, known)}; name one of: {', '.join(known)}"
        )
    random.Random(seed).shuffle(named)
    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    return FleetPlan(SCHEMA, fleet, stack, profile, tuple(named), tuple(without), cards, secrets.token_hex(8), now)


def expanded(text: str) -> list[str]:
    """Return the hosts of a list as schedulers write it: `node[01-03,7],login1`.

    Raises:
        Refusal: brackets or ranges are wrong, or there are too many.
    """
    most, found = rules.load().limits.records, list[str]()
    for piece in _pieces(text):
        for name in _expanded(piece):
            found.append(rules.host(name))
            if len(found) > most:
                raise Refusal(f"--hosts names more than {most} hosts; sweep them in several folders")
    return found


def _pieces(text: str) -> list[str]:
    """Split at commas and blanks outside of brackets."""
    return [piece for piece in re.split(r"[,\s]+(?![^\[]*\])", text.strip()) if piece]


def _expanded(piece: str) -> Iterator[str]:
    plain = _BRACKETS.split(piece)
    names, ranges = plain[::2], plain[1::2]
    if "[" in "".join(names) or "]" in "".join(names):
        raise Refusal(f"'{piece[:80]}' is no list of hosts; write it as node[01-16,20]")
    for chosen in itertools.product(*(_numbers(one, piece) for one in ranges)):
        yield "".join(itertools.chain(*itertools.zip_longest(names, chosen, fillvalue="")))


def _numbers(ranges: str, piece: str) -> list[str]:
    found, most = list[str](), rules.load().limits.records
    for one in ranges.split(","):
        matched = _RANGE.fullmatch(one)
        first, last = (matched[1], matched[2] or matched[1]) if matched else ("1", "0")
        if not matched or int(last) < int(first) or int(last) - int(first) >= most:
            raise Refusal(f"'{piece[:80]}' holds the range '{one[:40]}', which is none; write hosts as node[01-16,20]")
        found += [str(number).zfill(len(first)) for number in range(int(first), int(last) + 1)]
    return found


def rounds(hosts: Sequence[str], count: int, seed: int | None = None) -> list[list[tuple[str, str]]]:
    """Return rounds of pairs: in each every host has one partner (with an odd number one rests), and no pair comes twice.

    The first hosts are drawn anew, and then turn by the circle method, so that N - 1 rounds are all pairs.
    """
    order: list[str | None] = [*hosts]
    random.Random(seed).shuffle(order)
    if len(order) % 2:
        order.append(None)
    turns = list(range(max(len(order) - 1, 0)))
    random.Random(seed).shuffle(turns)
    return [_round(order, turn) for turn in turns[:count]]


def _round(order: Sequence[str | None], turn: int) -> list[tuple[str, str]]:
    first, rest = order[0], [*order[1:]]
    turned = [first, *rest[turn:], *rest[:turn]]
    pairs = zip(turned[: len(turned) // 2], reversed(turned), strict=False)
    return [(one, other) for one, other in pairs if one is not None and other is not None]

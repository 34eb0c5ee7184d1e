"""The plan of a sweep: which hosts, which stack, what each does; one file in the shared folder, and the only source of commands."""

from __future__ import annotations

import dataclasses
import itertools
import json
import random
import re
import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Annotated, Any

from stackproof.api.base import Refusal, files, suggestion, text, toml
from stackproof.api.stack import stacks
from stackproof.extras.fleet import rules

SCHEMA = "stackproof.extras.fleet-plan/1"
NAME = "plan.json"
RECORDS = "records"
"""The folder, below that of a sweep, in which each host leaves its record."""
PROFILES = ("tiny", "full")
STEPS = ("environment", "doctor", "smoke")
REPLAY = "replay"
"""The group of a record's checks that hold digests."""
_MOST_BYTES = 64 << 20
_ID = re.compile(r"[0-9a-f]{16}")
_RANGE = re.compile(r"(\d+)(?:-(\d+))?")
_BRACKETS = re.compile(r"\[([0-9,-]+)\]")
_RANKS = re.compile(r"-(\d+)-ranks$")


def parts() -> list[str]:
    """Return all that a plan may leave out."""
    table = rules.load()
    subjects = [name for one in table.profile for name in (*one.subjects, *one.together)]
    return list(dict.fromkeys((*STEPS[1:], *subjects, *(row.kernel for row in table.replay))))


@dataclass(frozen=True)
class HostTasks:
    """What each host of a sweep does; `cards`: so many on each host, 0 is as many as it says that it has."""

    stack: str
    profile: str
    without: tuple[str, ...] = ()
    cards: int = 0

    def subjects(self) -> list[str]:
        """Return the subjects that each card measures, without those that the type of device cannot do."""
        chosen = rules.profile(self.profile)
        cannot = chosen.cannot.get(stacks.load(self.stack).device, ())
        return [name for name in chosen.subjects if name not in (*self.without, *cannot)]

    def together(self, cards: int) -> list[str]:
        """Return what the first card measures with the others: of as many ranks as there are cards, or of ranks that share one."""
        chosen = rules.profile(self.profile)
        shared = stacks.load(self.stack).device in chosen.shared
        return [name for name in chosen.together if name not in self.without and (shared or _ranks(name) <= cards)]

    def kernels(self) -> dict[str, int]:
        """Return the rows of the replay, by kernel and dtype, with how many products each computes at once."""
        precisions = stacks.load(self.stack).precisions
        named = (
            (row, f"{row.kernel}-{dtype}") for row in rules.load().replay for dtype in row.dtypes if dtype in precisions
        )
        return {
            name: getattr(row, self.profile).batch for row, name in named if not {row.kernel, name} & set(self.without)
        }


def _ranks(name: str) -> int:
    found = _RANKS.search(name)
    return int(found[1]) if found else 1


@dataclass(frozen=True)
class FleetPlan:
    """Hosts in the order in which they are asked, which is random: a sweep in the order of racks would take heat for slowness."""

    schema: Annotated[str, toml.OneOf((SCHEMA,))]
    fleet: str
    stack: str
    profile: Annotated[str, toml.OneOf(PROFILES)]
    hosts: tuple[str, ...]
    without: tuple[Annotated[str, toml.OneOf(parts)], ...] = ()
    """What no host does; the judgement says so."""
    cards: int = 0
    id: str = ""
    """Drawn when the plan is made; each record names it."""
    made: str = ""

    def __post_init__(self) -> None:
        if (bad := next((name for name in self.hosts if not rules.is_host(name)), None)) is not None:
            raise toml.Wrong("hosts", f"holds {bad[:80]!r}, which is no name of a host")
        if len(set(self.hosts)) < len(self.hosts):
            raise toml.Wrong("hosts", "holds a host twice")
        if self.cards < 0:
            raise toml.Wrong("cards", f"is {self.cards}; it must be 0, for as many as a host has, or more")
        if self.id and not _ID.fullmatch(self.id):
            raise toml.Wrong("id", f"is {self.id[:40]!r}; it must be sixteen hexadecimal digits")
        if self.made and not _is_time(self.made):
            raise toml.Wrong("made", f"is {self.made[:40]!r}; it must be a time such as 2027-01-31T12:00:00+00:00")

    @property
    def tasks(self) -> HostTasks:
        """Return what each host is to do."""
        return HostTasks(self.stack, self.profile, self.without, self.cards)

    def keep(self, folder: Path) -> Path:
        """Write the plan into a folder, with the folder that hosts write to; an equal one that is there stays.

        Raises:
            Refusal: there is another plan, or it cannot be written.
        """
        path = folder / NAME
        if path.exists() or path.is_symlink():
            there = load(folder)
            if (set(there.hosts), set(there.without)) != (set(self.hosts), set(self.without)) or (
                dataclasses.replace(there.tasks, without=()) != dataclasses.replace(self.tasks, without=())
            ):
                raise Refusal(
                    f"{path}: is the plan of other hosts or other work; name a new folder, one for each sweep"
                )
            return path
        try:
            (folder / RECORDS).mkdir(parents=True, exist_ok=True)
            files.write_atomically(path, json.dumps(dataclasses.asdict(self), indent=1) + "\n")
        except OSError as error:
            why = f"cannot be written ({error.strerror}); name a folder that all hosts can write to"
            raise Refusal(f"{path}: {why}") from error
        return path


def _is_time(text: str) -> bool:
    try:
        return datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False


def load(folder: Path) -> FleetPlan:
    """Read the plan of a sweep.

    Raises:
        Refusal: there is none, or it is damaged.
    """
    path, remedy = folder / NAME, "make one with `stackproof fleet plan`"
    chosen = toml.Table(path, read_object(path, _MOST_BYTES, remedy)).row(FleetPlan)
    if lacks := next((name for name in ("hosts", "id", "made") if not getattr(chosen, name)), ""):
        raise Refusal(f"{path}: '{lacks}' is empty, so it says neither who is swept nor what is an answer; {remedy}")
    if chosen.stack not in stacks.names():
        shown = text.plain(chosen.stack, 40, lines=False)
        raise Refusal(f"{path}: is of stack '{shown}', which is none{suggestion(shown, stacks.names())}; {remedy}")
    return chosen


def read_object(path: Path, most_bytes: int, remedy: str) -> dict[str, Any]:
    """Return the JSON object in a file.

    Raises:
        Refusal: it is not there, too large, damaged, or no object.
    """
    if why := files.why_unreadable(path, most_bytes):
        raise Refusal(f"{path}: {why}; {remedy}")
    found = files.read_json(path, remedy)
    if not isinstance(found, dict):
        raise Refusal(f"{path}: is no JSON object; {remedy}")
    return found


def make(
    fleet: str, stack: str, profile: str, hosts: Iterable[str], seed: int | None = None, without: Sequence[str] = (), cards: int = 0
) -> FleetPlan:  # fmt: skip
    """Return a plan whose hosts stand in a random order.

    Raises:
        Refusal: there is no host, or a name that can be none, or nothing of that name could be left out.
    """
    named = list(dict.fromkeys(rules.host(name) for name in hosts))
    if not named:
        raise Refusal("no host is named; write --hosts 'node[01-16]'")
    if (bad := next((name for name in without if name not in parts()), None)) is not None:
        meant = f"{suggestion(bad, parts())}; name one of: {', '.join(parts())}"
        raise Refusal(f"--without '{text.plain(bad, 60)}' is nothing that hosts do{meant}")
    random.Random(seed).shuffle(named)
    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    return FleetPlan(SCHEMA, fleet, stack, profile, tuple(named), tuple(without), cards, secrets.token_hex(8), now)


def expanded(text: str) -> list[str]:
    """Return the hosts of a list as schedulers write it: `node[01-03,7],login1`.

    Raises:
        Refusal: brackets or ranges are wrong, or there are too many.
    """
    most, found = rules.load().limits.records, list[str]()
    for piece in filter(
        None, re.split(r"[,\s]+(?![^\[]*\])", text.strip())
    ):  # at commas and blanks outside of brackets
        for name in _expanded(piece):
            found.append(rules.host(name))
            if len(found) > most:
                raise Refusal(f"--hosts names more than {most} hosts; sweep them in several folders")
    return found


def _expanded(piece: str) -> Iterator[str]:
    names, ranges = (split := _BRACKETS.split(piece))[::2], split[1::2]
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

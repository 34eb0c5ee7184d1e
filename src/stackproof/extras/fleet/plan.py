"""What a sweep does: the table of the fleet (`data/fleet.toml`), and the plan of one sweep, one file in the shared folder."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import random
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from stackproof.api.base import Refusal, files, places, suggestion, text, toml
from stackproof.api.stack import stacks

FILE = places.DATA / "fleet.toml"
VERB = "fleet"
"""The verb of a host's record."""
FIRST, BLOCK = 3, 8
"""The replay computes each kind so often at first, and then in blocks of so many, one at least when cold and one when hot."""
_HOST = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9])?")


@dataclass(frozen=True)
class Judging:
    """When a host is suspected; shares are of its group's median."""

    suspect: float
    effect: float
    family: float
    floor: float
    least: int
    share: float
    plenty: int
    split: float
    blind: float
    half: float

    def enough(self, hosts: int) -> int:
        """Return how many equal hosts make a group, of so many of their architecture."""
        return max(self.least, min(self.plenty, math.ceil(self.share * hosts)))


@dataclass(frozen=True)
class SmallGroup:
    """What a group of so many cards needs: times the z of a large one, and when two modes are two."""

    cards: int
    suspect: float
    limit: float
    modes: float


@dataclass(frozen=True)
class Limits:
    """The largest record of a host that is read, and how many hosts and cards there are at most."""

    mib: int
    hosts: int
    cards: int


@dataclass(frozen=True)
class StateRules:
    """Which facts make hosts unlike: patterns, and what `card` writes down for them."""

    ignored: tuple[str, ...]
    files: tuple[str, ...]
    telemetry: tuple[str, ...]


@dataclass(frozen=True)
class CardProfile:
    """What a host does: subjects of the benchmarks with when sampling ends, and seconds of each row of the replay, twice."""

    name: str
    benchmarks: str
    subjects: tuple[str, ...]
    turns: tuple[str, ...]
    """Of these, what shares the host: its cards take turns."""
    together: tuple[str, ...]
    noise: float
    seconds: float
    least: int
    most: int
    replay: float
    deadline: float
    devices: tuple[str, ...] = ()
    """The types of device for which a plan takes it, if nobody says which; the last profile is that of all others."""
    cannot: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By type of device, subjects that it cannot do."""
    shared: tuple[str, ...] = ()
    """The types of device of which ranks share one; of all others each rank needs its own."""


@dataclass(frozen=True)
class ReplaySize:
    """How many products at once, and how large."""

    batch: int
    size: int


@dataclass(frozen=True)
class ReplayRow:
    kernel: str
    dtypes: tuple[str, ...]
    tiny: ReplaySize
    full: ReplaySize


@dataclass(frozen=True)
class FleetRules:
    """The whole table; `patterns`: of values of the replay."""

    small: tuple[SmallGroup, ...]
    patterns: tuple[str, ...]
    judging: Judging
    limits: Limits
    state: StateRules
    profile: tuple[CardProfile, ...]
    replay: tuple[ReplayRow, ...]
    environment: Mapping[str, str]


table = toml.kept(FILE, FleetRules)


def small(cards: int) -> SmallGroup | None:
    """Return what a group of so many cards needs; None where they are too few to be compared."""
    fitting = [row for row in table().small if row.cards <= cards]
    return max(fitting, key=lambda row: row.cards, default=None)


def profile(name: str) -> CardProfile:
    return next(row for row in table().profile if row.name == name)


def usual(kind: str) -> str:
    rows = table().profile
    return next((row.name for row in rows if kind in row.devices), rows[-1].name)


def is_host(name: str) -> bool:
    """Whether a name can be a host's: letters, digits, dots, hyphens; so never an option, a path or a command."""
    return bool(_HOST.fullmatch(name)) and ".." not in name


def host(name: str) -> str:
    if not is_host(name):
        remedy = "write letters, digits, dots and hyphens, beginning with a letter or a digit"
        raise Refusal(f"'{text.plain(name, 80, lines=False)}' is no name of a host; {remedy}")
    return name


SCHEMA = "stackproof.extras.fleet-plan/3"
NAME = "plan.json"
RECORDS = "records"
"""The folder, below that of a sweep, in which each host leaves its record."""
PROFILES = ("tiny", "full")
STEPS = ("environment", "doctor", "smoke")
REPLAY = "replay"
"""The group of a record's checks that hold digests."""
_RANGE = re.compile(r"(\d+)(?:-(\d+))?")
_BRACKETS = re.compile(r"\[([0-9,-]+)\]")
_RANKS = re.compile(r"-(\d+)-ranks$")


def parts() -> list[str]:
    """Return all that a plan may leave out."""
    whole = table()
    subjects = [name for row in whole.profile for name in (*row.subjects, *row.together)]
    return list(dict.fromkeys((*STEPS[1:], *subjects, *(row.kernel for row in whole.replay))))


def _ranks(name: str) -> int:
    match = _RANKS.search(name)
    return int(match[1]) if match else 1


@dataclass(frozen=True)
class FleetPlan:
    """Hosts in the order in which they are asked, which is random: a sweep in the order of racks would take heat for slowness."""

    schema: Annotated[str, toml.OneOf((SCHEMA,))]
    stack: str
    profile: Annotated[str, toml.OneOf(PROFILES)]
    hosts: tuple[str, ...]
    without: tuple[Annotated[str, toml.OneOf(parts)], ...]
    """What no host does; the judgement says so."""
    id: str
    """Drawn when the plan is made; each record names it."""

    def subjects(self) -> list[str]:
        """Return the subjects that each card measures, without those that the type of device cannot do."""
        chosen = profile(self.profile)
        cannot = chosen.cannot.get(stacks.load(self.stack).device, ())
        return [name for name in chosen.subjects if name not in (*self.without, *cannot)]

    def together(self, cards: int) -> list[str]:
        """Return what the first card measures with the others: of as many ranks as there are cards, or of ranks that share one."""
        chosen = profile(self.profile)
        shared = stacks.load(self.stack).device in chosen.shared
        return [name for name in chosen.together if name not in self.without and (shared or _ranks(name) <= cards)]

    def kernels(self) -> list[str]:
        """Return the rows of the replay, by kernel and dtype."""
        precisions = stacks.load(self.stack).precisions
        rows = [(row, f"{row.kernel}-{dtype}") for row in table().replay for dtype in row.dtypes if dtype in precisions]
        return [name for row, name in rows if not {row.kernel, name} & set(self.without)]

    def keep(self, folder: Path) -> Path:
        """Write the plan into a folder, with the folder that hosts write to (Refusal: it has a plan, or cannot be written)."""
        path = folder / NAME
        if path.exists() or path.is_symlink():
            raise Refusal(f"{path}: the folder has a plan already; name a new folder, one for each sweep")
        with files.writing(path, "name a folder that all hosts can write to"):
            (folder / RECORDS).mkdir(parents=True, exist_ok=True)
            files.write_atomically(path, json.dumps(dataclasses.asdict(self), indent=1) + "\n")
        return path


def load(folder: Path) -> FleetPlan:
    """Read the plan of a sweep (Refusal: there is none, or it is damaged)."""
    path, remedy = folder / NAME, "make one with `stackproof fleet plan` in a new folder"
    value = files.read_json(path, remedy)
    if not isinstance(value, dict):
        raise Refusal(f"{path}: is no JSON object; {remedy}")
    chosen = toml.Table(path, value).row(FleetPlan)
    if chosen.stack not in stacks.names():
        shown = text.plain(chosen.stack, 40, lines=False)
        raise Refusal(f"{path}: is of stack '{shown}', which is none{suggestion(shown, stacks.names())}; {remedy}")
    if not chosen.hosts:
        raise Refusal(f"{path}: names no host; {remedy}")
    if odd := next((name for name in chosen.hosts if not is_host(name)), ""):
        raise Refusal(f"{path}: names the host '{text.plain(odd, 60)}', which no host can be called; {remedy}")
    return chosen


def make(
    stack: str, profile: str, hosts: Iterable[str], seed: int | None = None, without: Sequence[str] = ()
) -> FleetPlan:
    """Return a plan whose hosts stand in a random order.

    Refusal: there is no host, or a name that can be none, or nothing of that name could be left out.
    """
    named = list(dict.fromkeys(host(name) for name in hosts))
    if not named:
        raise Refusal("no host is named; write --hosts 'node[01-16]'")
    if (bad := next((name for name in without if name not in parts()), None)) is not None:
        meant = f"{suggestion(bad, parts())}; name one of: {', '.join(parts())}"
        raise Refusal(f"--without '{text.plain(bad, 60)}' is nothing that hosts do{meant}")
    random.Random(seed).shuffle(named)
    return FleetPlan(SCHEMA, stack, profile, tuple(named), tuple(without), secrets.token_hex(8))


def expanded(text: str) -> list[str]:
    """Return the hosts of a list as schedulers write it: `node[01-03,7],login1`.

    Refusal: brackets or ranges are wrong, or there are too many.
    """
    most, words = table().limits.hosts, list[str]()
    outside_brackets = r"[,\s]+(?![^\[]*\])"
    for piece in filter(None, re.split(outside_brackets, text.strip())):
        for name in _expanded(piece):
            words.append(host(name))
            if len(words) > most:
                raise Refusal(f"--hosts names more than {most} hosts; sweep them in several folders")
    return words


def _expanded(piece: str) -> Iterator[str]:
    names, ranges = (split := _BRACKETS.split(piece))[::2], split[1::2]
    if "[" in "".join(names) or "]" in "".join(names):
        raise Refusal(f"'{piece[:80]}' is no list of hosts; write it as node[01-16,20]")
    for chosen in itertools.product(*(_numbers(part, piece) for part in ranges)):
        yield "".join(itertools.chain(*itertools.zip_longest(names, chosen, fillvalue="")))


def _numbers(ranges: str, piece: str) -> list[str]:
    words, most = list[str](), table().limits.hosts
    for word in ranges.split(","):
        matched = _RANGE.fullmatch(word)
        first, last = (matched[1], matched[2] or matched[1]) if matched else ("1", "0")
        if matched and int(last) - int(first) >= most:
            raise Refusal(f"the range '{word[:40]}' names more than {most} hosts; sweep them in several folders")
        if not matched or int(last) < int(first):
            raise Refusal(f"'{piece[:80]}' holds the range '{word[:40]}', which is none; write hosts as node[01-16,20]")
        words += [str(number).zfill(len(first)) for number in range(int(first), int(last) + 1)]
    return words

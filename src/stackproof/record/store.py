"""The store of records, a folder that only grows, and by their facts (`data/history.toml`) the place and the state of each.

Two drivers at one commit are two states of one place; nothing is ever compared across places.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache
from itertools import chain
from pathlib import Path

from stackproof.base import places
from stackproof.base.errors import Refusal
from stackproof.base.files import NotJsonError
from stackproof.base.places import DATA
from stackproof.base.text import matches
from stackproof.base.toml import kept
from stackproof.record import reading, records
from stackproof.record.records import Figure, Record

FILE = DATA / "history.toml"
CODE = "code"
"""The group of facts that is the commit; the states of asv's own history, which has a commit for it, leave it out."""

_LONGEST_NAME = 100
_VERSION = re.compile(r"\d+(?:\.\d+)+")


@dataclass(frozen=True)
class _Group:
    facts: tuple[str, ...]
    name: str = ""


@dataclass(frozen=True)
class HistoryRules:
    """The patterns of facts: of the place, of nothing, and of each group of the state; and what is a change."""

    place: _Group
    ignored: _Group
    state: tuple[_Group, ...]
    change: Mapping[str, float]

    @property
    def share(self) -> float:
        """The smallest change of a figure, as a share."""
        return self.change["share"]

    @cached_property
    def groups(self) -> Mapping[str, tuple[str, ...]]:
        return {row.name: row.facts for row in self.state}

    def group(self, fact: str) -> str | None:
        """Return "place", the group of the state, or "" for a fact that is ignored; None for one that no pattern speaks of."""
        if matches(fact, self.ignored.facts):
            return ""
        if matches(fact, self.place.facts):
            return "place"
        return next((name for name, patterns in self.groups.items() if matches(fact, patterns)), None)


rules = kept(FILE, HistoryRules)


@dataclass(frozen=True)
class Place:
    """One stack on one host with its devices: what a series is about."""

    host: str
    stack: str
    rehearsed: bool
    devices: str
    digest: str

    @property
    def label(self) -> str:
        """How people read it; a rehearsal cannot be mistaken for the stack."""
        rehearsal = " (rehearsed)" if self.rehearsed else ""
        return f"{self.stack}{rehearsal} on {self.devices}, host {self.host}"

    @property
    def slug(self) -> str:
        """A short unique name for files and branches."""
        rehearsal = "-rehearsed" if self.rehearsed else ""
        return slug(f"{self.stack}{rehearsal}-{self.host[:_LONGEST_NAME]}-{self.digest[:8]}")


@dataclass(frozen=True)
class State:
    """The state of a stack: its facts by group, values as text."""

    groups: Mapping[str, Mapping[str, str]]

    @property
    def digest(self) -> str:
        """The same for the same facts, the commit apart."""
        return _digest({name: dict(facts) for name, facts in self.groups.items() if name != CODE})

    @property
    def commit(self) -> str:
        """The commit of the code that measured, as provenance says it."""
        return self.fact(CODE, "commit")

    def fact(self, group: str, name: str) -> str:
        """Return one fact, "unknown" where the record does not have it."""
        return self.groups.get(group, {}).get(name, "unknown")

    def version(self, group: str) -> str:
        """Return the version numbers that the facts of a group hold, in words for an axis; "none" where there is no fact."""
        words = [word for _, value in sorted(self.groups.get(group, {}).items()) for word in _VERSION.findall(value)]
        return " ".join(dict.fromkeys(words)) or "none"

    def as_json(self) -> str:
        """Return the facts of this state by group, as the text of a JSON object."""
        return json.dumps({name: dict(facts) for name, facts in self.groups.items()}, indent=1, sort_keys=True) + "\n"


def place(facts: Mapping[str, Figure]) -> Place:
    values = _grouped(facts).get("place", {})
    names = sorted(value for name, value in values.items() if name.endswith(".name"))
    count = values.get("devices", "1")
    devices = ", ".join(names) or values.get("verified on", "unknown device")
    return Place(
        host=values.get("host", "unnamed"),
        stack=values.get("stack", "unknown"),
        rehearsed=values.get("rehearsed", "False") == "True",
        devices=f"{count} x {devices}" if count != "1" else devices,
        digest=_digest(values),
    )


def state(facts: Mapping[str, Figure]) -> State:
    groups = _grouped(facts)
    return State({name: groups[name] for name in rules().groups if name in groups})


def changes(before: State, after: State) -> dict[str, tuple[str, ...]]:
    """Return what differs, by group: one phrase for each fact, such as `nvidia-smi: 550.54 -> 560.35`."""
    groups = {}
    for name in rules().groups:
        old, new = before.groups.get(name, {}), after.groups.get(name, {})
        differing = [fact for fact in sorted({**old, **new}) if old.get(fact) != new.get(fact)]
        if differing:
            groups[name] = tuple(
                f"{fact.removeprefix(f'{name}.')}: {_short(old.get(fact))} -> {_short(new.get(fact))}"
                for fact in differing
            )
    return groups


def group_of(fact: str) -> str | None:
    """Return what a fact belongs to: "place", a group of the state, "" if it is ignored, None if no pattern speaks of it."""
    return _sorted_in(fact)[0]


def slug(text: str) -> str:
    """Return text as a name that files, branches and asv accept: letters, digits, single hyphens."""
    return re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-").lower()


def _grouped(facts: Mapping[str, Figure]) -> Mapping[str, Mapping[str, str]]:
    """Return the facts of each group as text, those of several cards under one name."""
    return _grouped_facts(tuple((name, str(value)) for name, value in facts.items()))


@lru_cache(maxsize=8)  # of one record the place and the state are asked for one after the other
def _grouped_facts(facts: tuple[tuple[str, str], ...]) -> Mapping[str, Mapping[str, str]]:
    values: dict[tuple[str, str], set[str]] = {}
    for name, value in facts:
        group, merged = _sorted_in(name)
        if group:
            values.setdefault((group, merged), set()).add(value)
    groups: dict[str, dict[str, str]] = {}
    for (group, name), lines in sorted(values.items()):
        groups.setdefault(group, {})[name] = " | ".join(sorted(lines))
    return groups


@cache
def _sorted_in(name: str) -> tuple[str | None, str]:
    """Return the group of a fact and the name that it shares with the same fact of other cards."""
    merged = re.sub(r"^([a-z]+):\d+\.", r"\1.", name)
    return rules().group(merged), merged


def _digest(value: Mapping[str, object]) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _short(value: str | None) -> str:
    """A digest or commit is long and says nothing beyond its beginning."""
    if value is None:
        return "absent"
    return value[:12] if re.fullmatch(r"[0-9a-f]{40,64}", value) else value


PUBLISHED = places.RESULTS / "published"
LOCAL = places.RESULTS / "local"
SUFFIX = "record.json"
"""Files of the store end in it: `record.json` in the folder of a run, `TIME-VERB-RANDOM.record.json` among the published."""
ASIDE = ".damaged"
MEASURING = ("bench", "asv")
"""Verbs whose records have a history; those of other verbs lie beside them and can be large."""

PUBLISHING = (*MEASURING, "night", "gate", "smoke", "verify", "ddp")
"""Verbs whose records runners publish: figures, and what proves them."""

_NAMED = re.compile(r"\d{8}T\d{6}-([a-z]+)-")


RESULTS = "STACKPROOF_RESULTS"
"""Names another folder for a store than those of the checkout: to try things, or to collect elsewhere."""


def folders() -> tuple[Path, ...]:
    """Return the folders that histories are read from: what runners published, and this checkout's own runs."""
    if not (named := os.environ.get(RESULTS)):
        return PUBLISHED, LOCAL
    if os.path.isfile(named):  # noqa: PTH113 - false also for a name that no file can have
        raise Refusal(f"{RESULTS}={named}: is a file; unset it, or name a folder of records")
    return (Path(named),)


def writable() -> Path:
    """Return the folder that new records go to; publishing one is a step of its own."""
    return folders()[-1]


@dataclass
class Loaded:
    """What a store holds: records by file, sorted by name, and one sentence for each file that is none."""

    records: dict[Path, Record] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def folder(record: Record, base: Path = PUBLISHED) -> Path:
    """Return where a record belongs below `base`: by stack and host, so that runners do not meet."""
    return base / slug(record.stack) / slug(place(record.provenance).host)


def run_of(path: Path) -> str:
    """Return the name of the run that wrote a record: of its folder, or of the file among the published; it stays when records move."""
    return path.parent.name if path.name == SUFFIX else path.name.removesuffix(f".{SUFFIX}")


def append(record: Record, into: Path, run: str = "") -> Path:
    """Add a record to a folder under a name that is new, and return the file.

    `run`: the run that wrote it, whose name it keeps where nobody has that.

    Raises:
        Refusal: the record is not valid, or the folder cannot be written.
    """
    path = into / f"{run}.{SUFFIX}"
    if not _NAMED.match(run) or path.exists():
        stamp = record.started[:19].replace("-", "").replace(":", "")
        path = into / f"{stamp}-{slug(record.verb)}-{secrets.token_hex(4)}.{SUFFIX}"
    records.write(record, path, f"{RESULTS}=FOLDER")
    return path


def files(tops: Iterable[Path], verbs: tuple[str, ...] = MEASURING) -> list[Path]:
    """Return the files of these verbs' records below these folders, by name; a folder that does not exist is empty."""
    found = list[Path]()
    for at, folders, names in chain.from_iterable(map(os.walk, tops)):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            named = _NAMED.match(Path(at).name if name == SUFFIX else name)
            # What says nothing of its verb is looked into.
            if name.endswith(SUFFIX) and not name.startswith(".") and (named is None or named[1] in verbs):
                found.append(Path(at, name))
    return sorted(found)


def load(tops: Iterable[Path]) -> Loaded:
    """Read every measuring verb's record below folders of this checkout's own, where a damaged one is set aside."""
    return read(files(tops), aside=True)


def read(paths: Iterable[Path], aside: bool = False) -> Loaded:
    """Read these files; what cannot be read is reported each time, and stays where it is unless a damaged one is to be set aside."""
    loaded = Loaded()
    for path in paths:
        try:
            loaded.records[path] = reading.read(path)
        except NotJsonError:
            left = [f"{path}: is damaged or cut short; it was left where it is, the others were read"]
            loaded.problems += _set_aside(path) if aside else left
        except Refusal as refusal:
            if path.exists():  # else another process has set it aside meanwhile
                loaded.problems.append(f"{refusal}; it was left where it is")
    return loaded


def distinct(stored: Mapping[Path, Record]) -> dict[Path, Record]:
    """Return one file of each record: one that was published still lies where it was written."""
    firsts: dict[object, Path] = {}
    for path, record in stored.items():
        firsts.setdefault(record.digests.get("record", path), path)
    return {path: stored[path] for path in firsts.values()}


def _set_aside(path: Path) -> list[str]:
    aside = path.with_name(path.name + ASIDE)
    try:
        path.rename(aside)
    except FileNotFoundError:
        return []
    except OSError as error:
        return [f"{path}: is damaged or cut short, was skipped, and cannot be set aside ({error.strerror})"]
    return [f"{path}: is damaged or cut short; it was set aside as {aside.name}, the others were read"]

"""The two ends of a search, what differs between them as a list of changes, and any mixture of both.

Changes are packages of the locks, variables, sources, and the range of commits. What the wheels of both ends ask for says which change
cannot be moved without which: one that names an exact version of another, as torch does of triton and nvidia-*, makes a unit of both.
"""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from importlib import metadata
from pathlib import Path
from typing import TypeVar

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from stackproof.api.base import Refusal, files, git, places, text
from stackproof.api.environment import environments, lockfile
from stackproof.api.gate import plan as gate_plan
from stackproof.api.gate import variants
from stackproof.api.record import Figure, reading, store
from stackproof.api.stack import projects, provenance, stacks

Value = TypeVar("Value")
ABSENT = "none"
Requirements = Mapping[str, Sequence[Requirement]]
"""What each installed package asks for, by canonical name."""


class ChangeKind(str, Enum):
    """What sort of change it is."""

    PACKAGE = "package"
    VARIABLE = "variable"
    SOURCE = "source"
    COMMITS = "commits"


@dataclass(frozen=True)
class OneChange:
    """What a change changes, from what to what."""

    kind: ChangeKind
    name: str
    before: str
    after: str

    @property
    def label(self) -> str:
        """How people read it."""
        if self.kind is ChangeKind.COMMITS:
            return f"commits {self.before[:10]}..{self.after[:10] or 'this checkout as it is'}"
        mark = "=" if self.kind is ChangeKind.VARIABLE else " "
        source = " from" if self.kind is ChangeKind.SOURCE else ""
        return text.plain(f"{self.name}{source}{mark}{self.before} -> {self.after}", lines=False)


@dataclass(frozen=True)
class ChangeUnit:
    """Changes that move together, and the names of all units that they cannot be moved without."""

    name: str
    changes: tuple[OneChange, ...]
    needs: frozenset[str] = frozenset()

    @property
    def label(self) -> str:
        """How people read it: of many, the first two."""
        shown = "; ".join(change.label for change in self.changes[:2])
        more = len(self.changes) - 2
        return f"{shown}; and {more} that move with them" if more > 0 else shown


@dataclass(frozen=True)
class Endpoint:
    """A side, or a mixture of two: the commit (empty for this checkout), the lock, variables, and packages from a checkout.

    Of a side also its `name`, the `words` that were typed for it, and the `facts` of its record where it is one.
    """

    commit: str
    lock: lockfile.Lock
    environment: Mapping[str, str] = field(default_factory=dict)
    sources: Mapping[str, Path] = field(default_factory=dict)
    name: str = ""
    words: str = ""
    facts: Mapping[str, Figure] = field(default_factory=dict)


def differences(good: Endpoint, bad: Endpoint, described: Mapping[str, str] | None = None) -> list[OneChange]:
    """Return every change between two ends that can be moved here; `described`: the markers of the Python that both run on."""
    changes = [*_packages(good.lock, bad.lock, described)]
    changes += _values(ChangeKind.VARIABLE, good.environment, bad.environment)
    changes += _values(ChangeKind.SOURCE, good.sources, bad.sources)
    if good.commit != bad.commit:
        changes.append(OneChange(ChangeKind.COMMITS, "commits", good.commit, bad.commit))
    return changes


def mixed(good: Endpoint, bad: Endpoint, moved: Collection[OneChange]) -> Endpoint:
    """Return the good end with these changes; its lock is in no file until `lock_text` is written to one."""
    names = {kind: {change.name for change in moved if change.kind is kind} for kind in ChangeKind}
    packages = names[ChangeKind.PACKAGE]
    pins = [pin for pin in good.lock.pins if pin.name not in packages]
    pins += [pin for pin in bad.lock.pins if pin.name in packages]
    return Endpoint(
        bad.commit if names[ChangeKind.COMMITS] else good.commit,
        replace(good.lock, pins=tuple(sorted(pins, key=lambda pin: (pin.name, pin.marker)))),
        _moved(good.environment, bad.environment, names[ChangeKind.VARIABLE]),
        _moved(good.sources, bad.sources, names[ChangeKind.SOURCE]),
    )


def lock_text(lock: lockfile.Lock) -> str:
    """Return the file of a mixture's lock."""
    return lockfile.text_of(lock.header, [pin.text for pin in lock.pins], "A mixture of two locks, made by `bisect`.")


def _packages(good: lockfile.Lock, bad: lockfile.Lock, described: Mapping[str, str] | None) -> Iterator[OneChange]:
    before, after = (
        _by_name(pin for pin in lock.pins if described is None or pin.applies(described)) for lock in (good, bad)
    )
    for name in sorted({*before, *after}):
        pins = before.get(name, []), after.get(name, [])
        old, new = (", ".join(sorted(pin.version for pin in side)) or ABSENT for side in pins)
        hashes = [{digest for pin in side for digest in pin.hashes} for side in pins]
        if old == new and all(hashes) and not hashes[0] & hashes[1]:  # the same version, built anew
            old, new = (f"{old} ({min(side).removeprefix('sha256:')[:8]})" for side in hashes)
        if old != new:
            yield OneChange(ChangeKind.PACKAGE, name, old, new)


def _by_name(pins: Iterable[lockfile.Pin]) -> dict[str, list[lockfile.Pin]]:
    groups: dict[str, list[lockfile.Pin]] = {}
    for pin in pins:
        groups.setdefault(pin.name, []).append(pin)
    return groups


def _values(kind: ChangeKind, before: Mapping[str, object], after: Mapping[str, object]) -> Iterator[OneChange]:
    for name in sorted({*before, *after}):
        if before.get(name) != after.get(name):
            yield OneChange(kind, name, str(before.get(name, ABSENT)), str(after.get(name, ABSENT)))


def _moved(before: Mapping[str, Value], after: Mapping[str, Value], names: Collection[str]) -> dict[str, Value]:
    """Return the values of the first, and of the second where a name is moved; one that it does not have is gone."""
    kept = {name: value for name, value in before.items() if name not in names}
    return kept | {name: value for name, value in after.items() if name in names}


def requirements_of(site: Path) -> dict[str, list[Requirement]]:
    """Return what the packages of an environment ask for, by their metadata."""
    return {
        canonicalize_name(package.metadata["Name"]): [*_requirements(package.requires or ())]
        for package in metadata.distributions(path=[str(site)])
        if package.metadata["Name"]
    }


def _requirements(lines: Iterable[str]) -> Iterator[Requirement]:
    for line in lines:
        try:
            row = Requirement(line)
        except InvalidRequirement:
            continue
        if row.marker is None or row.marker.evaluate({"extra": ""}):
            yield row


def units(changes: Sequence[OneChange], good: Requirements, bad: Requirements) -> list[ChangeUnit]:
    """Return the changes as units, each after those that it needs."""
    reach = _reach(changes, _needs(changes, good, bad))
    groups: dict[frozenset[str], list[OneChange]] = {}
    for change in changes:
        together = frozenset(other for other in reach[change.name] if change.name in reach[other])
        groups.setdefault(together, []).append(change)
    titles = {group: "+".join(change.name for change in members) for group, members in groups.items()}
    unit_of = {change.name: titles[group] for group, members in groups.items() for change in members}
    result = []
    for group, members in groups.items():
        needs = {unit_of[other] for change in members for other in reach[change.name]} - {titles[group]}
        result.append(ChangeUnit(titles[group], tuple(members), frozenset(needs)))
    return sorted(result, key=lambda unit: len(unit.needs))


def _needs(changes: Sequence[OneChange], good: Requirements, bad: Requirements) -> dict[str, set[str]]:
    """Return for each change those without which what the wheels ask for does not hold."""
    moved = {change.name: change for change in changes if change.kind is ChangeKind.PACKAGE}
    groups: dict[str, set[str]] = {change.name: set() for change in changes}
    for name in moved:
        for other in _unmet(bad.get(name, ()), {key: change.before for key, change in moved.items()}):
            groups[name].add(other)  # its new wheel does not take the other's old one
        for other in _unmet(good.get(name, ()), {key: change.after for key, change in moved.items()}):
            groups[other].add(name)  # its old wheel does not take the other's new one
    return groups


def _unmet(rows: Iterable[Requirement], versions: Mapping[str, str]) -> Iterator[str]:
    """Yield what is asked for in another version than there is; of several for several Pythons any will do, an absent one will not."""
    for row in rows:
        name = canonicalize_name(row.name)
        if name in versions:
            parts = [part.strip() for part in versions[name].partition(" (")[0].split(",")]
            if not any(row.specifier.contains(part, prereleases=True) for part in parts if part not in ("", ABSENT)):
                yield name


def _reach(changes: Sequence[OneChange], needs: Mapping[str, set[str]]) -> dict[str, frozenset[str]]:
    groups: dict[str, frozenset[str]] = {}
    for change in changes:
        seen, left = {change.name}, [change.name]
        while left:
            fresh = needs[left.pop()] - seen
            seen |= fresh
            left += fresh
        groups[change.name] = frozenset(seen)
    return groups


LOCAL = "what is not committed here"
"""The last place of a line that ends in a checkout with changes."""


@dataclass(frozen=True)
class Repository:
    """A folder of a repository, what of it a side brings along, and whether locks and harness are in it too."""

    folder: Path
    paths: tuple[str, ...]
    ours: bool

    @property
    def top(self) -> Path:
        """The folder of the whole checkout."""
        return Path(git.output(self.folder, "rev-parse", "--show-toplevel").rstrip("\n"))

    def between(self, good: str, bad: str) -> list[str]:
        """Return the commits after the good one up to the bad one, oldest first, by first parent; one that changes no side is left out.

        A bad side that is no commit is a checkout with changes: its commits, and then `LOCAL`.

        Refusal: the good commit does not come before the bad one.
        """
        if not good:
            raise Refusal(
                "the good side is this checkout as it is, which is no commit; name one with --good to search commits"
            )
        last = bad or variants.resolved("HEAD", self.folder)
        base = (git.try_output(self.folder, "merge-base", good, last) or "").strip()
        if base != good:
            remedy = (
                "were --good and --bad swapped?"
                if base == last
                else "name two of one history (`git fetch --unshallow` gets it)"
            )
            raise Refusal(f"the good commit {good[:10]} does not come before the bad one {last[:10]}; {remedy}")
        line = git.output(self.folder, "rev-list", "--first-parent", "--reverse", f"{good}..{last}", "--", *self.paths)
        return line.split() if bad else [*line.split(), LOCAL]

    def subjects(self, names: tuple[str, ...]) -> dict[str, str]:
        commits = [name for name in names if name != LOCAL]
        return {name: git.output(self.folder, "log", "-1", "--format=%s", name).strip() for name in commits}


def short(name: str) -> str:
    """Return the name of a commit as people read it."""
    return name if name == LOCAL else name[:10]


def repository(own_command: bool) -> Repository:
    """Return whose commits a side can name: a project's, for a command those around the folder where one stands, else ours."""
    if project := projects.current():
        return Repository(project.folder, (":/",) if own_command else (".",), ours=False)
    if not own_command:
        return Repository(places.ROOT, gate_plan.load().compared, ours=True)
    here = Path.cwd().resolve()
    return Repository(here, (":/",), ours=here.is_relative_to(places.ROOT.resolve()))


NEWEST = Path()
"""The journal that `--continue` alone stands for: the newest."""
_VARIABLE = "env."
_HELD = ("driver", "toolkit", "host")


@dataclass(frozen=True)
class BisectRequest(variants.CompareRequest):
    """A search between two sides, whose `commit` may be the name of a lock or of a record too."""

    good: variants.Variant = field(default_factory=lambda: variants.Variant("good"))
    bad: variants.Variant = field(default_factory=lambda: variants.Variant("bad"))
    what: str = ""
    """A subject, a cell, a counter or a check; empty for whatever is worse."""
    command: tuple[str, ...] = ()
    always: bool = False
    """Whether the failure is taken to come in every run of a bad side, and in none of a good one."""
    deadline: float = 600.0
    """Seconds after which a check or a command hangs."""
    journal: Path | None = None
    """The journal of the search that goes on; `NEWEST` for the last one."""


def named(side: variants.Variant, stack: stacks.Stack, unpinned: bool, of: Repository) -> Endpoint:
    """Return the end that the flags of a side name; `of`: whose commits they are.

    Refusal: a commit, a lock or a record cannot be used; the sentence names it.
    """
    facts: Mapping[str, Figure] = {}
    commit, lock, environment = side.commit, side.lock, dict(side.environment)
    if is_file(commit):
        commit, lock, facts = _file(files.expand_user(commit), lock, side.name, stack)
        commit = commit if of.ours or projects.current() else ""  # a record tells of no other repository
        environment = {**_variables(facts), **environment}
    revision = variants.resolved(commit, of.folder)
    own = _lock(lock, revision if of.ours else "", stack, facts, side.name, unpinned)
    return Endpoint(revision, own, environment, side.sources, side.name, side.commit or "this checkout", facts)


def is_file(word: str) -> bool:
    """Whether a side is named by a file, a lock or a record, rather than by a commit."""
    place = files.expand_user(word)
    return bool(word) and (
        not files.why_unreadable(place) or (place / "pyvenv.cfg").is_file() or word.endswith((".json", ".lock"))
    )


def check(word: str, name: str, of: Repository) -> None:
    """Refuse what is neither a file that can be read nor a commit."""
    if not is_file(word):
        variants.resolved(word, of.folder)
    elif not files.expand_user(word).is_dir() and (why := files.why_unreadable(files.expand_user(word))):
        raise Refusal(f"--{name} {word}: {why}; name a commit, a lock or a record")


def _file(
    place: Path, lock: Path | None, name: str, stack: stacks.Stack
) -> tuple[str, Path | None, Mapping[str, Figure]]:
    if place.is_dir() or (place.suffix != ".json" and files.try_read_json(place) is None):
        if lock:
            raise Refusal(f"--{name} {place} is a lock, and --{name}-lock {lock} another; name one")
        return "", lockfile.adopt_side(place, stack), {}
    record = reading.read(place)
    if record.stack != stack.name:
        raise Refusal(f"--{name} {place}: is of stack '{record.stack}', not of '{stack.name}'; name one of that")
    commit = str(record.provenance.get("commit", ""))
    return ("" if commit.startswith(("unknown", "version")) else commit.split(" ")[0]), lock, record.provenance


def _variables(facts: Mapping[str, Figure]) -> dict[str, str]:
    """Return the variables that a record was made with; defaults of the stack are set anyway."""
    return {
        name.removeprefix(_VARIABLE): str(value)
        for name, value in facts.items()
        if name.startswith(_VARIABLE) and " " not in name
    }


def _lock(
    lock: Path | None, revision: str, stack: stacks.Stack, facts: Mapping[str, Figure], name: str, unpinned: bool
) -> lockfile.Lock:
    """Return the lock of a side: the one that is named, else that of its commit; a record's must be the one it tells of."""
    if unpinned:
        if lock:
            raise Refusal(
                f"the {name} side names packages, and nothing is installed in an environment that is not ours; in a checkout of "
                "stackproof `nox -s STACK-bisect -- ...` with the same flags installs them"
            )
        return lockfile.own(stack)
    contents = lockfile.read_of(lock, stack) if lock else _of_commit(revision, stack)
    python = environments.version_of(stack)
    if lock and python not in contents.header["python"].split(", "):
        raise Refusal(
            f"--{name}-lock {lock} is for Python {contents.header['python']}, and both sides run on {python}; name one for that"
        )
    sentence = str(facts.get("lock", ""))
    if sentence and sentence != "unpinned" and not lock and sentence != contents.digest:
        raise Refusal(
            f"--{name}: the record's lock ({sentence[:12]}) is not that of its commit ({contents.digest[:12]}); "
            f"name the file with --{name}-lock"
        )
    return contents


def _of_commit(revision: str, stack: stacks.Stack) -> lockfile.Lock:
    if not revision or not stack.lock.is_relative_to(places.ROOT):
        return lockfile.own(stack)
    text = git.output_bytes(places.ROOT, "show", f"{revision}:{stack.lock.relative_to(places.ROOT)}")
    with tempfile.TemporaryDirectory(prefix="stackproof-lock-") as folder:
        path = Path(folder) / stack.lock.name
        path.write_bytes(text)
        return lockfile.read(path)


def immovable(good: Endpoint, bad: Endpoint, stack: stacks.Stack) -> list[str]:
    """Return what differs between the ends and cannot be moved here: driver, toolkit and host, as their records tell them."""
    if not (good.facts or bad.facts):
        return []
    here = provenance.host_facts(stack)
    before, after = (store.state({**here, **endpoint.facts} if endpoint.facts else here) for endpoint in (good, bad))
    return [
        f"{group}: {phrase}"
        for group, phrases in store.changes(before, after).items()
        if group in _HELD
        for phrase in phrases
    ]

"""The two ends as the command line names them: a commit, a lock, a record, with variables, sources and a lock of its own."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from stackproof.api.base import Refusal, files, git, places
from stackproof.api.environment import environments, lockfile
from stackproof.api.gate import CompareRequest, commits, variants
from stackproof.api.record import Figure, reading, store
from stackproof.api.stack import projects, provenance, stacks
from stackproof.extras.bisect.changes import Endpoint
from stackproof.extras.bisect.commits import Repository, repository

NEWEST = Path()
"""The journal that `--continue` alone stands for: the newest."""
_VARIABLE = "env."
_HELD = ("driver", "toolkit", "host")


@dataclass(frozen=True)
class NamedEndpoint:
    """An end, what was typed for it, and the facts of its record where it is one."""

    name: str
    end: Endpoint
    words: str
    facts: Mapping[str, Figure]


@dataclass(frozen=True)
class BisectRequest(CompareRequest):
    """A search between two sides, whose `commit` may be the name of a lock or of a record too."""

    good: variants.Variant = field(default_factory=lambda: variants.Variant("good"))
    bad: variants.Variant = field(default_factory=lambda: variants.Variant("bad"))
    what: str = ""
    """A subject, a cell, a counter or a check; empty for whatever is worse."""
    command: tuple[str, ...] = ()
    deadline: float = 600.0
    """Seconds after which a check or a command hangs."""
    journal: Path | None = None
    """The journal of the search that goes on; `NEWEST` for the last one."""
    typed: tuple[str, ...] = ()
    """The words of this call, to be repeated when it is interrupted."""


def named(
    side: variants.Variant, stack: stacks.Stack, unpinned: bool = False, of: Repository | None = None
) -> NamedEndpoint:
    """Return the end that the flags of a side name; `of`: whose commits they are, if not this checkout's or the project's.

    Raises:
        Refusal: a commit, a lock or a record cannot be used; the sentence names it.
    """
    of = of or repository(own_command=False)
    facts: Mapping[str, Figure] = {}
    commit, lock, environment = side.commit, side.lock, dict(side.environment)
    if is_file(commit):
        commit, lock, facts = _file(files.expand_user(commit), lock, side.name)
        commit = commit if of.ours or projects.current() else ""  # a record tells of no other repository
        environment = {**_variables(facts), **environment}
    revision = commits.resolved(commit, of.folder)
    own = _lock(lock, revision if of.ours else "", stack, facts, side.name, unpinned)
    return NamedEndpoint(
        side.name, Endpoint(revision, own, environment, side.sources), side.commit or "this checkout", facts
    )


def is_file(word: str) -> bool:
    """Whether a side is named by a file, a lock or a record, rather than by a commit."""
    return bool(word) and (files.expand_user(word).is_file() or word.endswith((".json", ".lock")))


def check(word: str, name: str, of: Repository | None = None) -> None:
    """Refuse what is neither a file that can be read nor a commit."""
    if not is_file(word):
        commits.resolved(word, (of or repository(own_command=False)).folder)
    elif why := files.why_unreadable(files.expand_user(word)):
        raise Refusal(f"--{name} {word}: {why}; name a commit, a lock or a record")


def _file(place: Path, lock: Path | None, name: str) -> tuple[str, Path | None, Mapping[str, Figure]]:
    if place.suffix != ".json" and files.try_read_json(place) is None:
        if lock:
            raise Refusal(f"--{name} {place} is a lock, and --{name}-lock {lock} another; name one")
        return "", place, {}
    record = reading.read(place)
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
                f"--{name}-lock {lock}: --unpinned installs nothing, so locks cannot be compared; leave one of them out"
            )
        return lockfile.read(stack.lock)
    found = lockfile.read_of(lock, stack) if lock else _of_commit(revision, stack)
    python = environments.version_of(stack)
    if lock and python not in found.header["python"].split(", "):
        raise Refusal(
            f"--{name}-lock {lock} is for Python {found.header['python']}, and both sides run on {python}; name one for that"
        )
    said = str(facts.get("lock", ""))
    if said and said != "unpinned" and not lock and said != found.digest:
        raise Refusal(
            f"--{name}: the record's lock ({said[:12]}) is not that of its commit ({found.digest[:12]}); "
            f"name the file with --{name}-lock"
        )
    return found


def _of_commit(revision: str, stack: stacks.Stack) -> lockfile.Lock:
    if not revision or not stack.lock.is_relative_to(places.ROOT):
        return lockfile.read(stack.lock)
    text = git.output_bytes(places.ROOT, "show", f"{revision}:{stack.lock.relative_to(places.ROOT)}")
    with tempfile.TemporaryDirectory(prefix="stackproof-lock-") as folder:
        path = Path(folder) / stack.lock.name
        path.write_bytes(text)
        return lockfile.read(path)


def immovable(good: NamedEndpoint, bad: NamedEndpoint, stack: stacks.Stack) -> list[str]:
    """Return what differs between the ends and cannot be moved here: driver, toolkit and host, as their records tell them."""
    if not (good.facts or bad.facts):
        return []
    here = provenance.host_facts(stack)
    before, after = (store.state({**here, **one.facts} if one.facts else here) for one in (good, bad))
    return [
        f"{group}: {phrase}"
        for group, phrases in store.changes(before, after).items()
        if group in _HELD
        for phrase in phrases
    ]

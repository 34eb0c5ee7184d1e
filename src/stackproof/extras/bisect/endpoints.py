"""The two ends as the command line names them, whose commits lie between them, and checkouts to run a command in."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from stackproof.api.base import Refusal, files, git, places, text
from stackproof.api.environment import environments, lockfile
from stackproof.api.gate import CompareRequest, commits, variants
from stackproof.api.gate import commits as revisions
from stackproof.api.gate import plan as gate_plan
from stackproof.api.record import Figure, reading, store
from stackproof.api.stack import projects, provenance, stacks
from stackproof.extras.bisect.changes import Endpoint

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

        Raises:
            Refusal: the good commit does not come before the bad one.
        """
        if not good:
            raise Refusal(
                "the good side is this checkout as it is, which is no commit; name one with --good to search commits"
            )
        last = bad or revisions.resolved("HEAD", self.folder)
        self._require_before(good, last)
        line = git.output(self.folder, "rev-list", "--first-parent", "--reverse", f"{good}..{last}", "--", *self.paths)
        return line.split() if bad else [*line.split(), LOCAL]

    def _require_before(self, good: str, bad: str) -> None:
        base = (git.try_output(self.folder, "merge-base", good, bad) or "").strip()
        if not base:
            raise Refusal(
                f"the history between {good[:10]} and {bad[:10]} is not here; in a shallow clone, `git fetch --unshallow` gets it"
            )
        if base == bad != good:
            raise Refusal(
                f"the bad commit {bad[:10]} comes before the good one {good[:10]}; were --good and --bad swapped?"
            )
        if base != good:
            raise Refusal(
                f"the good commit {good[:10]} is no ancestor of the bad one {bad[:10]}; name their common one, --good {base[:10]}"
            )

    def subjects(self, names: tuple[str, ...]) -> dict[str, str]:
        """Return the subject line of each commit."""
        commits = [name for name in names if name != LOCAL]
        return {name: git.output(self.folder, "log", "-1", "--format=%s", name).strip() for name in commits}

    def is_merge(self, name: str) -> bool:
        """Whether a commit brought the commits of another branch, which were not tried one by one."""
        return name != LOCAL and len(git.output(self.folder, "rev-list", "--parents", "-n", "1", name).split()) > 2


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


@dataclass
class Checkouts:
    """Checkouts of commits in which a command runs, in the folder there that one stands in here.

    `home`: where they are laid out; None where no command runs, or none of the commits has the folder where one stands.
    """

    repository: Repository = field(default_factory=lambda: repository(own_command=False))
    home: Path | None = None
    laid: dict[str, Path] = field(default_factory=dict)

    def folder(self, commit: str) -> Path | None:
        """Return where a command runs at a commit, laid out once; None where it runs as one stands.

        Raises:
            Refusal: git cannot lay it out, or that commit has no such folder.
        """
        if self.home is None or not commit:
            return None
        here, top = Path.cwd().resolve(), self.repository.top.resolve()
        if not here.is_relative_to(top):
            return None
        inner = here.relative_to(top)
        if commit not in self.laid:
            self.home.mkdir(parents=True, exist_ok=True)
            tree = self.home / commit[:16]
            git.output(top, "worktree", "add", "--quiet", "--force", "--detach", str(tree), commit)
            self.laid[commit] = tree
        found = self.laid[commit] / inner
        if not found.is_dir():
            raise Refusal(f"commit {commit[:10]} has no folder {inner}; stand in one that every commit has")
        return found

    def again(self, commit: str) -> str:
        """Return what lays a checkout out once more, for a shell; those of the search are taken away."""
        if commit not in self.laid:
            return ""
        tree = str(self.laid[commit])
        words = ["git", "-C", str(self.repository.top), "worktree", "add", "--force", "--detach", tree, commit]
        return f"{{ {text.in_shell(['test', '-d', tree])} || {text.in_shell(words)}; }} && "

    @contextmanager
    def swept(self) -> Iterator[None]:
        """Take the checkouts away in the end, whatever ends it."""
        try:
            yield
        finally:
            for tree in self.laid.values():
                git.output(self.repository.top, "worktree", "remove", "--force", str(tree))


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

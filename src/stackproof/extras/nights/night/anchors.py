"""The anchor of a stack: a frozen side, by commit and by the digests of its lock and its workloads (`stacks/NAME/anchor.toml`).

It is measured every night beside today's side. While it is being replaced, the former one is measured too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from stackproof.api.base import Refusal, files, git, places, toml
from stackproof.api.gate import commits, plan
from stackproof.api.stack import projects, stacks
from stackproof.extras.nights.drift import rules
from stackproof.extras.nights.drift.nights import Night

NAME = "anchor.toml"
NEW = "night --anchor new"
_STACKS = "stacks"


@dataclass(frozen=True)
class FrozenSide:
    """What was frozen: a commit, the SHA-256 of the stack's lock in it, and that of the names and contents of its workloads."""

    since: date
    commit: str
    lock: str
    workloads: str

    @property
    def digest(self) -> str:
        """The name of this anchor: whoever has the same has the same frozen side."""
        return hashlib.sha256(f"{self.commit}\n{self.lock}\n{self.workloads}\n".encode()).hexdigest()

    def as_toml(self, table: str) -> str:
        """Return it as a table of the file."""
        rows = f'commit = "{self.commit}"\nlock = "{self.lock}"\nworkloads = "{self.workloads}"\n'
        return f"\n[{table}]\nsince = {self.since.isoformat()}\n{rows}"


@dataclass(frozen=True)
class Anchors:
    """The file: the anchor, and the one before it."""

    anchor: FrozenSide
    former: FrozenSide | None = None

    def chained(self, nights: Iterable[Night]) -> int:
        """Return how many undisturbed nights have measured both."""
        if self.former is None:
            return 0
        both = (self.anchor.digest, self.former.digest)
        return sum((night.anchor, night.former) == both for night in nights if not night.disturbed)

    def former_in_chain(self, nights: Iterable[Night]) -> FrozenSide | None:
        """Return the former anchor for as long as nights are needed that measure both."""
        return self.former if self.chained(nights) < rules.rules().chain.nights else None


def file_of(stack: stacks.Stack) -> Path:
    """Return where a stack's anchor stands."""
    return stack.lock.parent / NAME


def require_ours(stack: stacks.Stack) -> None:
    """Refuse where there is a project: what an anchor freezes is a commit of this repository, with its lock."""
    if projects.current() or not stack.lock.is_relative_to(places.ROOT):
        raise Refusal(
            f"`night` follows the stacks of stackproof's own repository, whose commits hold lock and workloads; of a project compare "
            f"commits with `gate --stack {stack.name} --base REF`, or leave --project out"
        )


def load(stack: stacks.Stack) -> Anchors:
    """Read the anchor of a stack and hold it against the repository: a frozen side that changed is none.

    Raises:
        Refusal: there is none yet, the file is wrong, or the commit is not what was frozen.
    """
    path = file_of(stack)
    if not path.is_file():
        raise Refusal(
            f"{path}: there is no anchor yet, so nights of '{stack.name}' have nothing to be measured beside; make one with "
            f"`{NEW} --stack {stack.name}`, and commit it"
        )
    found = toml.Table.load(path).row(Anchors)
    for side in filter(None, (found.anchor, found.former)):
        _require_frozen(path, side, freeze(stack, side.commit, side.since))
    return found


def _require_frozen(path: Path, said: FrozenSide, found: FrozenSide) -> None:
    for what in ("commit", "lock", "workloads"):
        if getattr(said, what) != getattr(found, what):
            raise Refusal(
                f"{path}: '{what}' is {getattr(said, what)[:12]}, and commit {said.commit[:12]} has {getattr(found, what)[:12]}; "
                f"it is not what was frozen: take the file back from git, or choose a new anchor with `{NEW}`"
            )


def freeze(stack: stacks.Stack, commit: str, since: date, root: Path = places.ROOT) -> FrozenSide:
    """Return a commit as a frozen side.

    Raises:
        Refusal: it is no commit of this repository, or does not have the stack.
    """
    revision = commits.resolved(commit, root)
    lock = str(stack.lock.relative_to(places.ROOT))
    try:
        data = git.output_bytes(root, "show", f"{revision}:{lock}")
    except git.GitMissingError:
        raise
    except Refusal:
        raise Refusal(f"commit {revision[:12]} has no {lock}; choose one that knows the stack") from None
    paths = [path for path in plan.load().compared if path != _STACKS]
    listed = git.output_bytes(root, "ls-tree", "-r", revision, "--", *paths)
    return FrozenSide(since, revision, hashlib.sha256(data).hexdigest(), hashlib.sha256(listed).hexdigest())


def renew(stack: stacks.Stack, nights: Iterable[Night], today: date) -> str:
    """Make this checkout's commit the anchor, keep the one before as the former, and return what is to be done now.

    Raises:
        Refusal: it is the anchor already, or the former one is still being chained.
    """
    path, fresh, before = file_of(stack), freeze(stack, "HEAD", today), None
    if path.is_file():
        known = toml.Table.load(path).row(Anchors)
        before, count = known.anchor, known.chained(nights)
        needed = rules.rules().chain.nights
        if before.commit == fresh.commit:
            raise Refusal(f"{path}: {fresh.commit[:12]} is the anchor already; check another commit out to freeze that")
        if known.former and count < needed:
            raise Refusal(
                f"{path}: the former anchor is still being chained ({count} of {needed} undisturbed nights have measured both); wait "
                "for the others, or take the file back from git and choose again"
            )
    files.write_atomically(path, _text(stack, fresh, before))
    return _anchor_file(path, fresh, before)


def _text(stack: stacks.Stack, fresh: FrozenSide, before: FrozenSide | None) -> str:
    head = (
        f"# The frozen side that nights of {stack.name} are measured beside (docs/nights.md). Made by\n"
        f"# `nox -s {stack.name}-night -- --anchor new`, which keeps the one before it; nights prove it by its digests.\n"
    )
    return head + fresh.as_toml("anchor") + (before.as_toml("former") if before else "")


def _anchor_file(path: Path, fresh: FrozenSide, before: FrozenSide | None) -> str:
    said = f"{path}: the anchor is {fresh.commit[:12]} now; commit this file"
    if before is None:
        return said
    needed = rules.rules().chain.nights
    return f"{said}. {needed} nights will measure it beside the former one ({before.commit[:12]}), and chain the series by their ratio"

"""Where candidates are built: a tree and an environment for each mixture, under a limit of disk, with empty compile caches."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import tempfile
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from pathlib import Path

from stackproof.api.base import Refusal, files, places
from stackproof.api.environment import environments, lockfile
from stackproof.api.gate import interleave, variants
from stackproof.api.stack import projects, stacks
from stackproof.extras.bisect import evidence
from stackproof.extras.bisect.endpoints import Checkouts, Endpoint, Mixture, OneChange, lock_text, mixed
from stackproof.extras.bisect.evidence import NoAnswer

TREE = "bisect"
"""What the trees of candidates are called; nobody else's are taken away."""
LOCKS = places.HOME / "bisect" / "locks"
_FULL = os.strerror(errno.ENOSPC)


@dataclass
class Workshop:
    """Builds sides of one stack between two ends."""

    stack: stacks.Stack
    good: Endpoint
    bad: Endpoint
    profile: str
    device: str
    unpinned: Path | None
    folder: Path
    say: environments.Say
    checkouts: Checkouts = field(default_factory=Checkouts)
    """Where a command runs at each commit."""
    _built: dict[str, interleave.SideSpec] = field(default_factory=dict)

    def end(self, name: str, moved: Collection[OneChange]) -> interleave.SideSpec:
        """Return an end as a side (Refusal: it cannot be built)."""
        return replace(self._build(mixed(self.good, self.bad, moved)), name=name)

    def candidate(self, name: str, moved: Collection[OneChange], commit: str = "") -> interleave.SideSpec | NoAnswer:
        """Return the good side with some of the changes, at a commit where one is named; or why there is none.

        Refusal: the disk is full, or the index cannot be reached, which is no answer about a candidate.
        """
        wanted = mixed(self.good, self.bad, moved)
        wanted = replace(wanted, commit=commit) if commit else wanted
        try:
            return replace(self._build(wanted), name=name)
        except Refusal as refusal:
            if _FULL in str(refusal):
                raise
            if environments.unreached(str(refusal)):
                raise type(refusal)(
                    f"the index cannot be reached, which says nothing of a change: {refusal}"
                ) from refusal
            return NoAnswer(f"cannot be built: {refusal}")

    def _build(self, wanted: Mixture) -> interleave.SideSpec:
        key = f"{wanted.commit} {sorted(map(str, wanted.sources.items()))} {_digest(wanted.pins)}"
        if key not in self._built:
            self._built[key] = self._prepared(wanted)
        side = self._built[key]
        names = {*self.good.environment, *self.bad.environment}
        usual = {name: value for name, value in self.stack.environment.items() if name in names}
        variables = {**usual, **side.environment, **wanted.environment}
        return replace(side, environment=variables).lacking(names)

    def _prepared(self, wanted: Mixture) -> interleave.SideSpec:
        folder = self.checkouts.folder(wanted.commit)
        known = self.checkouts.repository.ours or projects.current()
        variant = variants.Variant(TREE, wanted.commit if known else "", self._lock(wanted), wanted.sources)
        if self.unpinned:
            side = variants.unpinned(variant, self.stack, self.profile, self.device, self.unpinned)
            return replace(side, folder=folder)
        make_room(evidence.rules().limits.trees, {side.source for side in self._built.values()}, self.say)
        return replace(variants.prepared(variant, self.stack, self.profile, self.device, self.say), folder=folder)

    def _lock(self, wanted: Mixture) -> Path | None:
        """Return the file of the lock, or none where it is the checkout's own and nothing else would be laid in its place."""
        if self.unpinned:
            return None
        if sorted(map(_key, wanted.pins)) == sorted(map(_key, lockfile.read(self.stack.lock).pins)):
            return self.stack.lock if wanted.commit and self.checkouts.repository.ours else None
        path = LOCKS / _digest(wanted.pins)[:16] / self.stack.lock.name
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            files.write_atomically(path, lock_text(self.good.lock, wanted.pins))
        return path

    def with_caches(self, side: interleave.SideSpec) -> interleave.SideSpec:
        """Return the side with empty folders for whatever its compilers keep; a variable that the side names itself stays."""
        self.folder.mkdir(parents=True, exist_ok=True)
        home = Path(tempfile.mkdtemp(prefix="caches-", dir=self.folder))
        empty = {
            name: str(home / name.lower()) for name in evidence.rules().limits.caches if name not in side.environment
        }
        for place in empty.values():
            Path(place).mkdir()
        return replace(side, environment={**side.environment, **empty})

    def sweep_caches(self) -> None:
        """Take all those folders away."""
        for place in self.folder.glob("caches-*"):
            shutil.rmtree(place, ignore_errors=True)


def _digest(pins: Collection[lockfile.Pin]) -> str:
    return hashlib.sha256("".join(f"{_key(pin)}\n" for pin in pins).encode()).hexdigest()


def _key(pin: lockfile.Pin) -> tuple[str, str, str, tuple[str, ...]]:
    return pin.name, pin.version, pin.marker, pin.hashes


def make_room(most: int, kept: Collection[Path], say: environments.Say, home: Path = variants.HOME) -> None:
    """Take away the trees of candidates that were used longest ago, but for so many."""
    trees = sorted(home.glob(f"{TREE}-*"), key=lambda tree: tree.stat().st_mtime, reverse=True)
    for tree in trees[most:]:
        if tree / "src" not in kept:
            say(f"more than {most} trees are kept: {tree.name} is taken away")
            shutil.rmtree(tree, ignore_errors=True)

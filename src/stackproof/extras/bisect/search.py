"""The search of a bisection: candidates are built, a tree and an environment for each mixture; units by splits, commits by Bayes."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from stackproof.api.base import Refusal, files, places, text
from stackproof.api.comparison import cells
from stackproof.api.environment import environments, lockfile
from stackproof.api.gate import interleave, variants
from stackproof.api.stack import projects, stacks
from stackproof.extras.bisect import endpoints, evidence
from stackproof.extras.bisect.duels import Duels
from stackproof.extras.bisect.endpoints import ChangeUnit, Endpoint, OneChange, Repository
from stackproof.extras.bisect.evidence import Blame, FailureRate, NoAnswer, Settled, SetWord, Splitting, Weigher
from stackproof.extras.bisect.programs import Programs

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
    request: variants.CompareRequest
    folder: Path
    say: environments.Say
    repository: Repository
    lay: Callable[[str], Path] | None = None
    """Lays out the commit in which a command runs; none where it runs as one stands."""
    _built: dict[str, interleave.SideSpec] = field(default_factory=dict)

    def end(self, name: str, moved: Collection[OneChange]) -> interleave.SideSpec:
        """Return an end as a side (Refusal: it cannot be built)."""
        return replace(self._build(endpoints.mixed(self.good, self.bad, moved)), name=name)

    def candidate(self, name: str, moved: Collection[OneChange], commit: str = "") -> interleave.SideSpec | NoAnswer:
        """Return the good side with some of the changes, at a commit where one is named; or why there is none.

        Refusal: the disk is full, or the index cannot be reached, which is no answer about a candidate.
        """
        mixture = endpoints.mixed(self.good, self.bad, moved)
        mixture = replace(mixture, commit=commit) if commit else mixture
        try:
            return replace(self._build(mixture), name=name)
        except Refusal as refusal:
            if _FULL in str(refusal):
                raise
            if environments.unreached(str(refusal)):
                raise type(refusal)(
                    f"the index cannot be reached, which says nothing of a change: {refusal}"
                ) from refusal
            return NoAnswer(f"cannot be built: {refusal}")

    def _build(self, mixture: Endpoint) -> interleave.SideSpec:
        key = f"{mixture.commit} {sorted(map(str, mixture.sources.items()))} {_digest_of_pins(mixture.lock)}"
        if key not in self._built:
            self._built[key] = self._prepared(mixture)
        side = self._built[key]
        names = {*self.good.environment, *self.bad.environment}
        usual = {name: value for name, value in self.stack.environment.items() if name in names}
        variables = {**usual, **side.environment, **mixture.environment}
        return replace(side, environment=variables).lacking(names)

    def _prepared(self, mixture: Endpoint) -> interleave.SideSpec:
        folder = self.lay(mixture.commit) if self.lay and mixture.commit else None
        known = self.repository.ours or projects.current()
        variant = variants.Variant(TREE, mixture.commit if known else "", self._lock(mixture), mixture.sources)
        asked = self.request
        if asked.unpinned:
            side = variants.unpinned(variant, self.stack, asked.profile, asked.device, asked.unpinned)
            return replace(side, folder=folder)
        make_room(evidence.rules().limits.trees, {side.source for side in self._built.values()}, self.say)
        return replace(variants.prepared(variant, self.stack, asked.profile, asked.device, self.say), folder=folder)

    def _lock(self, mixture: Endpoint) -> Path | None:
        """Return the file of the lock, or none where it is the checkout's own and nothing else would be laid in its place."""
        if self.request.unpinned:
            return None
        if _digest_of_pins(mixture.lock) == _digest_of_pins(lockfile.own(self.stack)):
            return self.stack.lock if mixture.commit and self.repository.ours else None
        path = LOCKS / _digest_of_pins(mixture.lock)[:16] / self.stack.lock.name
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            files.write_atomically(path, endpoints.lock_text(mixture.lock))
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


def _digest_of_pins(lock: lockfile.Lock) -> str:
    pins = sorted((pin.name, pin.version, pin.marker, pin.hashes) for pin in lock.pins)
    return hashlib.sha256(repr(pins).encode()).hexdigest()


def make_room(most: int, kept: Collection[Path], say: environments.Say, home: Path = variants.HOME) -> None:
    """Take away the trees of candidates that were used longest ago, but for so many."""
    trees = sorted(home.glob(f"{TREE}-*"), key=lambda tree: tree.stat().st_mtime, reverse=True)
    for tree in trees[most:]:
        if tree / "src" not in kept:
            say(f"more than {most} trees are kept: {tree.name} is taken away")
            shutil.rmtree(tree, ignore_errors=True)


_ENDLESS = 400


@dataclass(frozen=True)
class SetTest:
    """One test: which units were moved, what was said of them, each run's figure, and how long it took."""

    units: frozenset[str]
    settled: Settled
    seen: tuple[float, ...]
    seconds: float


@dataclass(frozen=True)
class FirstBad:
    """The first bad commit, or those that cannot be told apart, oldest first; how likely that is, and what could not be run."""

    names: tuple[str, ...]
    sure: float
    launches: int
    among: int
    unresolved: Mapping[str, str]


@dataclass
class Bisection:
    """A search in progress; `tests` is what was asked until now."""

    workshop: Workshop
    instrument: Duels | Programs
    units: Sequence[ChangeUnit]
    confirmed: Sequence[float]
    """The figures of the launches of the bad end."""
    say: environments.Say
    tests: list[SetTest] = field(default_factory=list)
    splitting: Splitting = field(init=False)

    def __post_init__(self) -> None:
        needs = {unit.name: unit.needs for unit in self.units}
        self.splitting = Splitting([unit.name for unit in self.units], self._test, needs.__getitem__)
        self.splitting.suspects = [unit.name for unit in self.units]

    def blame(self) -> list[Blame]:
        """Return the culprits among the units; what is left without failures that come and go is run until a rarer one would have shown."""
        blames = self.splitting.blame()
        last = blames[-1]
        if isinstance(self.instrument.weigher(), FailureRate) and last.without is SetWord.GOOD and last.left:
            blames[-1] = replace(last, without=self._proved(last))
        return blames

    def _proved(self, blame: Blame) -> SetWord:
        names, proof = frozenset(blame.left), evidence.rules().failure.proof
        tested = self.of(names)
        self.splitting.suspects = blame.left
        seen = list(tested.seen) if tested else []
        return self._settled(names, evidence.Exact(fewest=proof), evidence.CERTAIN, proof, seen)

    def changes(self, names: Collection[str]) -> list[OneChange]:
        return [change for unit in self.units if unit.name in names for change in unit.changes]

    def of(self, names: Collection[str]) -> SetTest | None:
        """Return the test of a set; none where it was not tested because it is an end."""
        whole = self.splitting.closed(names)
        return next((test for test in self.tests if test.units == whole), None)

    def open_parts(self, blame: Blame) -> int:
        """Return how many smaller sets of the blamed units could not be tested."""
        whole = self.splitting.closed(blame.units)
        return sum(test.units < whole and test.settled.word is SetWord.UNRESOLVED for test in self.tests)

    def _test(self, names: frozenset[str]) -> SetWord:
        rules, weigher = evidence.rules(), self.instrument.weigher()
        limit = evidence.bound(rules.search.error, evidence.tests_of(len(self.units)))
        most = rules.failure.most if isinstance(weigher, FailureRate) else rules.search.most
        return self._settled(names, weigher, limit, most, [])

    def _settled(self, names: frozenset[str], weigher: Weigher, limit: float, most: int, seen: list[float]) -> SetWord:
        began = time.monotonic()
        self.say(self._telling(names))
        settled = evidence.settle(weigher, lambda number: self._run(names, number), limit, most, seen)
        self._keep(names, settled, seen, time.monotonic() - began)
        return settled.word

    def _run(self, names: frozenset[str], number: int) -> float | NoAnswer:
        """Run a set once; whoever goes on asks under the same key."""
        moved = self.changes(names)
        return self.instrument.duel(
            f"set {_digest(names)} {number}", lambda: self.workshop.candidate(cells.HEAD, moved), number
        )

    def _keep(self, names: frozenset[str], settled: Settled, seen: Sequence[float], spent: float) -> None:
        before = next((test for test in self.tests if test.units == names), None)
        self.tests = [test for test in self.tests if test is not before]
        self.tests.append(SetTest(names, settled, tuple(seen), spent + (before.seconds if before else 0.0)))
        why = f": {settled.reason}" if settled.reason else ""
        bad = sum(value > 0 for value in seen)
        failed = f", of which {bad} failed" if bad and isinstance(self.instrument.weigher(), FailureRate) else ""
        self.say(f"  {settled.word.value} after {text.counted(settled.runs, 'run')}{failed}{why}")
        self.workshop.sweep_caches()

    def _telling(self, names: frozenset[str]) -> str:
        """Say what is tried, what remains, and how long that will take if tests go on taking what they took."""
        left = evidence.tests_of(len(self.splitting.suspects))
        took = [test.seconds for test in self.tests]
        about = f", about {left * sum(took) / len(took) / 60:.0f} min" if took else ""
        shown = ", ".join(sorted(names)[:3]) + (", ..." if len(names) > 3 else "")
        return (
            f"test {len(self.tests) + 1}: {len(names)} of {len(self.units)} changes ({shown}); "
            f"{len(self.splitting.suspects)} suspects, {left} tests or so to go{about}"
        )

    def failed(self, names: Collection[str]) -> tuple[int, int]:
        """Return how often a set failed and of how many runs, where failures are searched; else none of none."""
        tested = self.of(names)
        seen = tested.seen if tested else self.confirmed
        rate = sum(ran > 0 for ran in seen), len(seen)
        return rate if isinstance(self.instrument.weigher(), FailureRate) else (0, 0)

    def commits(self, blame: Blame, line: Sequence[str]) -> FirstBad:
        """Return the first bad commit of a line, with the other changes of a blame in place; the last one is known to be bad."""
        whole = self.changes(self.splitting.closed(blame.units))
        moved = [change for change in whole if change.kind is not endpoints.ChangeKind.COMMITS]
        builds = [partial(self.workshop.candidate, cells.HEAD, moved, commit) for commit in line]
        if endpoints.LOCAL in line:
            builds[line.index(endpoints.LOCAL)] = partial(self.workshop.candidate, cells.HEAD, whole)
        weigher, tested = self.instrument.weigher(), self.of(blame.units)
        known = tested.seen if tested else self.confirmed
        ratios = evidence.Ratios([(len(line) - 1, ratio) for ratio in known])
        ran = ratios if isinstance(weigher, evidence.Slowdown) else evidence.Signs(weigher)
        lineage = evidence.Lineage(len(line), ran, evidence.rules().search.sure)
        launches = 0
        self.splitting.suspects = blame.units
        while (at := lineage.ask()) is not None and launches < _ENDLESS:
            self._say_line(lineage, line, at, launches)
            seen = self.instrument.duel(f"commits {_digest(blame.units)} {launches}", builds[at], launches)
            launches += 1
            if isinstance(seen, NoAnswer):
                lineage.unresolved[at] = seen.reason
            else:
                ran.add(at, seen)
        block, sure = lineage.likeliest()
        unresolved = {line[at]: why for at, why in lineage.unresolved.items()}
        return FirstBad(tuple(line[at] for at in block), sure, launches, len(line), unresolved)

    def _say_line(self, lineage: evidence.Lineage, line: Sequence[str], at: int, launches: int) -> None:
        likely, sure = lineage.likeliest()
        first = endpoints.short(line[likely[0]])
        self.say(
            f"inside it, launch {launches + 1}: {endpoints.short(line[at])}; likeliest of {len(line)} is {first} ({sure:.0%})"
        )


def _digest(names: Collection[str]) -> str:
    return hashlib.sha256("\n".join(sorted(names)).encode()).hexdigest()[:10]

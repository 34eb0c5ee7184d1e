"""The verb `bisect`: from a request to two ends and a list of changes, then confirm, search, prove; whatever ends it, a record is kept."""

from __future__ import annotations

import hashlib
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Protocol

from rich.text import Text

from stackproof.api.base import Refusal, files, places, text
from stackproof.api.comparison import GateProgress, cells, chosen_stack, gate_loop, opened
from stackproof.api.environment import environments, lockfile
from stackproof.api.gate import SideSpec, commits, interleave
from stackproof.api.gate import plan as gate_plan
from stackproof.api.record import Record, writer
from stackproof.api.record import resume as stopped_runs
from stackproof.api.runs import bench_subjects
from stackproof.api.stack import provenance, stacks
from stackproof.extras.bisect import endpoints, evidence, outcome, resume
from stackproof.extras.bisect.duels import Build, CannotSayError, Duels, GoodTurnedBadError, NotReproducedError
from stackproof.extras.bisect.endpoints import (
    LOCAL,
    BisectRequest,
    ChangeKind,
    ChangeUnit,
    Checkouts,
    Endpoint,
    NamedEndpoint,
    OneChange,
    Repository,
    differences,
    mixed,
    repository,
    requirements_of,
    short,
    units,
)
from stackproof.extras.bisect.evidence import (
    GOOD,
    Blame,
    FailureRate,
    Levels,
    Lineage,
    NoAnswer,
    Settled,
    SetWord,
    Signs,
    Slowdown,
    Splitting,
    Weigher,
    bound,
    settle,
    tests_of,
)
from stackproof.extras.bisect.outcome import BisectOutcome, BisectWord, Culprit
from stackproof.extras.bisect.programs import Attempt, OwnCommand, Programs, SuiteCheck, typed
from stackproof.extras.bisect.resume import Journal
from stackproof.extras.bisect.workshop import Workshop

_ENDLESS = 400


class Instrument(Protocol):
    """What tells of a candidate: live sides, or programs."""

    def weigher(self) -> Weigher:
        """Return how runs of a candidate are weighed."""

    def duel(self, key: str, build: Build, number: int) -> float | NoAnswer:
        """Run a candidate once."""


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
    instrument: Instrument
    units: Sequence[ChangeUnit]
    confirmed: Sequence[float]
    """What the launches of the bad end said."""
    say: environments.Say
    tests: list[SetTest] = field(default_factory=list)
    splitting: Splitting = field(init=False)
    _began: float = 0.0

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
        names = frozenset(blame.left)
        tested = self.of(names)
        seen = list(tested.seen) if tested else []
        self._asking(names, blame.left)
        while not any(seen) and len(seen) < evidence.rules().failure.proof:
            ran = self._run(names, len(seen))
            if isinstance(ran, NoAnswer):
                settled = Settled(SetWord.UNRESOLVED, len(seen), reason=ran.reason)
                break
            seen.append(ran)
        else:
            settled = Settled(SetWord.BAD if any(seen) else SetWord.GOOD, len(seen))
        self._keep(names, settled, seen)
        return settled.word

    def changes(self, names: Collection[str]) -> list[OneChange]:
        """Return the changes of these units."""
        return [change for unit in self.units if unit.name in names for change in unit.changes]

    def of(self, names: Collection[str]) -> SetTest | None:
        """Return the test of a set; none where it was not tested because it is an end."""
        whole = self.splitting.closed(names)
        return next((one for one in self.tests if one.units == whole), None)

    def open_parts(self, blame: Blame) -> int:
        """Return how many sets of some of a blame's units could not be tested."""
        whole = self.splitting.closed(blame.units)
        return sum(one.units < whole and one.settled.word is SetWord.UNRESOLVED for one in self.tests)

    def _test(self, names: frozenset[str]) -> SetWord:
        rules, weigher, seen = evidence.rules(), self.instrument.weigher(), list[float]()
        self._asking(names, self.splitting.suspects)
        limit = bound(rules.search.error, tests_of(len(self.units)))
        most = rules.failure.most if isinstance(weigher, FailureRate) else rules.search.most
        settled = settle(weigher, lambda number: self._run(names, number), limit, most, seen)
        self._keep(names, settled, seen)
        return settled.word

    def _run(self, names: frozenset[str], number: int) -> float | NoAnswer:
        moved = self.changes(names)
        return self.instrument.duel(
            f"set {_digest(names)} {number}", lambda: self.workshop.candidate(cells.HEAD, moved), number
        )

    def _asking(self, names: frozenset[str], suspects: Sequence[str]) -> None:
        self.splitting.suspects = suspects
        self._began = time.monotonic()
        self.say(self._telling(names))

    def _keep(self, names: frozenset[str], settled: Settled, seen: Sequence[float]) -> None:
        before = next((one for one in self.tests if one.units == names), None)
        spent = time.monotonic() - self._began + (before.seconds if before else 0.0)
        self.tests = [one for one in self.tests if one is not before]
        self.tests.append(SetTest(names, settled, tuple(seen), spent))
        why = f": {settled.reason}" if settled.reason else ""
        bad = sum(one > 0 for one in seen)
        failed = f", of which {bad} failed" if bad and isinstance(self.instrument.weigher(), FailureRate) else ""
        self.say(f"  {settled.word.value} after {text.counted(settled.runs, 'run')}{failed}{why}")
        self.workshop.sweep_caches()

    def _telling(self, names: frozenset[str]) -> str:
        left = tests_of(len(self.splitting.suspects))
        took = [one.seconds for one in self.tests]
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
        moved = [change for change in whole if change.kind is not ChangeKind.COMMITS]
        builds = [partial(self.workshop.candidate, cells.HEAD, moved, commit) for commit in line]
        if LOCAL in line:
            builds[line.index(LOCAL)] = partial(self.workshop.candidate, cells.HEAD, whole)
        duels = self.instrument if isinstance(self.instrument, Duels) else None
        timed = duels is not None and duels.symptom is not None and duels.symptom.timed
        tested = self.of(blame.units)
        known = tested.seen if tested else self.confirmed
        ran = (
            Levels([{GOOD: 0.0, len(line) - 1: ratio} for ratio in known])
            if timed
            else Signs(self.instrument.weigher())
        )
        lineage = Lineage([1.0] * len(line), ran, evidence.rules().search.sure)
        launches = 0
        while (asked := lineage.ask(evidence.rules().search.beside if timed else 1)) and launches < _ENDLESS:
            self._say_line(lineage, line, asked, launches)
            key = f"commits {_digest(blame.units)} {launches}"
            seen: Mapping[int, float | NoAnswer]
            if duels is not None and isinstance(ran, Levels):
                seen = duels.line_up(key, {at: builds[at] for at in asked}, launches)
                levels = {at: level for at, level in seen.items() if not isinstance(level, NoAnswer)}
                ran.launches += [levels] if len(levels) > 1 else []
            elif isinstance(ran, Signs):
                seen = {asked[0]: (sign := self.instrument.duel(key, builds[asked[0]], launches))}
                if not isinstance(sign, NoAnswer):
                    ran.seen.setdefault(asked[0], []).append(sign)
            lineage.unresolved.update({at: each.reason for at, each in seen.items() if isinstance(each, NoAnswer)})
            launches += 1
        block, sure = lineage.likeliest()
        unresolved = {line[at]: why for at, why in lineage.unresolved.items()}
        return FirstBad(tuple(line[at] for at in block), sure, launches, len(line), unresolved)

    def _say_line(self, lineage: Lineage, line: Sequence[str], asked: Sequence[int], launches: int) -> None:
        likely, sure = lineage.likeliest()
        tried, first = ", ".join(short(line[at]) for at in asked), short(line[likely[0]])
        self.say(f"inside it, launch {launches + 1}: {tried}; likeliest of {len(line)} is {first} ({sure:.0%})")


def _digest(names: Collection[str]) -> str:
    return hashlib.sha256("\n".join(sorted(names)).encode()).hexdigest()[:10]


_DRIFT = 0.05
"""From this change of the good side's own time on, it is worth a word."""


@dataclass
class Searching:
    """One bisection: its ends, its changes, and where it keeps what it finds."""

    request: BisectRequest
    stack: stacks.Stack
    good: NamedEndpoint
    bad: NamedEndpoint
    changes: Sequence[OneChange]
    line: Sequence[str]
    """The commits between both ends."""
    folder: Path
    journal: Journal
    progress: GateProgress
    workshop: Workshop
    outcome: BisectOutcome
    bisection: Bisection | None = None

    def run(self) -> None:
        """Confirm, search and prove, into `outcome`."""
        sides = (self._side(self.good, cells.BASE, ()), self._side(self.bad, cells.HEAD, self.changes))
        instrument, confirmed = self._confirmed(sides)
        pinned = not self.request.unpinned
        needed = [
            requirements_of(environments.site_packages(side.python.parent.parent)) if pinned else {} for side in sides
        ]
        moving = units(self.changes, *needed)
        self.progress.say(f"confirmed: {self.outcome.symptom}")
        self.progress.say(
            f"{text.counted(len(self.changes), 'change')} in {text.counted(len(moving), 'unit')} that move together"
        )
        self.bisection = search = Bisection(self.workshop, instrument, moving, confirmed, self.progress.say)
        blames = search.blame()
        first_bad = {
            blame: search.commits(blame, self.line)
            for blame in blames
            if self.line and any(change.kind is ChangeKind.COMMITS for change in search.changes(blame.units))
        }
        if isinstance(instrument, Programs):
            instrument.recheck()
        self.outcome.culprits = [self._culprit(search, blame, first_bad.get(blame), instrument) for blame in blames]
        self._conclude(blames[-1], instrument)

    def _side(self, end: NamedEndpoint, name: str, moved: Sequence[OneChange]) -> SideSpec:
        try:
            return self.workshop.end(name, moved)
        except Refusal as refusal:
            raise type(refusal)(f"the {end.name} side ({end.words}): {refusal}") from refusal

    def _confirmed(self, sides: tuple[SideSpec, SideSpec]) -> tuple[Duels | Programs, Sequence[float]]:
        request, say, fresh = self.request, self.progress.say, self.workshop.with_caches
        if attempt := _attempt(request):
            what = request.what or "the command"
            programs = Programs(*sides, attempt, what, self.journal, self.folder, say, fresh, request.minutes)
            programs.confirm()
            failed, runs = programs.rate
            self.outcome.subject = what
            self.outcome.symptom = (
                f"{what} {programs.word.value if programs.word else ''} in {failed} of {text.counted(runs, 'run')} of the bad side, and in "
                f"0 of {programs.clean} of the good side: {programs.reason}"
            )
            return programs, [1.0] * failed + [0.0] * (runs - failed)
        comparison = gate_loop.Comparison(
            specs=sides, preset=bench_subjects.profile(request.profile).preset, kind=self.stack.device, plan=gate_plan.load(),
            minutes=request.minutes, only=request.only, unlike=request.unlike, scale=request.deadline_scale,
            host_facts=provenance.host_facts(self.stack),
        )  # fmt: skip
        duels = Duels(comparison, self.journal, self.folder, say, fresh)
        symptom = duels.confirm(request.what)
        self.outcome.subject = symptom.subject
        self.outcome.symptom = f"{symptom.name} {symptom.kind.value}: {symptom.words}"
        return duels, symptom.ratios

    def _conclude(self, last: Blame, instrument: Duels | Programs) -> None:
        found = self.outcome
        proved = all(culprit.proved or culprit.blame.without is not last.without for culprit in found.culprits)
        alone = all(culprit.blame.alone is SetWord.BAD and not culprit.open_parts for culprit in found.culprits)
        named = alone and proved and last.proved
        found.word = BisectWord.FOUND if named else BisectWord.UNPROVED
        found.reason = "every culprit is proved" if named else "not all of it could be proved"
        if isinstance(instrument, Duels) and (moved := _drift(instrument.levels)):
            found.notes.append(moved)
        if last.without is SetWord.BAD:
            found.notes.append(
                "something else fails too: search again with what to do about this one done on both sides"
            )

    def _culprit(
        self, search: Bisection, blame: Blame, first: FirstBad | None, instrument: Duels | Programs
    ) -> Culprit:
        own, good, bad = search.changes(blame.units), self.good.end, self.bad.end
        rest = [
            change
            for unit in search.units
            if not search.splitting.closed((unit.name,)) & set(blame.units)
            for change in unit.changes
        ]
        tested, weigher = search.of(blame.units), instrument.weigher()
        commits_of = self.workshop.checkouts.repository
        todo = [outcome.revert(first, commits_of.is_merge(first.names[0]))] if first else []
        others = [change for change in own if not (first and change.kind is ChangeKind.COMMITS)]
        todo += [outcome.remedy(others, rest, good, bad, self.folder)] if others else []
        moved = search.changes(search.splitting.closed(blame.units))
        halves = {"alone": blame.units, "without": blame.left}
        failed = {half: search.failed(names) for half, names in halves.items() if names}
        return Culprit(
            " + ".join(unit.label for unit in search.units if unit.name in blame.units), blame, "; ".join(todo),
            self._again(moved, instrument, first),
            (tested.seen if tested else search.confirmed) if isinstance(weigher, Slowdown) else (),
            weigher.noise if isinstance(weigher, Slowdown) else 0.0, first,
            commits_of.subjects(first.names) if first else {}, search.open_parts(blame) if len(blame.units) > 1 else 0,
            {half: counts for half, counts in failed.items() if counts[1]},
        )  # fmt: skip

    def _again(self, moved: Sequence[OneChange], instrument: Duels | Programs, first: FirstBad | None) -> str:
        good, bad = self.good.end, self.bad.end
        if isinstance(instrument, Duels):
            subject = instrument.symptom.subject if instrument.symptom else ""
            return outcome.command(
                self._gate(), moved, good, bad, "" if subject == interleave.PROCESS else subject, self.folder
            )
        name = first.names[0] if first and len(first.names) == 1 else ""
        commit = "" if name == LOCAL else name
        side = self.workshop.candidate(cells.HEAD, moved, commit)
        if isinstance(side, NoAnswer):
            return ""
        at = commit or mixed(good, bad, moved).commit
        return self.workshop.checkouts.again(at) + typed(instrument.attempt.words(side), side)

    def _gate(self) -> list[str]:
        request, name = self.request, self.stack.name
        words = [sys.executable, "-m", "stackproof", "gate", "--stack", name, "--unpinned", str(request.unpinned)]
        if not request.unpinned:
            words = ["stackproof", "gate", "--stack", name] if places.INSTALLED else ["nox", "-s", f"{name}-gate", "--"]
        if request.profile != gate_plan.load().profile(self.stack.device):
            words += ["--profile", request.profile]
        words += ["--device", request.device] if request.device else []
        return words + (["--rehearsed"] if request.rehearsed else [])


def run_bisect(request: BisectRequest) -> int:
    """Search, and return the exit code: 0 where a culprit is named and proved, 7 where nothing was reproduced."""
    stack = chosen_stack(request)
    request = replace(request, profile=request.profile or gate_plan.load().profile(stack.device))
    of = repository(bool(request.command))
    good, bad = _ends(request, stack, of)
    described = None if request.unpinned else lockfile.environment_of(environments.version_of(stack))
    changes, held = differences(good.end, bad.end, described), endpoints.immovable(good, bad, stack)
    if not changes and not held:
        raise Refusal(
            f"both ends are the same ({text.plain(good.words, lines=False)}): there is no change to search; name what differs, "
            "such as --bad-env NAME=VALUE, --bad-lock FILE or another commit"
        )
    line = of.between(good.end.commit, bad.end.commit) if good.end.commit != bad.end.commit else []
    record, folder, progress = opened(
        "bisect", stack, request.outputs, f"{bad.words} against {good.words}, {text.counted(len(changes), 'change')}"
    )
    journal = _journal(request, stack, (good.end, bad.end), of, folder)
    workshop = Workshop(
        stack, good.end, bad.end, request.profile, request.device, request.unpinned, folder / "sides", progress.say,
        Checkouts(of, folder / "checkouts" if request.command else None),
    )  # fmt: skip
    found = BisectOutcome(
        BisectWord.INTERRUPTED, "interrupted from outside", changes=[change.label for change in changes], held=held,
        journal=str(journal.path),
    )  # fmt: skip
    searching = Searching(request, stack, good, bad, changes, line, folder, journal, progress, workshop, found)
    began = time.monotonic()
    _guarded(searching)
    found.tests = searching.bisection.tests if searching.bisection else ()
    found.into(record, time.monotonic() - began)
    return _finish(record, searching)


def _ends(request: BisectRequest, stack: stacks.Stack, of: Repository) -> tuple[NamedEndpoint, NamedEndpoint]:
    """Return both ends; a clean checkout beside a commit is its own commit, so that there is a line between them."""
    good, bad = (endpoints.named(side, stack, bool(request.unpinned), of) for side in (request.good, request.bad))
    if good.end.commit and not bad.end.commit and (head := commits.clean_head(of.folder, of.paths)):
        bad = replace(bad, end=replace(bad.end, commit=head))
    return good, bad


def _guarded(searching: Searching) -> None:
    """Run, and take for an answer what is one; a refusal on the way says how to go on."""
    found, again = searching.outcome, resume.command(searching.request.typed, searching.journal.path)
    try:
        if not searching.changes:
            raise NotReproducedError("nothing that differs can be moved here")
        with searching.workshop.checkouts.swept():
            searching.run()
    except NotReproducedError as error:
        found.word, found.reason = BisectWord.NOT_REPRODUCED, str(error)
        if found.held:
            found.notes.append(f"by elimination it is what cannot be moved here: {'; '.join(found.held)}")
    except CannotSayError as error:
        found.word, found.reason = BisectWord.CANNOT_SAY, str(error)
    except GoodTurnedBadError as error:
        found.word, found.symptom = BisectWord.GOOD_TURNED_BAD, ""
        found.reason = f"{error}; nothing can be blamed on the change while the good side fails: mend that first"
    except KeyboardInterrupt:
        search = searching.bisection
        suspects = search.splitting.suspects if search else [change.name for change in searching.changes]
        found.reason = f"interrupted from outside; still suspected: {', '.join(suspects)}"
        found.go_on = again
    except (Refusal, OSError) as error:
        refusal = error if isinstance(error, Refusal) else files.disk_refusal(error)
        if refusal is None:
            raise
        known = f"; what is known is kept: go on with `{again}`" if searching.journal.known else ""
        raise type(refusal)(f"{refusal}{known}") from error
    finally:
        searching.workshop.sweep_caches()


def _attempt(request: BisectRequest) -> Attempt | None:
    if request.command:
        return OwnCommand(request.command, request.deadline)
    if "/" in request.what:
        flags = ["--device", request.device] if request.device else []
        return SuiteCheck(request.what, request.deadline, flags)
    return None


def _journal(
    request: BisectRequest, stack: stacks.Stack, ends: tuple[Endpoint, Endpoint], of: Repository, folder: Path
) -> Journal:
    about = {
        "stack": stack.name, "good side": _fingerprint(ends[0]), "bad side": _fingerprint(ends[1]),
        "what": " ".join(request.command or [request.what]), "profile": request.profile,
        **resume.state(ends, of, request.command),
    }  # fmt: skip
    path = request.journal or folder / resume.NAME
    if path == endpoints.NEWEST:
        path = stopped_runs.newest(request.outputs.results, "bisect", stack.name, resume.NAME, folder)
    return Journal(path, about)


def _fingerprint(end: Endpoint) -> str:
    variables = sorted(end.environment.items())
    whole = (end.commit, end.lock.digest, variables, sorted(map(str, end.sources.values())))
    shown = ", ".join([end.commit[:10] or "the folder as it is", *(f"{name}={value}" for name, value in variables[:4])])
    return f"{text.plain(shown, most=200, lines=False)} ({hashlib.sha256(repr(whole).encode()).hexdigest()[:16]})"


def _drift(levels: Sequence[float]) -> str:
    """Say where the good side's own time moved while it was searched; it cancels in every duel, and is worth a word."""
    third = len(levels) // 3
    if not third:
        return ""
    before, after = (sum(part) / third for part in (levels[:third], levels[-third:]))
    if abs(after - before) < _DRIFT:
        return ""
    return f"the good side itself became {100 * (after - before):+.0f} % slower during the search, which cancels"


def _finish(record: Record, searching: Searching) -> int:
    found, console = searching.outcome, searching.progress.console
    outcome.show(record, console)
    code = found.exit_code if found.word is BisectWord.NOT_REPRODUCED else record.verdict.exit_code
    journal = f"journal: {searching.journal.path}"
    try:
        path = writer.keep(record, searching.folder / "record.json", searching.request.outputs, outcome.markdown)
    except (
        Refusal
    ) as refusal:  # what was found out is said already; its exit code is the verdict's, unless that is a pass
        console.print(Text(journal, style="dim"), soft_wrap=True)
        refusal.exit_code = code or refusal.exit_code
        raise
    console.print(Text(f"record: {path}; {journal}", style="dim"), soft_wrap=True)
    return code

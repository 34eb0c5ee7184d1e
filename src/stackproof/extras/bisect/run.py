"""The verb `bisect`: from a request to two ends and a list of changes, then confirm, search, prove; whatever ends it, a record is kept."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from rich.text import Text

from stackproof.api.base import Refusal, files, git, text
from stackproof.api.comparison import cells, gate_loop
from stackproof.api.environment import environments, lockfile
from stackproof.api.gate import interleave, variants
from stackproof.api.gate import plan as gate_plan
from stackproof.api.record import Record, resume, writer
from stackproof.api.runs import bench_subjects
from stackproof.api.stack import provenance, stacks
from stackproof.extras.bisect import endpoints, outcome
from stackproof.extras.bisect.duels import CannotSayError, Duels, GoodTurnedBadError, NotReproducedError
from stackproof.extras.bisect.endpoints import BisectRequest, Endpoint, OneChange, Repository
from stackproof.extras.bisect.evidence import Blame, SetWord, Slowdown
from stackproof.extras.bisect.outcome import BisectOutcome, BisectWord, Culprit
from stackproof.extras.bisect.programs import Attempt, Programs, own_command, suite_check
from stackproof.extras.bisect.search import Bisection, FirstBad, Workshop

_CONTINUE = "--continue"


@dataclass
class Searching:
    """One bisection: its ends, its changes, and where it keeps what it finds."""

    request: BisectRequest
    changes: Sequence[OneChange]
    line: Sequence[str]
    """The commits between both ends."""
    folder: Path
    journal: resume.Journal
    progress: gate_loop.GateProgress
    workshop: Workshop
    outcome: BisectOutcome
    bisection: Bisection | None = None

    def run(self) -> None:
        """Confirm, search and prove, into `outcome`."""
        shop = self.workshop
        sides = (self._side(shop.good, cells.BASE, ()), self._side(shop.bad, cells.HEAD, self.changes))
        instrument, confirmed = self._confirmed(sides)
        pinned = not self.request.unpinned
        needed = [
            endpoints.requirements_of(environments.site_packages(side.python.parent.parent)) if pinned else {}
            for side in sides
        ]
        moving = endpoints.units(self.changes, *needed)
        self.progress.say(f"confirmed: {self.outcome.symptom}")
        self.progress.say(
            f"{text.counted(len(self.changes), 'change')} in {text.counted(len(moving), 'unit')} that move together"
        )
        self.bisection = search = Bisection(self.workshop, instrument, moving, confirmed, self.progress.say)
        blames = search.blame()
        first_bad = {
            blame: search.commits(blame, self.line)
            for blame in blames
            if self.line and any(change.kind is endpoints.ChangeKind.COMMITS for change in search.changes(blame.units))
        }
        if isinstance(instrument, Programs) and not self.request.always:
            instrument.recheck()
        self.outcome.culprits = [self._culprit(search, blame, first_bad.get(blame), instrument) for blame in blames]
        self._conclude(blames[-1])

    def _side(self, end: Endpoint, name: str, moved: Sequence[OneChange]) -> interleave.SideSpec:
        try:
            return self.workshop.end(name, moved)
        except Refusal as refusal:
            raise type(refusal)(f"the {end.name} side ({end.words}): {refusal}") from refusal

    def _confirmed(
        self, sides: tuple[interleave.SideSpec, interleave.SideSpec]
    ) -> tuple[Duels | Programs, Sequence[float]]:
        request, say, fresh = self.request, self.progress.say, self.workshop.with_caches
        if attempt := _attempt(request):
            what = request.what or "the command"
            programs = Programs(
                *sides, attempt, what, self.journal, self.folder, say, fresh, request.minutes, request.always
            )
            programs.confirm()
            failed, runs = programs.rate
            self.outcome.subject = what
            self.outcome.symptom = (
                f"{what} {programs.word.value if programs.word else ''} in {failed} of {text.counted(runs, 'run')} of the bad side, and in "
                f"0 of {programs.clean} of the good side: {programs.reason}"
            )
            return programs, [1.0] * failed + [0.0] * (runs - failed)
        preset = bench_subjects.profile(request.profile).preset
        facts = provenance.host_facts(self.workshop.stack)
        comparison = gate_loop.Comparison(request, sides, preset, self.workshop.stack.device, gate_plan.load(), facts)
        duels = Duels(comparison, self.journal, self.folder, say, fresh)
        symptom = duels.confirm(request.what)
        self.outcome.subject = symptom.subject
        self.outcome.symptom = f"{symptom.name} {symptom.kind.value}: {symptom.words}"
        return duels, symptom.ratios

    def _conclude(self, last: Blame) -> None:
        result = self.outcome
        proved = all(culprit.proved or culprit.blame.without is not last.without for culprit in result.culprits)
        alone = all(culprit.blame.alone is SetWord.BAD and not culprit.open_parts for culprit in result.culprits)
        named = alone and proved and last.proved
        result.word = BisectWord.FOUND if named else BisectWord.UNPROVED
        result.reason = "every culprit is proved" if named else "not all of it could be proved"
        if last.without is SetWord.BAD:
            result.notes.append(
                "something else fails too: search again with what to do about this one done on both sides"
            )

    def _culprit(
        self, search: Bisection, blame: Blame, first: FirstBad | None, instrument: Duels | Programs
    ) -> Culprit:
        own, good, bad = search.changes(blame.units), self.workshop.good, self.workshop.bad
        rest = [
            change
            for unit in search.units
            if not search.splitting.closed((unit.name,)) & set(blame.units)
            for change in unit.changes
        ]
        tested, weigher = search.of(blame.units), instrument.weigher()
        commits_of = self.workshop.repository
        todo = [outcome.revert(first)] if first else []
        others = [change for change in own if not (first and change.kind is endpoints.ChangeKind.COMMITS)]
        todo += [outcome.remedy(others, rest, good, bad, self.folder)] if others else []
        halves = {"alone": blame.units, "without": blame.left}
        failed = {half: search.failed(names) for half, names in halves.items() if names}
        return Culprit(
            " + ".join(unit.label for unit in search.units if unit.name in blame.units), blame, "; ".join(todo),
            (tested.seen if tested else search.confirmed) if isinstance(weigher, Slowdown) else (),
            weigher.noise if isinstance(weigher, Slowdown) else 0.0, first,
            commits_of.subjects(first.names) if first else {}, search.open_parts(blame) if len(blame.units) > 1 else 0,
            {half: counts for half, counts in failed.items() if counts[1]},
        )  # fmt: skip


def run_bisect(request: BisectRequest) -> int:
    """Search, and return the exit code: 0 where a culprit is named and proved, 7 where nothing was reproduced."""
    stack = gate_loop.chosen_stack(request)
    request = replace(request, profile=request.profile or gate_plan.load().profile(stack.device))
    of = endpoints.repository(bool(request.command))
    good, bad = _ends(request, stack, of)
    described = None if request.unpinned else lockfile.environment_of(environments.version_of(stack))
    changes, immovable = endpoints.differences(good, bad, described), endpoints.immovable(good, bad, stack)
    if not changes and not immovable:
        raise Refusal(
            f"both ends are the same ({text.plain(good.words, lines=False)}): there is no change to search; name what differs, "
            "such as --bad-env NAME=VALUE, --bad-lock FILE or another commit"
        )
    line = of.between(good.commit, bad.commit) if good.commit != bad.commit else []
    record, folder, progress = gate_loop.opened(
        "bisect", stack, request.outputs, f"{bad.words} against {good.words}, {text.counted(len(changes), 'change')}"
    )
    journal = _journal(request, stack, (good, bad), of, folder)
    result = BisectOutcome(
        BisectWord.INTERRUPTED, "interrupted from outside", changes=[change.label for change in changes], immovable=immovable,
        journal=str(journal.path),
    )  # fmt: skip
    began = time.monotonic()
    with variants.checkouts(folder / "checkouts") as lay:
        commits = good.commit or bad.commit
        stands = request.command and commits and Path.cwd().resolve().is_relative_to(of.top.resolve())
        workshop = Workshop(stack, good, bad, request, folder / "sides", progress.say, of, lay if stands else None)
        searching = Searching(request, changes, line, folder, journal, progress, workshop, result)
        _guarded(searching)
    result.tests = searching.bisection.tests if searching.bisection else ()
    result.into(record, time.monotonic() - began)
    return _finish(record, searching)


def _ends(request: BisectRequest, stack: stacks.Stack, of: Repository) -> tuple[Endpoint, Endpoint]:
    """Return both ends; a clean checkout beside a commit is its own commit, so that there is a line between them."""
    good, bad = (endpoints.named(side, stack, bool(request.unpinned), of) for side in (request.good, request.bad))
    if good.commit and not bad.commit and (head := variants.clean_head(of.folder, of.paths)):
        bad = replace(bad, commit=head)
    return good, bad


def _guarded(searching: Searching) -> None:
    """Run, and take for an answer what is one; a refusal on the way says how to go on."""
    result, again = searching.outcome, f"the same command with {_CONTINUE}"
    try:
        if not searching.changes:
            raise NotReproducedError("nothing that differs can be moved here")
        searching.run()
    except NotReproducedError as error:
        result.word, result.reason = BisectWord.NOT_REPRODUCED, str(error)
        if result.immovable:
            result.notes.append(f"by elimination it is what cannot be moved here: {'; '.join(result.immovable)}")
    except CannotSayError as error:
        result.word, result.reason = BisectWord.CANNOT_SAY, str(error)
    except GoodTurnedBadError as error:
        result.word, result.symptom = BisectWord.GOOD_TURNED_BAD, ""
        result.reason = f"{error}; nothing can be blamed on the change while the good side fails: mend that first"
    except KeyboardInterrupt:
        search = searching.bisection
        suspects = search.splitting.suspects if search else [change.name for change in searching.changes]
        result.reason = f"interrupted from outside; still suspected: {', '.join(suspects)}; to go on: {again}"
    except (Refusal, OSError) as error:
        refusal = error if isinstance(error, Refusal) else files.disk_refusal(error)
        if refusal is None:
            raise
        known = f"; what is known is kept: go on with {again}" if searching.journal.known else ""
        raise type(refusal)(f"{refusal}{known}") from error
    finally:
        searching.workshop.sweep_caches()


def _attempt(request: BisectRequest) -> Attempt | None:
    if request.command:
        return partial(own_command, request.command, request.deadline)
    if "/" in request.what:
        return partial(
            suite_check, request.what, request.deadline, ["--device", request.device] if request.device else []
        )
    return None


def _journal(
    request: BisectRequest, stack: stacks.Stack, ends: tuple[Endpoint, Endpoint], of: Repository, folder: Path
) -> resume.Journal:
    about = {
        "stack": stack.name, "good side": _fingerprint(ends[0]), "bad side": _fingerprint(ends[1]),
        "what": " ".join(request.command or [request.what]), "profile": request.profile,
        **state(ends, of, request.command),
    }  # fmt: skip
    path = request.journal or folder / resume.JOURNAL
    if path == endpoints.NEWEST:
        path = resume.newest(request.outputs.results, "bisect", stack.name, resume.JOURNAL, folder)
    return resume.Journal(path, "bisect", about)


def state(ends: Sequence[Endpoint], of: Repository, words: Sequence[str]) -> dict[str, str]:
    """Return what the sides are made of too: the command's own files and, of a side without a commit, the folder as it is."""
    named = [path.read_bytes() for path in map(Path, words) if not files.why_unreadable(path) and path.is_file()]
    facts = {"files of the command": _digest(named)}
    head = git.try_output(of.folder, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    if all(end.commit for end in ends) or head is None:
        return facts
    changes = git.try_output(of.folder, "diff", "HEAD", "--", *of.paths) or ""
    return facts | {"HEAD": head.strip()[:12], "changes since HEAD": _digest([changes.encode()])}


def _digest(contents: Iterable[bytes]) -> str:
    return hashlib.sha256(b"".join(contents)).hexdigest()[:12]


def _fingerprint(end: Endpoint) -> str:
    variables = sorted(end.environment.items())
    whole = (end.commit, end.lock.digest, variables, sorted(map(str, end.sources.values())))
    shown = ", ".join([end.commit[:10] or "the folder as it is", *(f"{name}={value}" for name, value in variables[:4])])
    return f"{text.plain(shown, most=200, lines=False)} ({hashlib.sha256(repr(whole).encode()).hexdigest()[:16]})"


def _finish(record: Record, searching: Searching) -> int:
    result, console = searching.outcome, searching.progress.console
    outcome.show(record, console)
    path = writer.keep(record, searching.folder / "record.json", searching.request.outputs, outcome.markdown)
    console.print(Text(f"record: {path}; journal: {searching.journal.path}", style="dim"), soft_wrap=True)
    return result.exit_code

"""The verb `bisect`: from flags to two ends and a list of changes, then confirm, search, prove; whatever ends it, a record is kept."""

from __future__ import annotations

import hashlib
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich.text import Text

from stackproof.api.base import Refusal, counted, files, places, plain
from stackproof.api.comparison import BASE, HEAD, Comparison, GateProgress, chosen_stack, opened
from stackproof.api.environment import environments, lockfile
from stackproof.api.gate import PROCESS, SideSpec, commits
from stackproof.api.gate import plan as gate_plan
from stackproof.api.record import Record, writer
from stackproof.api.runs import profile as profile_named
from stackproof.api.stack import Stack, provenance
from stackproof.extras.bisect import between, ends, going_on, needs, remedies, report
from stackproof.extras.bisect.atoms import Atom, AtomKind, End, differences, mixed
from stackproof.extras.bisect.attempts import Attempt, OwnCommand, SuiteCheck, typed
from stackproof.extras.bisect.checkouts import Checkouts, Repository, repository
from stackproof.extras.bisect.duels import Duels, NotReproducedError
from stackproof.extras.bisect.evidence import NoAnswer, SetWord, Slowdown
from stackproof.extras.bisect.journal import NAME, Journal
from stackproof.extras.bisect.outcome import BisectOutcome, BisectWord, Culprit
from stackproof.extras.bisect.programs import Programs
from stackproof.extras.bisect.search import Bisection, FirstBad
from stackproof.extras.bisect.splits import Blame
from stackproof.extras.bisect.symptoms import CannotSayError, GoodTurnedBadError
from stackproof.extras.bisect.workshop import Workshop


@dataclass
class Searching:
    """One bisection: its ends, its changes, and where it keeps what it finds."""

    request: ends.BisectRequest
    stack: Stack
    good: ends.NamedEnd
    bad: ends.NamedEnd
    atoms: Sequence[Atom]
    line: Sequence[str]
    folder: Path
    journal: Journal
    progress: GateProgress
    workshop: Workshop
    outcome: BisectOutcome
    bisection: Bisection | None = None

    def run(self) -> None:
        """Confirm, search, prove; the outcome is told in `outcome`."""
        sides = (self._end(self.good, BASE, ()), self._end(self.bad, HEAD, self.atoms))
        instrument, confirmed = self._confirmed(sides)
        units = (
            needs.units(self.atoms, *map(_asked, sides))
            if not self.request.unpinned
            else needs.units(self.atoms, {}, {})
        )
        self.progress.say(f"confirmed: {self.outcome.symptom}")
        self.progress.say(f"{counted(len(self.atoms), 'change')} in {counted(len(units), 'unit')} that move together")
        self.bisection = Bisection(self.workshop, instrument, units, confirmed, self.progress.say)
        blames = self.bisection.blame()
        guilty = {blame: self._descended(blame) for blame in blames}
        if isinstance(instrument, Programs):
            instrument.recheck()
        self._conclude(blames, guilty, instrument)

    def _end(self, end: ends.NamedEnd, name: str, moved: Sequence[Atom]) -> SideSpec:
        try:
            return self.workshop.end(name, moved)
        except Refusal as refusal:
            raise type(refusal)(f"the {end.name} side ({end.words}): {refusal}") from refusal

    def _confirmed(self, sides: tuple[SideSpec, SideSpec]) -> tuple[Duels | Programs, Sequence[float]]:
        if attempt := _attempt(self.request):
            found = Programs(
                *sides, attempt, self.request.what or "the command", self.journal, self.folder, self.progress.say,
                self.workshop.with_caches, self.request.minutes,
            )  # fmt: skip
            found.confirm()
            failed, runs = found.rate
            self.outcome.subject = found.what
            self.outcome.symptom = (
                f"{found.what} {found.word} in {failed} of {counted(runs, 'run')} of the bad side, and in 0 of {found.clean} of the "
                f"good side: {found.reason}"
            )
            return found, [1.0] * failed + [0.0] * (runs - failed)
        duels = Duels(self._comparison(sides), self.journal, self.folder, self.progress.say, self.workshop.with_caches)
        symptom = duels.confirm(self.request.what)
        self.outcome.subject = symptom.subject
        self.outcome.symptom = f"{symptom.name} {symptom.kind.value}: {symptom.words}"
        return duels, symptom.ratios

    def _comparison(self, sides: tuple[SideSpec, SideSpec]) -> Comparison:
        request = self.request
        return Comparison(
            specs=sides, preset=profile_named(request.profile).preset, kind=self.stack.device, plan=gate_plan.load(),
            minutes=request.minutes, only=request.only, unlike=request.unlike, scale=request.deadline_scale,
            host_facts=provenance.host_facts(self.stack),
        )  # fmt: skip

    def _descended(self, blame: Blame) -> FirstBad | None:
        assert self.bisection is not None
        own = self.bisection.atoms(blame.units)
        if self.line and any(atom.kind is AtomKind.COMMITS for atom in own):
            return self.bisection.commits(blame, self.line)
        return None

    def _conclude(
        self, blames: Sequence[Blame], guilty: Mapping[Blame, FirstBad | None], instrument: Duels | Programs
    ) -> None:
        outcome = self.outcome
        outcome.culprits = [self._culprit(blame, guilty[blame], instrument) for blame in blames]
        last = blames[-1]
        proved = all(one.proved or one.blame.without is not last.without for one in outcome.culprits)
        named = all(one.blame.alone is SetWord.BAD and not one.open_parts for one in outcome.culprits) and last.proved
        outcome.word = BisectWord.FOUND if named and proved else BisectWord.UNPROVED
        outcome.reason = (
            "every culprit is proved" if outcome.word is BisectWord.FOUND else "not all of it could be proved"
        )
        if isinstance(instrument, Duels) and (moved := _moved(instrument.levels)):
            outcome.notes.append(moved)

    def _culprit(self, blame: Blame, guilty: FirstBad | None, instrument: Duels | Programs) -> Culprit:
        assert self.bisection is not None
        found = self.bisection
        units = [unit for unit in found.units if unit.name in blame.units]
        own, good, bad = found.atoms(blame.units), self.good.end, self.bad.end
        rest = [
            atom
            for unit in found.units
            if not found.splitting.closed((unit.name,)) & set(blame.units)
            for atom in unit.atoms
        ]
        tested, weigher = found.of(blame.units), instrument.weigher()
        timed = isinstance(weigher, Slowdown)
        subject = instrument.symptom.subject if isinstance(instrument, Duels) and instrument.symptom else ""
        of = self.workshop.checkouts.repository
        taken_back = [remedies.revert(guilty, between.is_merge(guilty.names[0], of))] if guilty else []
        others = [atom for atom in own if not (guilty and atom.kind is AtomKind.COMMITS)]
        taken_back += [remedies.remedy(others, rest, good, bad, self.folder)] if others else []
        moved = found.atoms(found.splitting.closed(blame.units))
        return Culprit(
            " + ".join(unit.label for unit in units), blame, "; ".join(taken_back),
            self._again(moved, subject, instrument, guilty),
            (tested.seen if tested else found.confirmed) if timed else (), weigher.noise if isinstance(weigher, Slowdown) else 0.0,
            guilty, between.subjects(guilty.names, of) if guilty else {},
            found.open_parts(blame) if len(blame.units) > 1 else 0,
            {half: counts for half, names in (("alone", blame.units), ("without", blame.left)) if (counts := found.failed(names))[1]},
        )  # fmt: skip

    def _again(self, moved: Sequence[Atom], subject: str, instrument: Duels | Programs, guilty: FirstBad | None) -> str:
        """Return what shows the culprit again when it is pasted to a shell: a gate, or the program itself."""
        if isinstance(instrument, Duels):
            only = "" if subject == PROCESS else subject
            return remedies.command(self._gate(), moved, self.good.end, self.bad.end, only, self.folder)
        one = guilty.names[0] if guilty and len(guilty.names) == 1 else ""
        commit = "" if one == between.LOCAL else one
        side = self.workshop.candidate(HEAD, moved, commit)
        if isinstance(side, NoAnswer):
            return ""
        at = commit or mixed(self.good.end, self.bad.end, moved).commit
        return self.workshop.checkouts.again(at) + typed(instrument.attempt.words(side), side)

    def _gate(self) -> list[str]:
        """Return the words with which a gate of the same sides begins."""
        request, name = self.request, self.stack.name
        words = [sys.executable, "-m", "stackproof", "gate", "--stack", name, "--unpinned", str(request.unpinned)]
        if not request.unpinned:
            words = ["stackproof", "gate", "--stack", name] if places.INSTALLED else ["nox", "-s", f"{name}-gate", "--"]
        flags = {"--profile": request.profile, "--device": request.device}
        usual = {"--profile": gate_plan.load().profile(self.stack.device), "--device": ""}
        given = [word for flag, value in flags.items() if value != usual[flag] for word in (flag, value)]
        return words + given + (["--rehearsed"] if request.rehearsed else [])


def run_bisect(request: ends.BisectRequest) -> int:
    """Search, and return the exit code: 0 where a culprit is named and proved, 7 where nothing was reproduced."""
    stack = chosen_stack(request)
    request = replace(request, profile=request.profile or gate_plan.load().profile(stack.device))
    good, bad = _ends(request, stack)
    described = None if request.unpinned else lockfile.environment_of(environments.version_of(stack))
    atoms, held = differences(good.end, bad.end, described), ends.held(good, bad, stack)
    if not atoms and not held:
        raise Refusal(
            f"both ends are the same ({plain(good.words, lines=False)}): there is no change to search; name what differs, "
            "such as --bad-env NAME=VALUE, --bad-lock FILE or another commit"
        )
    of = repository(bool(request.command))
    line = _line(good.end, bad.end, of)
    record, folder, progress = opened(
        "bisect", stack, request.outputs, f"{bad.words} against {good.words}, {counted(len(atoms), 'change')}"
    )
    journal = _journal(request, stack, (good, bad), of, folder)
    workshop = Workshop(
        stack, good.end, bad.end, request.profile, request.device, request.unpinned, folder / "sides", progress.say,
        Checkouts(of, folder / "checkouts" if request.command else None),
    )  # fmt: skip
    outcome = BisectOutcome(
        BisectWord.INTERRUPTED, "interrupted from outside", changes=[atom.label for atom in atoms], held=held,
        journal=str(journal.path),
    )  # fmt: skip
    searching = Searching(request, stack, good, bad, atoms, line, folder, journal, progress, workshop, outcome)
    began = time.monotonic()
    _guarded(searching)
    outcome.tests = searching.bisection.tests if searching.bisection else ()
    outcome.into(record, time.monotonic() - began)
    return _finish(record, searching)


def _ends(request: ends.BisectRequest, stack: Stack) -> tuple[ends.NamedEnd, ends.NamedEnd]:
    """Return both ends; a clean checkout beside a commit is its own commit, so that there is a line between them."""
    of = repository(bool(request.command))
    good, bad = (ends.named(side, stack, bool(request.unpinned), of) for side in (request.good, request.bad))
    if good.end.commit and not bad.end.commit and (head := commits.clean_head(of.folder, of.paths)):
        bad = replace(bad, end=replace(bad.end, commit=head))
    return good, bad


def _line(good: End, bad: End, of: Repository) -> list[str]:
    return between.between(good.commit, bad.commit, of) if good.commit != bad.commit else []


def _guarded(searching: Searching) -> None:
    """Run, and take for an answer what is one; a refusal on the way says how to go on."""
    outcome = searching.outcome
    try:
        if not searching.atoms:
            raise NotReproducedError("nothing that differs can be moved here")
        with searching.workshop.checkouts.swept():
            searching.run()
    except NotReproducedError as told:
        outcome.word, outcome.reason = BisectWord.NOT_REPRODUCED, str(told)
        if outcome.held:
            outcome.notes.append(f"by elimination it is what cannot be moved here: {'; '.join(outcome.held)}")
    except CannotSayError as told:
        outcome.word, outcome.reason = BisectWord.CANNOT_SAY, str(told)
    except GoodTurnedBadError as told:
        outcome.word, outcome.symptom = BisectWord.GOOD_TURNED_BAD, ""
        outcome.reason = f"{told}; nothing can be blamed on the change while the good side fails: mend that first"
    except KeyboardInterrupt:
        suspects = (
            searching.bisection.splitting.suspects if searching.bisection else [atom.name for atom in searching.atoms]
        )
        outcome.suspects = list(suspects)
        outcome.reason = f"interrupted from outside; still suspected: {', '.join(suspects)}"
        outcome.go_on = going_on.command(searching.request.typed, searching.journal.path)
    except Refusal as refusal:
        raise _kept(refusal, searching) from refusal
    except OSError as error:
        if (refused := files.said_no(error)) is None:
            raise
        raise _kept(refused, searching) from error
    finally:
        searching.workshop.sweep_caches()


def _kept(refusal: Refusal, searching: Searching) -> Refusal:
    """Return a refusal on the way with how to go on."""
    if not searching.journal.known:
        return refusal
    again = going_on.command(searching.request.typed, searching.journal.path)
    return type(refusal)(f"{refusal}; what is known is kept: go on with `{again}`")


def _attempt(request: ends.BisectRequest) -> Attempt | None:
    """Return what runs a side as a program: a command, or a check of a suite."""
    if request.command:
        return OwnCommand(request.command, request.deadline)
    if request.what and "/" in request.what:
        flags = ["--device", request.device] if request.device else []
        return SuiteCheck(request.what, request.deadline, flags)
    return None


def _journal(
    request: ends.BisectRequest, stack: Stack, sides: tuple[ends.NamedEnd, ends.NamedEnd], of: Repository, folder: Path
) -> Journal:
    good, bad = (one.end for one in sides)
    about = {
        "stack": stack.name, "good side": _fingerprint(good), "bad side": _fingerprint(bad),
        "what": " ".join(request.command or [request.what]), "profile": request.profile,
        **going_on.state((good, bad), of, request.command),
    }  # fmt: skip
    path = request.journal or folder / NAME
    return Journal(_newest(request.outputs.results, stack, folder) if path == ends.NEWEST else path, about)


def _newest(results: Path, stack: Stack, own: Path) -> Path:
    found = sorted(one for one in (results / stack.name).glob(f"*-bisect-*/{NAME}") if one.parent != own)
    if not found:
        raise Refusal(f"there is no earlier bisect of {stack.name} under {results}; run without --continue")
    return found[-1]


def _fingerprint(end: End) -> str:
    variables = sorted(end.environment.items())
    told = (end.commit, end.lock.digest, variables, sorted(map(str, end.sources.values())))
    shown = ", ".join([end.commit[:10] or "the folder as it is", *(f"{name}={value}" for name, value in variables[:4])])
    return f"{plain(shown, most=200, lines=False)} ({hashlib.sha256(repr(told).encode()).hexdigest()[:16]})"


def _asked(side: SideSpec) -> needs.Asked:
    return needs.asked_by(environments.site_packages(side.python.parent.parent))


def _moved(levels: Sequence[float]) -> str:
    """Say where the good side's own time moved while it was searched; it cancels in every duel, and is worth a word."""
    third = len(levels) // 3
    if not third:
        return ""
    before, after = (sum(part) / third for part in (levels[:third], levels[-third:]))
    if abs(after - before) < _DRIFT:
        return ""
    return f"the good side itself became {100 * (after - before):+.0f} % slower during the search, which cancels"


_DRIFT = 0.05


def _finish(record: Record, searching: Searching) -> int:
    outcome = searching.outcome
    report.show(record, searching.progress.console)
    code = outcome.exit_code if outcome.word is BisectWord.NOT_REPRODUCED else record.verdict.exit_code
    try:
        path = writer.keep(record, searching.folder / "record.json", searching.request.outputs, report.markdown)
    except Refusal as refusal:  # what was found out is said already
        searching.progress.console.print(Text(f"journal: {searching.journal.path}", style="dim"), soft_wrap=True)
        raise _unkept(refusal, code) from refusal
    searching.progress.console.print(
        Text(f"record: {path}; journal: {searching.journal.path}", style="dim"), soft_wrap=True
    )
    return code


def _unkept(refusal: Refusal, code: int) -> Refusal:
    """Return the refusal of a file, with the exit code of the verdict unless that is a pass."""
    refusal.exit_code = code or refusal.exit_code
    return refusal

"""Runs suites in processes of their own, supervised: progress, deadlines, crashes and hangs become checks of a record.

The supervisor imports no torch. When a process that runs checks dies or hangs, the check it was in gets that
verdict, everything it left behind is killed, and the rest of its suites goes on in a fresh process.
"""

from __future__ import annotations

import contextlib
import math
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from stackproof.base import files, processes
from stackproof.base.errors import Refusal, suggestion
from stackproof.base.places import SUITES
from stackproof.base.text import as_typed, first_line, matches
from stackproof.project import projects
from stackproof.project.projects import Project
from stackproof.record import records, writer
from stackproof.record.outcomes import finished_rows
from stackproof.record.records import LOADING, Check, Measurement, Record, Verdict
from stackproof.runner.request import REQUEST, Request
from stackproof.runner.suites import DEFAULT_PROFILE, Stage, counted, plugins_of, stages
from stackproof.stack import environments, findings, known_issues, manifest, stacks, startup
from stackproof.stack.manifest import Manifest
from stackproof.stack.stacks import Stack
from stackproof.triage import explain

_CHECKPOINT_S = 10.0


class Observer(Protocol):
    """Who watches a run: the terminal, or nobody."""

    def collected(self, total: int) -> None:
        """The run has this many checks, as far as is known."""

    def started(self, identifier: str) -> None:
        """A check began."""

    def progress(self, identifier: str, sentence: str) -> None:
        """A check that takes long has come so far."""

    def finished(self, check: Check) -> None:
        """A check ended."""


@dataclass
class RunState:
    """Collects checks into a record, each once, and lets a run that is killed leave what it had.

    `excuse` may turn a failure into a known issue; `save` keeps the record as it stands; `ended`: verdict and reason by check.
    """

    record: Record
    observer: Observer
    excuse: Callable[[Check], Check] = lambda check: check
    save: Callable[[Record], None] = lambda _: None
    collected: dict[str, None] = field(default_factory=dict)
    known: dict[str, None] = field(default_factory=dict)
    """Every check of the suites that were looked at, chosen or not."""
    theirs: set[str] = field(default_factory=set)
    """Those of them that are a project's, which no manifest of ours counts."""
    refused: str = ""
    """Why what was asked of the run makes no sense, as only a process that runs checks can know."""
    _saved_at: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.ended = {check.id: (check.verdict.value, check.reason) for check in self.record.checks}
        self._earlier = frozenset(self.ended)

    def announce(self, identifiers: list[str], known: Iterable[str] = (), theirs: Iterable[str] = ()) -> None:
        """Note what a process collected; a fresh process after a crash collects the same again."""
        self.known.update(dict.fromkeys(known))
        self.theirs.update(theirs)
        before = len(self.collected)
        self.collected.update(dict.fromkeys(identifiers))
        if len(self.collected) > before:
            self.observer.collected(len(self.collected.keys() - self._earlier))

    def conclude(self, check: Check) -> None:
        """Note how a check ended; the first word counts, and none after a refusal."""
        if check.id in self.ended or self.refused:
            return
        judged = self.excuse(records.of_suite(check))
        if judged.verdict is Verdict.FAILED:
            judged = replace(judged, reason=findings.with_settings(judged.reason, os.environ))
        self.record.checks.append(judged)
        self.ended[judged.id] = judged.verdict.value, judged.reason
        self.observer.finished(judged)

    def refuse(self, sentence: str) -> None:
        """End the run with a sentence if no check has ended yet; else the file that refuses is a failed check beside them."""
        if self.ended.keys() == self._earlier:
            self.refused = sentence

    def checkpoint(self) -> None:
        """Keep the record every few seconds as if it had been interrupted now."""
        if time.monotonic() - self._saved_at < min(_CHECKPOINT_S, 1 + len(self.record.checks) / 100):
            return
        verdict, self.record.verdict = self.record.verdict, Verdict.INTERRUPTED
        self.save(self.record)
        self.record.verdict, self._saved_at = verdict, time.monotonic()


_QUIET_S = 180.0  # for what is between checks: imports, collection, a module's fixtures
_GRACE_S = 2.0


@dataclass
class CheckProcess:
    """A process, followed until it ends; `left` says that it ended inside a check, so that others may be left to run."""

    request: Request
    root: Path
    """Where the folders of suites and their configuration lie."""
    state: RunState
    mark: str
    room_gib: float = math.inf
    """From so much memory of the device on what is held may begin beside others."""
    left: bool = False
    current: str = ""
    ended: bool = False
    waiting: bool = False
    """Whether it has stopped itself until it may begin what is held."""
    _broken: str = ""
    _reading: str = ""
    """The file of checks that it began to import last."""
    _loaded: bool = False
    _looked: float = math.inf
    """When it was looked at last."""
    _own: str = field(default_factory=processes.new_mark)

    def start(self) -> None:
        """Start the process; its output goes to a file of its own."""
        environment = {
            **handed_over(replace(self.request, earlier=self.state.ended)), processes.STARTED: str(time.time()),
        }  # fmt: skip
        folder = Path(self.request.folder)
        self._log = folder / f"suite-{len(list(folder.glob('suite-*.log')))}.log"
        self._events = Tail(folder / "events.jsonl")
        self._before, self._began = len(self.state.record.checks), time.monotonic()
        self._looked = self._began
        self._extend(_QUIET_S)
        with self._log.open("wb") as output:
            self._child = processes.start(
                command(self.request, self.root), output, environment, f"{self.mark}/{self._own}"
            )

    def alive(self, free: bool = False) -> bool:
        """Absorb what the process said; when it has ended, or must be, conclude and return False; one that is free need not wait."""
        now = time.monotonic()
        if now - self._looked > processes.ABSENT_S:  # a scheduler or Ctrl-Z had stopped us, and this process with us
            self._deadline += now - self._looked
        self._looked = now
        self.absorb()
        self._broken = self._broken or self.state.refused
        if self.waiting:
            self._extend(_QUIET_S)
            if free:  # at each look, until it begins: it may say that it waits before it stops
                replace(self.request, earlier=self.state.ended).write()
                self._child.send_signal(signal.SIGCONT)
        running = self._child.poll() is None
        if running and not self._broken and now <= self._deadline + _GRACE_S:
            return True
        if running and not self._broken and not self.current:
            with contextlib.suppress(OSError, subprocess.TimeoutExpired):  # no check has armed a dump of its stacks
                self._child.send_signal(signal.SIGABRT)
                self._child.wait(_GRACE_S)
        processes.end_tree(self._own, self._child)
        self.absorb()
        self._events.close()
        self._conclude(hung=running)
        self.left = bool(self.current or self._broken) and len(self.state.record.checks) > self._before
        return False

    def absorb(self) -> None:
        """Take over the events that were written since the last look; what is none is kept as what is wrong."""
        try:
            for event in self._events:
                self._take(event)
        except (Refusal, LookupError, TypeError, ValueError, AttributeError) as error:
            self._broken = f"a line of its events is none ({type(error).__name__}: {first_line(error, 200)})"
        except OSError as error:
            self._broken = f"what it writes cannot be read any more: {error}"

    def _take(self, event: dict[str, Any]) -> None:
        kind, state = event.pop("event"), self.state
        if kind == "collected":
            state.announce(event["ids"], event["known"], event.get("theirs", ()))
        elif kind == "collecting":
            self._reading = event["file"]
        elif kind == "started":
            self.current, self.waiting = event["id"], False
            self._count_loading()
            state.observer.started(self.current)
        elif kind == "progress":
            state.observer.progress(self.current, event["message"])
        elif kind == "finished":
            state.conclude(Check.of(event["check"]))
            self.current = ""
            self._extend(_QUIET_S)
        elif kind == "measurement":
            state.record.measurements.append(Measurement(**event))
        elif kind == "facts":
            state.record.provenance.update(event["values"])
        elif kind == "waiting":
            self.waiting = True
            self._count_loading()
        elif kind == "ended":
            self.ended = True
        elif kind == "refused":
            state.refuse(event["sentence"])
        else:
            raise LookupError(kind)
        if "deadline_s" in event:
            self._deadline = time.monotonic() + event["deadline_s"]  # scaled by the process itself

    def _count_loading(self) -> None:
        if not self._loaded:
            self._loaded = True
            seconds = time.monotonic() - self._began
            self.state.record.provenance[LOADING] = seconds + float(self.state.record.provenance.get(LOADING, 0.0))

    def _extend(self, seconds: float) -> None:
        """Let the process be quiet for so long, times what the user allows slow hosts and what the host is crowded."""
        self._deadline = time.monotonic() + seconds * self.request.deadline_scale * processes.crowding()

    def _conclude(self, hung: bool) -> None:
        status = self._child.returncode or 0
        if self._broken:
            text = f"{self._broken}; the process was ended, and what it had not said runs again"
            self.state.conclude(Check(self._place(), Verdict.CRASHED, text, 0.0))
        elif hung:
            self.state.conclude(Check(self._place(), Verdict.HUNG, self._hang(), 0.0))
        elif self.current or not self.ended or status < 0:
            explained = len(self.state.record.checks) > self._before
            if not (explained and status >= 0 and not self.current):
                self.state.conclude(Check(self._place(), Verdict.CRASHED, self._death(status), 0.0))

    def _hang(self) -> str:
        starting = not self.current and not self.ended
        dumped = processes.last_lines(self._log if starting else Path(self.request.folder) / "stacks.txt", 200)
        newest = max((number for number, line in enumerate(dumped) if line.startswith("Timeout (")), default=0)
        frames = [line.strip() for line in dumped[newest:] if line.strip().startswith("File ")]
        where = f"it was in {frames[0]}" if frames else f"its log is {self._log}"
        if starting:
            doing = "importing torch" if any("/torch/" in frame for frame in frames) else "importing or collecting"
            where += (
                f"; it had begun no check after {time.monotonic() - self._began:.0f} s, and was {doing}; where a slow disk or "
                f"{processes.load()} is why, --deadline-scale 4 allows it more"
            )
        return explain.with_finding(f"did not end by its deadline and was ended; {where}", [self._log])

    def _death(self, status: int) -> str:
        text = processes.last_words(self._log)
        reason = f"the process ended with {processes.describe_exit(status)}; it printed last: {text}"[:800]
        return explain.with_finding(reason, [self._log])

    def _place(self) -> str:
        where = "" if self.ended else self._reading
        return self.current or f"{where or ' '.join(self.request.suites)} ({'exit' if self.ended else 'start'})"


class Tail:
    """Complete lines appended to a file of JSON objects since the last look, from where it stands now."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stream = path.open("a+b")  # held open: what was written before somebody deleted it can be read still
        self.close = self._stream.close

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yield what is new (OSError: the file was deleted)."""
        place = self._stream.tell()
        while (line := self._stream.readline()).endswith(b"\n"):
            place = self._stream.tell()
            yield files.parse_json(line, self._path)
        self._stream.seek(place)
        self._path.stat()


def handed_over(request: Request) -> dict[str, str]:
    """Write a request into its folder, and return the variables of the process that reads it there."""
    path, stack = request.write(), request.stack
    guarded = startup.guarded(stack, os.environ, bool(environments.stamp(Path(sys.prefix))))
    return {**stack.process_environment(), **guarded, REQUEST: str(path)}


def command(request: Request, root: Path) -> list[str]:
    """Return the command that runs the suites of a request, with our own configuration and nothing above the folder of suites."""
    folders = [str(root / suite) for suite in request.suites]
    project = projects.current()
    own = SUITES if project and root == project.suites else root  # a project's suites run under our settings
    configuration = ["-c", str(own / "pytest.ini"), "--rootdir", str(root), "--confcutdir", str(root)]
    plugins = [word for name in plugins_of(request.suites, root) for word in ("-p", name)]
    return [sys.executable, "-X", "faulthandler", "-m", "pytest", *configuration, *plugins, *folders]


_MOST_RESTARTS = 25
"""Of each process of a stage."""
_LOOK_S = 0.03
_NAMED = 5
"""Checks that a guard names at most."""


def run(request: Request, record: Record, observer: Observer, folder: Path) -> Record:
    """Run the request's suites and fill the record; on Ctrl-C nothing is left running and the record says interrupted.

    Args:
        request: what to run.
        record: what is filled; checks that it holds already stay, and are not run again.
        observer: who is told as it happens.
        folder: an existing folder for the logs of this run, and every few seconds its record: one that is killed leaves what it had.
    """
    rows, expected = known_issues.load(request.stack), manifest.load(request.stack)
    save = partial(writer.checkpoint, path=folder / "record.json")
    state = RunState(record, observer, lambda check: known_issues.excuse(rows, check, record), save)
    mark, living = processes.new_mark(), list[CheckProcess]()
    try:
        with processes.adopting():
            try:
                for number, (root, stage) in enumerate(_stages(request)):
                    _run_stage(request, root, stage, state, folder / f"stage-{number}", mark, living)
                    if state.refused:
                        raise Refusal(state.refused)
            finally:
                processes.end_tree(mark)
        for check in _guards(request, expected, state):
            state.conclude(check)
        for check in known_issues.verdicts(rows, record, request.suites, bool(request.only)):
            state.conclude(check)
        record.verdict = record.overall
    except KeyboardInterrupt:
        _interrupted(state, living)
    record.provenance["largest_process_rss_bytes"] = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    kept = list(folder.rglob("*.log"))
    record.logs += [str(path) for path in sorted(kept) if path.stat().st_size]
    return record


def _stages(request: Request) -> list[tuple[Path, Stage]]:
    """Return the stages of our suites, then those of the project's, with the folder in which each lies."""
    own, project = stacks.own_suites(), projects.current()
    ours = tuple(name for name in request.suites if name not in own)
    theirs = tuple(name for name in request.suites if name in own)
    pairs = [(SUITES, stage) for stage in stages(ours, SUITES, request.only)]
    if project and project.suites and theirs:
        pairs += [(project.suites, stage) for stage in stages(theirs, project.suites, request.only)]
    return pairs


def _run_stage(
    request: Request, root: Path, stage: Stage, state: RunState, folder: Path, mark: str, living: list[CheckProcess]
) -> None:
    """Keep the stage's processes running until each has come to its own end; `living` holds those that live."""
    rows = [(stage.suites, (number, stage.workers), stage.held, math.inf) for number in range(stage.workers)]
    rows += [(suites, (0, 1), suites if gib else (), gib) for suites, gib in stage.apart.items()]
    for number, (suites, shard, held, room_gib) in enumerate(rows):
        share = replace(request, suites=suites, folder=str(folder / f"worker-{number}"), shard=shard, held=held)
        living.append(CheckProcess(share, root, state, mark, room_gib))
        living[-1].start()
    restarts = _MOST_RESTARTS * stage.workers
    while living:
        quiet = all(process.waiting for process in living)
        for number, process in enumerate(tuple(living)):
            if process.alive(_memory_gib(state.record) >= process.room_gib or (quiet and number == 0)):
                continue
            living.remove(process)
            if process.left and restarts:  # others of its checks may be left to run
                restarts -= 1
                living.append(CheckProcess(process.request, root, state, mark, process.room_gib))
                living[-1].start()
        state.checkpoint()
        time.sleep(_LOOK_S)


def _memory_gib(record: Record) -> float:
    """Return what the smallest card that torch saw has, or 0."""
    sizes = [float(value) for name, value in record.provenance.items() if name.endswith(".memory_bytes")]
    return min(sizes, default=0.0) / 2**30


def _interrupted(state: RunState, living: list[CheckProcess]) -> None:
    for process in living:
        process.absorb()
    count = sum(finished_rows(Path(process.request.folder)) for process in living)
    kept = f"; {count} rows of ranks had come to their end, and --continue runs none of them again" if count else ""
    places = [process.current for process in living if process.current] or ["start"]
    for place in places:
        reason = f"interrupted from outside; the checks after it did not run{kept}"
        state.conclude(Check(place, Verdict.INTERRUPTED, reason, 0.0))
    state.record.verdict = Verdict.INTERRUPTED


def _guards(request: Request, expected: Manifest | None, state: RunState) -> Iterator[Check]:
    """Yield a failed check for all that a run should have had and has not, and the word on a project's own manifest."""
    ended, chosen = state.ended, request.suites
    if request.only:
        good = (Verdict.PASSED, Verdict.SKIPPED)
        if all(check.verdict in good or check.id in state.known for check in state.record.checks):
            # else the collection itself went wrong, which may be why a pattern finds nothing
            yield from _guard_selection(request.only, chosen, state.known)
    else:
        yield from _guard_counts(request, expected, state)
    # Last: what never ran counts for nothing.
    for identifier in [identifier for identifier in state.collected if identifier not in ended]:
        yield Check(identifier, Verdict.FAILED, "was collected but never ran", 0.0)


def _guard_counts(request: Request, expected: Manifest | None, state: RunState) -> Iterator[Check]:
    chosen = request.suites
    whole = (
        request.options.get("profile", DEFAULT_PROFILE) == DEFAULT_PROFILE
    )  # else there are more subjects than counted
    exact, more = bool(state.record.provenance.get("pinned")), () if whole else chosen
    theirs = [check for check in state.record.checks if check.id in state.theirs]
    if expected is not None:
        ours = [check for check in state.record.checks if check.id not in state.theirs]
        known = [name for name in state.known if name not in state.theirs]
        run = manifest.Selection(known, ours, counted(chosen), exact, more)
        for file, sentence in manifest.complaints(expected, run, request.stack):
            yield Check(f"guard: {file}", Verdict.FAILED, sentence, 0.0)
    if (project := projects.current()) and state.theirs:
        run = manifest.Selection(state.theirs, theirs, chosen, exact, more)
        yield from _guard_project(project, run, request.stack)
    rows = {file.partition("/")[0] for file in expected.files} if expected else set()
    for suite in [suite for suite in chosen if suite not in rows]:
        yield from _guard_count(suite, state.record.checks, request.stack)


def _guard_selection(only: Sequence[str], chosen: Sequence[str], known: Collection[str]) -> Iterator[Check]:
    """Hold each pattern of `--only` against the checks there are.

    Raises:
        Refusal: none selects anything: a slip of the keyboard. Where others did, what they ran is kept, and the run fails.
    """
    unmatched = [pattern for pattern in only if not any(matches(name, [pattern]) for name in known)]
    lines = []
    for pattern in unmatched:
        longer = f"; try '{pattern}*'" if any(pattern in name for name in known) else ""
        near = suggestion(pattern, known) or longer if known else ", of which pytest collects no check at all"
        lines.append(f"--only '{as_typed(pattern)}' matches no check of {', '.join(chosen)}{near}; patterns may hold *")
    if lines and len(lines) == len(only):
        raise Refusal(" | ".join(lines))
    if lines:
        yield Check("guard: selection", Verdict.FAILED, " | ".join(lines), 0.0)


def _guard_project(project: Project, run: manifest.Selection, stack: Stack) -> Iterator[Check]:
    """Hold a project's checks against its own manifest; where it has none, say so and count them."""
    done = sum(check.verdict.executed for check in run.checks)
    counted = f"{done} of {len(list(run.collected))} checks of {project.name} were executed"
    if project.expected is None:
        text = f"{counted}; no expected.toml beside {project.file.name} says how many there must be, so none would be missed"
    else:
        text = f"{counted}, held against {project.display_path(project.expected)}"
        for file, sentence in manifest.complaints(manifest.read(project.expected, stack), run, stack):
            yield Check(f"guard: {project.name}: {file}", Verdict.FAILED, sentence, 0.0)
    yield Check("guard: project", Verdict.PASSED, text, 0.0)


def _guard_count(suite: str, every: Sequence[Check], stack: Stack) -> Iterator[Check]:
    checks = [check for check in every if check.id.startswith(f"{suite}/") and "::" in check.id]
    executed = sum(check.verdict.executed for check in checks)
    promised = stack.expected.get(suite, 1)
    if executed < promised:
        left = [f"{check.id.partition('::')[2]} ({check.reason})" for check in checks if not check.verdict.executed]
        why = f"; not executed: {'; '.join(left[:_NAMED])}" if left else ""
        who = f"{stack.definition} expects" if suite not in stacks.own_suites() else "a suite has"
        reason = f"find out why too few checks of {suite} ran: {executed} were executed, {who} at least {promised}{why}"
        yield Check(f"guard: {suite}", Verdict.FAILED, reason, 0.0)

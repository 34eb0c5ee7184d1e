"""Runs suites in processes of their own, supervised: progress, deadlines, crashes and hangs become checks of a record.

The supervisor imports no torch. When a process that runs checks dies or hangs, the check it was in gets that
verdict, everything it left behind is killed, and the rest of its suites goes on in a fresh process.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from pathlib import Path

from stackproof.base import processes
from stackproof.base.errors import Refusal, suggestion
from stackproof.base.places import SUITES
from stackproof.base.text import as_typed, matches
from stackproof.project import projects
from stackproof.project.projects import Project
from stackproof.record.records import NOT_EXECUTED, Check, Record, Verdict, overall
from stackproof.runner.process import CheckProcess, Observer, RunState
from stackproof.runner.request import Request
from stackproof.runner.suites import DEFAULT_PROFILE, Stage, counted, stages
from stackproof.stack import known_issues, manifest, stacks
from stackproof.stack.manifest import Manifest
from stackproof.stack.stacks import Stack

_MOST_PROCESSES = 25
_LOOK_S = 0.03
_NAMED = 5
"""Checks that a guard names at most."""


def run(
    request: Request, record: Record, observer: Observer, folder: Path, save: Callable[[Record], None] | None = None
) -> Record:
    """Run the request's suites and fill the record; on Ctrl-C nothing is left running and the record says interrupted.

    Args:
        request: what to run.
        record: what is filled; checks that it holds already stay, and are not run again.
        observer: who is told as it happens.
        folder: an existing folder for the logs of this run.
        save: keeps the record every few seconds, so that a run that is killed leaves what it had.
    """
    rows, expected = known_issues.load(request.stack), manifest.load(request.stack)
    state = RunState(record, observer, lambda check: known_issues.excuse(rows, check, record), save or (lambda _: None))
    mark, living, began = processes.new_mark(), list[CheckProcess](), time.monotonic()
    try:
        for number, (root, stage) in enumerate(_stages(request)):
            _run_stage(request, stage, state, folder / f"stage-{number}", mark, living, root)
        for check in _guards(request, expected, state):
            state.conclude(check)
        for check in known_issues.verdicts(rows, record, request.suites, bool(request.only)):
            state.conclude(check)
        record.verdict = overall(check.verdict for check in record.checks)
    except KeyboardInterrupt:
        _interrupted(state, living)
    finally:
        processes.end_tree(mark)
    record.seconds += time.monotonic() - began
    record.provenance["largest_process_rss_bytes"] = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    kept = [*folder.rglob("*.log"), *folder.rglob("benchmark.json")]
    record.logs += [str(path) for path in sorted(kept) if path.stat().st_size]
    return record


def _stages(request: Request) -> list[tuple[Path, Stage]]:
    """Return the stages of our suites, then those of the project's, with the folder in which each lies."""
    own, project = stacks.own_suites(), projects.current()
    ours = tuple(name for name in request.suites if name not in own)
    theirs = tuple(name for name in request.suites if name in own)
    found = [(SUITES, stage) for stage in stages(ours, SUITES, request.only)]
    if project and project.suites and theirs:
        found += [(project.suites, stage) for stage in stages(theirs, project.suites, request.only)]
    return found


def _run_stage(
    request: Request,
    stage: Stage,
    state: RunState,
    folder: Path,
    mark: str,
    living: list[CheckProcess],
    root: Path = SUITES,
) -> None:
    """Keep the stage's processes running until each has come to its own end; `living` holds those that live."""

    def process(number: int, suites: tuple[str, ...], shard: tuple[int, int]) -> CheckProcess:
        own = folder / f"worker-{number}"
        own.mkdir(parents=True, exist_ok=True)
        return CheckProcess(request.share(suites, own, shard), root, state, mark)

    living += [process(number, stage.suites, (number, stage.workers)) for number in range(stage.workers)]
    waiting = {suite: process(stage.workers + number, (suite,), (0, 1)) for number, suite in enumerate(stage.apart)}
    for _ in range(_MOST_PROCESSES):
        for one in living:
            one.start()
        _follow(living, state, partial(_joining, stage, waiting, state.record))
        left = [CheckProcess(old.request, root, state, mark) for old in living if old.left]
        living[:] = [*left, *waiting.values()]
        waiting.clear()
        if not living:
            return
    living.clear()


def _joining(stage: Stage, waiting: dict[str, CheckProcess], record: Record) -> list[CheckProcess]:
    """Return the processes whose suites the device has memory for beside the others; it is known when the first process has told it."""
    sizes = [float(value) for name, value in record.provenance.items() if name.endswith(".memory_bytes")]
    gib = min(sizes, default=0.0) / 2**30  # of the smallest card that torch saw
    return [waiting.pop(suite) for suite in list(waiting) if stage.apart[suite] <= gib]


def _follow(living: list[CheckProcess], state: RunState, joining: Callable[[], list[CheckProcess]]) -> None:
    """Wait for all processes to end, and for those that join them."""
    running = list(living)
    while running:
        for process in joining():
            process.start()
            living.append(process)
            running.append(process)
        running = [process for process in running if process.alive()]
        state.checkpoint()
        time.sleep(_LOOK_S)


def _interrupted(state: RunState, living: list[CheckProcess]) -> None:
    for process in living:
        process.absorb()
    places = [process.current for process in living if process.current] or ["start"]
    for place in places:
        reason = "interrupted from outside; the checks after it did not run"
        state.conclude(Check(place, Verdict.INTERRUPTED, reason, 0.0))
    state.record.verdict = Verdict.INTERRUPTED


def _guards(request: Request, found: Manifest | None, state: RunState) -> Iterator[Check]:
    """Yield a failed check for all that a run should have had and has not, and the word on a project's own manifest."""
    ended, chosen = state.ended, request.suites
    for identifier in [identifier for identifier in state.collected if identifier not in ended]:
        yield Check(identifier, Verdict.FAILED, "was collected but never ran", 0.0)
    if request.only:
        yield from _guard_selection(request.only, chosen, state.known)
        return
    whole = (
        request.options.get("profile", DEFAULT_PROFILE) == DEFAULT_PROFILE
    )  # else there are more subjects than counted
    exact, more = bool(state.record.provenance.get("pinned")), () if whole else chosen
    theirs = [check for check in state.record.checks if check.id in state.theirs]
    if found is not None:
        ours = [check for check in state.record.checks if check.id not in state.theirs]
        known = [name for name in state.known if name not in state.theirs]
        run = manifest.Selection(known, ours, counted(chosen), exact, more)
        for file, sentence in manifest.complaints(found, run, request.stack):
            yield Check(f"guard: {file}", Verdict.FAILED, sentence, 0.0)
    if (project := projects.current()) and state.theirs:
        run = manifest.Selection(state.theirs, theirs, chosen, exact, more)
        yield from _guard_project(project, run, request.stack)
    rows = {file.partition("/")[0] for file in found.files} if found else set()
    for suite in [suite for suite in chosen if suite not in rows]:
        yield from _guard_count(suite, state.record.checks, request.stack)


def _guard_selection(only: Sequence[str], chosen: Sequence[str], known: Collection[str]) -> Iterator[Check]:
    """Hold each pattern of `--only` against the checks there are, unless the collection itself went wrong.

    Raises:
        Refusal: none selects anything: a slip of the keyboard. Where others did, what they ran is kept, and the run fails.
    """
    unmatched = [pattern for pattern in only if known and not any(matches(name, [pattern]) for name in known)]
    said = []
    for pattern in unmatched:
        longer = f"; try '{pattern}*'" if any(pattern in name for name in known) else ""
        near = suggestion(pattern, known) or longer
        said.append(f"--only '{as_typed(pattern)}' matches no check of {', '.join(chosen)}{near}; patterns may hold *")
    if said and len(said) == len(only):
        raise Refusal(" | ".join(said))
    if said:
        yield Check("guard: selection", Verdict.FAILED, " | ".join(said), 0.0)


def _guard_project(project: Project, run: manifest.Selection, stack: Stack) -> Iterator[Check]:
    """Hold a project's checks against its own manifest; where it has none, say so and count them."""
    done = sum(check.verdict not in NOT_EXECUTED for check in run.checks)
    counted = f"{done} of {len(list(run.collected))} checks of {project.name} were executed"
    if project.expected is None:
        said = f"{counted}; no expected.toml beside {project.file.name} says how many there must be, so none would be missed"
    else:
        said = f"{counted}, held against {project.display_path(project.expected)}"
        for file, sentence in manifest.complaints(manifest.read(project.expected, stack), run, stack):
            yield Check(f"guard: {project.name}: {file}", Verdict.FAILED, sentence, 0.0)
    yield Check("guard: project", Verdict.PASSED, said, 0.0)


def _guard_count(suite: str, every: Sequence[Check], stack: Stack) -> Iterator[Check]:
    """Hold a suite that no manifest counts against the number of the stack's definition."""
    checks = [check for check in every if check.id.startswith(f"{suite}/") and "::" in check.id]
    executed = sum(check.verdict not in NOT_EXECUTED for check in checks)
    promised = stack.expected.get(suite, 1)
    if executed < promised:
        left = [f"{check.id.partition('::')[2]} ({check.reason})" for check in checks if check.verdict in NOT_EXECUTED]
        why = f"; not executed: {'; '.join(left[:_NAMED])}" if left else ""
        reason = (
            f"find out why too few checks of {suite} ran: {executed} were executed, "
            f"{stack.definition} expects at least {promised}{why}"
        )
        yield Check(f"guard: {suite}", Verdict.FAILED, reason, 0.0)

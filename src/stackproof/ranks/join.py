"""Takes part in a group that torchrun, srun or mpirun started: supervises this rank, and on rank 0 writes the record of all.

The rank runs in a process of its own, because a hang must be ended from outside.
"""

from __future__ import annotations

import contextlib
import copy
import importlib.util
import json
import os
import re
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from stackproof.base import files, processes
from stackproof.base.errors import Refusal
from stackproof.base.files import write_atomically
from stackproof.ranks import launchers
from stackproof.ranks.blame import FORMED, Traces, differences, late, named, who_failed, who_hung
from stackproof.ranks.launchers import SHOW_STACKS, Placement, Spec, note_failure
from stackproof.record import writer
from stackproof.record.checks import CheckEnded, CheckHung
from stackproof.record.records import Check, Figure, Record, Verdict, overall
from stackproof.stack import environment_proof, hosts, provenance
from stackproof.stack.stacks import Stack

# Of the first loss; a learning rate of 0, or gradients that cancel, leave it where it was.
_FALL = 0.9


def judge(ranks: Sequence[Mapping[str, Any]], lag: str = "") -> list[Check]:
    """Return a check each for bring-up, collectives and training, judged by the ranks' evidence; `lag`: who was late, if one was."""
    who = ", ".join(
        f"rank {rank['rank']} on {rank['device']} {rank['bus id']}".rstrip() + f" of {rank['host']}" for rank in ranks
    )
    formed, split = (max(rank[name] for rank in ranks) for name in ("formed_s", "split_s"))
    facts = ("formed_s", "host", "device", "name", "bus id")
    figures: dict[str, Figure] = {f"rank {rank['rank']}.{name}": rank[name] for rank in ranks for name in facts}
    came_up = f"{ranks[0]['backend']}: {who}; formed in {formed:.2f} s, split in {split:.2f} s"
    names = ", ".join(["all-reduce", *ranks[0]["collectives"]])
    return [
        Check("bring_up", Verdict.PASSED, came_up, formed, figures),
        Check("collectives", Verdict.PASSED, f"{names} are exact over {len(ranks)} ranks{lag and f'; {lag}'}", 0.0),
        _training([rank["training"] for rank in ranks]),
    ]


def _training(ranks: Sequence[Mapping[str, Any]]) -> Check:
    (first, *_, last), steps = map(float, ranks[0]["losses"]), len(ranks[0]["losses"])  # NaN is a word
    digests = [fields["digest"] for fields in ranks]
    differ = ", ".join(f"rank {rank} {digest[:12]}" for rank, digest in enumerate(digests))
    verdict, reason = Verdict.FAILED, f"after {steps} steps the ranks' parameters differ: {differ}"
    if len(set(digests)) == 1 and last < _FALL * first:
        verdict = Verdict.PASSED
        reason = f"loss {first:.3f} -> {last:.3f} in {steps} steps, parameters of {len(ranks)} ranks bit-equal"
    elif len(set(digests)) == 1:
        reason = f"the loss went from {first:.4f} to {last:.4f} in {steps} steps, a fall by a tenth was expected"
    return Check("training", verdict, reason, 0.0, {"first loss": first, "last loss": last})


PREFLIGHT = "preflight"
PROVE = "stackproof.ranks.joined:prove"
_GRACE_S = 3.0
_OTHERS_S = 3.0
_TWINS_S = 10.0


@dataclass(frozen=True)
class RankResult:
    """How this rank ended, and on rank 0 the record of all with its place."""

    verdict: Verdict
    reason: str
    refused: bool = False
    """Whether the preflight refused the group, which is not the stack's failure."""
    record: Record | None = None
    path: Path | None = None


_BEGAN = time.time()


def take_part(stack: Stack, spec: Spec, asked: str = "", run: str = "") -> RankResult:
    """Run this process's rank to its end; `asked` and `run` say where the ranks meet, as `launchers.rendezvous` takes them.

    Raises:
        Refusal: there is no launcher, no place to meet, nobody to meet, no such device, or the environment is not its lock, or another
            run works in the folder.
    """
    place = launchers.placement(os.environ)
    _require_group(stack, spec, place)
    _require_program(spec.program, [str(Path.cwd()), *stack.path("").split(os.pathsep), *sys.path])
    spec = replace(spec, address=launchers.rendezvous(place, os.environ, asked, run))
    store = _store_file(spec.address, spec.deadline_s)
    traces = Traces(spec.folder, place.world_size)
    _forget(traces, place.rank, spec.address)
    try:
        record = _begin(stack, spec, place)
    except BaseException:
        traces.alive(place.rank).unlink(missing_ok=True)  # who ends so is not killed
        raise
    began = time.monotonic()

    def answered() -> None:
        """Keep what the ranks proved before rank 0 leaves: if a library aborts in its farewell, mpirun ends this process as well."""
        if place.rank == 0:
            early = copy.deepcopy(record)
            early.seconds = time.monotonic() - began
            _complete(early, spec, place, None)
            writer.keep(early, spec.folder / "record.json")

    try:
        ended: Check | None = _supervise(stack, spec, place, answered)
        ended = ended or _group_ended(spec, place)
    except KeyboardInterrupt:  # the launcher ends all ranks once one has failed
        gone = "" if spec.folder.is_dir() else f"; {spec.folder} {launchers.GONE}"
        ended = Check("program", Verdict.INTERRUPTED, f"interrupted from outside{gone}", 0.0)
    with processes.signals_ignored():
        record.seconds = time.monotonic() - began
        result = (
            RankResult(ended.verdict, ended.reason, ended.id == PREFLIGHT) if ended else RankResult(Verdict.PASSED, "")
        )
        if place.rank == 0 or (ended and _writes(traces, place.rank)):
            if place.rank:
                _put_aside(spec.folder)
            if store:
                store.unlink(missing_ok=True)  # its keys would answer for ranks that are gone
            _complete(record, spec, place, ended)
            path = writer.keep(record, spec.folder / "record.json")
            result = replace(result, verdict=record.verdict, record=record, path=path)
        _note_end(spec.folder, place.rank, result.verdict)
        return result


def _require_group(stack: Stack, spec: Spec, place: Placement) -> None:
    """One rank exchanges nothing, so that its collectives would pass by not running; a program of somebody else's may run alone."""
    least = stack.least_ranks
    if spec.checked and (text := launchers.too_long(spec.deadline_s)):
        raise Refusal(text)
    if (outer := launchers.around(place, os.environ)) and spec.checked:
        raise Refusal(
            f"{place.launcher} runs inside {outer}: each of its processes starts ranks of its own, {place.world_size} here, and they "
            "fight for the same cards; start one torchrun a host, without mpirun, or mpirun -n N python -m stackproof ranks ..."
        )
    if spec.program == PROVE and place.world_size < least:
        raise Refusal(
            f"{place.launcher} started {place.world_size} rank(s), and a collective of {stack.name} counts from {least} on "
            f"(least_ranks in stack.toml): start {least} or more; if you did, each took itself for a group of its own, "
            "as ranks do under the mpirun of an MPI that this Python does not know"
        )


def _require_program(program: str, path: Sequence[str]) -> None:
    """Refuse what surely is not there before torch is imported for it; nothing of it is run."""
    module, _, function = program.partition(":")
    top, *rest = parts = module.split(".")
    places = [Path(folder, *parts[:-1]) for folder in path]
    found = [place / parts[-1] for place in places if (place / parts[-1]).is_dir()]
    found += [file for place in places for file in place.glob(f"{parts[-1]}.*")]
    ours = rest and any(Path(folder, top).is_dir() for folder in path)
    if not found and (ours or (top not in sys.modules and importlib.util.find_spec(top) is None)):
        raise Refusal(f"--program {program}: there is no module '{module}' in {path[0]}, nor on PYTHONPATH")
    source = found[0].read_text("utf-8", "replace") if found and found[0].suffix == ".py" else function
    if function not in source and not re.search(r"import \*|__getattr__|globals\(", source):
        raise Refusal(f"--program {program}: {found[0]} has no '{function}'; name a function of it")


def _store_file(address: str, deadline_s: float) -> Path | None:
    """Return the file over which the ranks meet, if it is one; what an earlier run left there is refused."""
    if not address.startswith("file://"):
        return None
    path = Path(address.removeprefix("file://"))
    if not path.parent.is_dir():
        raise Refusal(
            f"--rendezvous file://{path.parent}: there is no such folder; make it first, on a disk that all hosts share"
        )
    if path.exists() and path.stat().st_mtime < time.time() - deadline_s:
        raise Refusal(
            f"{path}: an earlier run of this name left it, and it would answer for ranks that are gone; delete it, or add another --run"
        )
    return path


def _begin(stack: Stack, spec: Spec, place: Placement) -> Record:
    hosts.require(stack)
    record = writer.begin("ranks", stack.name)
    proved = environment_proof.prove(stack)
    record.provenance |= provenance.host_facts(stack) | provenance.proof_facts(proved)
    record.provenance |= {"launcher": place.launcher, "world_size": place.world_size, "preflight": spec.checked}
    record.checks.append(Check("environment", Verdict.PASSED, proved.sentence(stack), 0.0))
    return record


def _supervise(stack: Stack, spec: Spec, place: Placement, answered: Callable[[], None]) -> Check | None:
    mark, folder = processes.new_mark(), spec.folder
    spec = replace(spec, until=time.time() + spec.deadline_s)
    with (folder / f"rank{place.rank}.log").open("wb") as output:
        command = [sys.executable, "-m", "stackproof.ranks.joined", str(spec.save(f"rank{place.rank}.spec.json"))]
        child = processes.start(command, output, stack.process_environment(), mark, _launcher_files(os.environ))
        try:
            status, follows = _wait(child, spec.remaining_s + _GRACE_S, folder, place, answered)
        except KeyboardInterrupt:
            if place.rank:  # before the rank is ended and the others lose it: who was first is told by the times
                follows = _another_failed(Traces(folder, place.world_size), place.rank)
                note_failure(folder, place.rank, -signal.SIGTERM, follows, interrupted=True)
            raise
        finally:
            processes.end_tree(mark, child)
    if status == 0 and Traces(folder, place.world_size).answered(place.rank):
        return None
    note_failure(folder, place.rank, status, follows)
    return _failure(spec, place, status)


def _launcher_files(environ: Mapping[str, str]) -> tuple[int, ...]:
    """Pass on the descriptor over which Hydra and Slurm talk to their ranks: without it MPI dies with 'PMI_Get_appnum returned -1'."""
    number = environ.get("PMI_FD", "")
    with contextlib.suppress(OSError, ValueError):
        os.fstat(int(number))
        return (int(number),)
    return ()


def _wait(
    child: processes.Process, seconds: float, folder: Path, place: Placement, answered: Callable[[], None]
) -> tuple[int | None, bool]:
    """Return how the rank ended, None at its deadline; and whether another rank had failed and this one only waited for it."""
    traces, until = Traces(folder, place.world_size), time.monotonic() + seconds
    follows = left = shown = False
    while child.poll() is None and (now := time.monotonic()) < until:
        if not follows and until > now + _OTHERS_S and _another_failed(traces, place.rank):
            follows, until = True, now + _OTHERS_S
        if follows and not shown and until < now + _OTHERS_S / 2 and FORMED in traces.phases(place.rank):
            shown = True
            os.kill(child.pid, SHOW_STACKS)
        if not left and traces.answered(place.rank):
            left = True
            with contextlib.suppress(Refusal):
                answered()
        time.sleep(0.2)
    if child.poll() is not None:
        return child.returncode, False
    return (-signal.SIGTERM if follows else None), follows


def _another_failed(traces: Traces, rank: int) -> bool:
    return any(failure["rank"] != rank for failure in traces.failures())


def _failure(spec: Spec, place: Placement, status: int | None) -> Check:
    """Name who failed or hung, by what the ranks of this folder left; a refusal of the preflight is everybody's."""
    traces = Traces(spec.folder, place.world_size)
    if (error := traces.error(place.rank)).startswith("PreflightRefusal: "):
        return Check(PREFLIGHT, Verdict.FAILED, error.removeprefix("PreflightRefusal: "), 0.0)
    for rank in range(traces.world_size):
        if (error := traces.error(rank)).startswith("CheckHung: "):
            return Check("program", Verdict.HUNG, error.removeprefix("CheckHung: "), 0.0)
    # The other ranks' supervisors have a moment to note how theirs ended: the first to fail is not the first to be seen.
    until = time.monotonic() + _OTHERS_S
    while time.monotonic() < until and len(traces.failures()) < place.world_size:
        time.sleep(0.1)
    # What a rank raises because another hung, and was ended a moment before, only follows from that; so does the launcher's signal.
    lost = status == 1 and any(failure.get("hung") for failure in traces.failures())
    hung = (status is None or lost) and not traces.raised()
    ended: Exception = CheckHung(who_hung(traces, spec.deadline_s)) if hung else who_failed(traces)
    verdict = ended.verdict if isinstance(ended, CheckEnded) else Verdict.FAILED
    silent = [rank for rank in range(traces.world_size) if not traces.phases(rank)]
    unseen = f"; {named(silent)} left nothing in {traces.folder}: look on their hosts" if silent else ""
    return Check("program", verdict, f"{ended}{unseen}{traces.variables()}", 0.0)


def _note_end(folder: Path, rank: int, verdict: Verdict) -> None:
    with contextlib.suppress(OSError), (folder / f"rank{rank}.ended").open("x", encoding="utf-8") as stream:
        stream.write(verdict)


def _group_ended(spec: Spec, place: Placement) -> Check | None:
    """Wait, behind a rank that passed, until the others' supervisors end: rank 0 for all, and the others for what rank 0 finds."""
    folder, until, traces = spec.folder, time.monotonic() + spec.deadline_s, Traces(spec.folder, place.world_size)
    if place.rank:
        _note_end(folder, place.rank, Verdict.PASSED)
    others = [rank for rank in ([0] if place.rank else range(1, place.world_size)) if traces.alive(rank).exists()]
    while silent := [rank for rank in others if not traces.text(f"rank{rank}.ended")]:
        if time.monotonic() > until or any(traces.supervised(rank) is False for rank in silent):
            said = "came to its end, and the process that supervises it did not within"
            what = f"{named(silent)} {said} {spec.deadline_s:.0f} s: it was stopped or killed (its id is in {traces.alive(silent[0])})"
            return Check("program", Verdict.HUNG, what, 0.0)
        time.sleep(0.1)
    ends = {Verdict(traces.text(f"rank{rank}.ended")) for rank in others} - {Verdict.PASSED}
    if not ends:
        return None
    if not place.rank:
        return _failure(spec, place, 1)
    return Check("program", ends.pop(), f"another rank failed: {folder / 'record.json'} says which", 0.0)


def _writes(traces: Traces, rank: int) -> bool:
    """Whether no supervisor of a lower rank is left that would write the record: rank 0's was never started, or was killed."""
    return all(traces.vanished(other) or not traces.alive(other).exists() for other in range(rank))


def _put_aside(folder: Path) -> None:
    if (record := folder / "record.json").exists():
        record.rename(folder / f"record-{record.stat().st_mtime:.0f}.json")


def _forget(traces: Traces, rank: int, address: str) -> None:
    """Delete what this rank left in an earlier run, and what ranks left that had begun before it ended there; keep that run's record."""
    folder, alive = traces.folder, traces.alive(rank)
    meeting = [address, *(os.environ.get(name) for name in ("MASTER_ADDR", "MASTER_PORT"))]
    known = files.try_read_json(alive) or {}
    # A twin of this rank begins with it and meets at the same place; the others find it.
    at_work = not traces.ends(rank) and traces.supervised(rank)
    if at_work and (alive.stat().st_mtime < _BEGAN - _TWINS_S or known.get("meeting") != meeting):
        raise Refusal(
            f"{folder}: rank {rank} of another run is at work there; give each run a folder of its own (--folder)"
        )
    ended = max((path.stat().st_mtime for path in traces.ends(rank)), default=0.0)

    def delete(name: str) -> None:
        for path in folder.glob(f"{name}.*"):
            path.unlink(missing_ok=True)

    folder.mkdir(parents=True, exist_ok=True)
    delete(f"rank{rank}")
    # Of a rank that is killed together with its supervisor nothing else is left.
    write_atomically(
        alive, json.dumps({"host": socket.gethostname(), "supervisor": os.getpid(), "meeting": meeting}), durably=False
    )
    if rank == 0:
        _put_aside(folder)
    # A rank that begins just now has deleted its own, and leaves something for this run only once it has been here.
    with contextlib.suppress(OSError), files.locked(folder / "lock"):  # on a disk without locks, others' stays
        for path in folder.glob("rank*.alive"):
            if path.stat().st_mtime < ended:
                delete(path.stem)


def _complete(record: Record, spec: Spec, place: Placement, ended: Check | None) -> None:
    if ended is None:
        _add_results(record, spec, place)
    else:
        traces, ranks = Traces(spec.folder, place.world_size), range(place.world_size)
        gone = [rank for rank in ranks if traces.vanished(rank)] if ended.id == "program" else []
        for rank in gone:
            note_failure(spec.folder, rank, -signal.SIGKILL)
        others = [failure for failure in traces.failures() if failure["rank"]]
        outside = all(failure.get("follows") or failure.get("interrupted") for failure in others)
        if gone or (ended.verdict is Verdict.INTERRUPTED and not outside):
            ended = _failure(spec, place, -signal.SIGKILL if gone else 1)
        record.checks.append(ended)
    record.logs = sorted(path.name for path in spec.folder.glob("*.log"))
    record.verdict = overall(check.verdict for check in record.checks)


def _add_results(record: Record, spec: Spec, place: Placement) -> None:
    result = files.read_json(spec.folder / "rank0.json")
    note = f"; {result['note']}" if result["note"] else ""
    record.provenance |= {"backend": result["backend"], "note": result["note"]}
    verdict, text = Verdict.PASSED, f"nothing was refused{note}"
    if not spec.checked:
        verdict, text = Verdict.SKIPPED, f"was switched off (--no-preflight){note}"
    record.checks.append(Check(PREFLIGHT, verdict, text, 0.0))
    traces = Traces(spec.folder, place.world_size)
    lag, apart = late(traces.journals()), differences(traces)
    if spec.program == PROVE:
        record.checks += judge(result["ranks"], lag)
        return
    text = f"{lag and f'{lag}; '}{spec.program} ended on {len(result['ranks'])} ranks; their results are in rank0.json"
    if apart:
        text = f"{apart}; {spec.program} ended all the same, and its numbers cannot be trusted"
    record.checks.append(Check("program", Verdict.FAILED if apart else Verdict.PASSED, text, 0.0))

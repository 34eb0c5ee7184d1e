"""A sweep under Slurm: one array, each task pinned to its host before any may begin, and nothing of ours that stays."""

from __future__ import annotations

import contextlib
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from stackproof.api.base import Refusal, places, processes, text
from stackproof.extras.fleet import plan
from stackproof.extras.fleet.plan import FleetPlan

TEMPLATE = places.ROOT / "slurm" / "fleet.sbatch"
_ARRAY = 1000
"""Slurm's own default for the longest array (MaxArraySize 1001)."""
_CALL_S = 120.0
_POLL_S = 2.0
_DEAD = ("ReqNodeNotAvail", "DOWN", "DRAINED")
"""In the reason for which a task waits: its host is none that could run it."""
_WAITS = "waiting for a host that is down"
_PATIENT = 5
"""So many looks in a row at which nothing but such tasks is left."""
Say = Callable[[str], None]


@dataclass(frozen=True)
class SlurmTerms:
    """What the user has chosen besides the plan; `options` go to sbatch as they are."""

    python: Path
    container: str = ""
    options: tuple[str, ...] = ()
    scale: float = 1.0


def require() -> None:
    """Refuse where there is no Slurm."""
    if missing := [name for name in ("sbatch", "scontrol", "squeue", "scancel") if not shutil.which(name)]:
        raise Refusal(
            f"{missing[0]} is not here, so no job can be submitted; run this where Slurm is, or `fleet card` on each host "
            f"({places.page('fleet.md')})"
        )


def submit(plan: FleetPlan, folder: Path, terms: SlurmTerms, say: Say) -> list[str]:
    """Submit the sweep, and return the ids of its arrays; a fleet that is longer than an array has several.

    Refusal: Slurm refused; what was submitted until then is cancelled.
    """
    require()
    jobs = list[str]()
    try:
        for start in range(0, len(plan.hosts), _ARRAY):
            hosts = plan.hosts[start : start + _ARRAY]
            jobs.append(_array(plan, folder, terms, len(hosts)))
            _pin(jobs[-1], hosts)
            call("scontrol", "release", jobs[-1])
            say(f"job {jobs[-1]}: {len(hosts)} hosts, a task each")
    except Refusal:
        cancel(jobs)
        raise
    return jobs


def _array(plan: FleetPlan, folder: Path, terms: SlurmTerms, count: int) -> str:
    variables = {
        "FOLDER": str(folder), "STACK": plan.stack, "PYTHON": str(terms.python), "CONTAINER": terms.container, "SCALE": str(terms.scale),
    }  # fmt: skip
    logs = folder / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    own = [f"--array=0-{count - 1}", f"--output={logs}/%A_%a.out", "--hold", "--parsable"]
    printed = call("sbatch", *own, *terms.options, str(TEMPLATE), environment=variables)
    return printed.splitlines()[-1].partition(";")[0]


def _pin(job: str, hosts: Sequence[str]) -> None:
    """Give each task its host; names come from the plan, and were held against what a name can be."""
    tasks = (f"update JobId={job}_{number} ReqNodeList={plan.host(host)}\n" for number, host in enumerate(hosts))
    printed = call("scontrol", stdin="".join(tasks))
    if "error" in printed.casefold():
        raise Refusal(
            f"Slurm does not give a task to its host: {text.first_line(printed)}; check the names in the plan with `sinfo`"
        )


def finished(jobs: Sequence[str], minutes: float, say: Say) -> bool:
    """Wait until no task is left, or none but those of hosts that are down, or for so long."""
    until, before, dead = time.monotonic() + 60 * minutes, "", 0
    while left := Counter(_states(jobs)):
        if (counts := ", ".join(f"{count} {state}" for state, count in sorted(left.items()))) != before:
            say(counts)
            before = counts
        dead = dead + 1 if set(left) == {_WAITS} else 0
        if dead >= _PATIENT or time.monotonic() > until:
            return False
        time.sleep(_POLL_S)
    return True


def _states(jobs: Sequence[str]) -> Iterator[str]:
    try:
        printed = call("squeue", "--noheader", "--array", f"--jobs={','.join(jobs)}", "--format=%T|%r")
    except Refusal as refusal:
        if "Invalid job id" in str(refusal):  # all have ended, and were forgotten
            return
        raise
    for line in filter(None, map(str.strip, printed.splitlines())):
        state, _, why = line.partition("|")
        yield _WAITS if any(word in why for word in _DEAD) else text.plain(state.lower(), 40, lines=False)


def cancel(jobs: Sequence[str]) -> None:
    """Cancel what is left of the arrays."""
    if jobs:
        with contextlib.suppress(Refusal):
            call("scancel", *jobs)


def call(*command: str, environment: Mapping[str, str] | None = None, stdin: str = "") -> str:
    """Run a command of Slurm and return what it printed, errors too (Refusal: it failed, or did not answer)."""
    ended = processes.run(command, seconds=_CALL_S, environment=environment, stdin=stdin.encode())
    if ended.code in (processes.NOT_FOUND, processes.NOT_EXECUTABLE):
        raise Refusal(f"{ended.errors}; run this where Slurm is")
    if ended.timed_out:
        raise Refusal(f"{command[0]} did not answer in {_CALL_S:.0f} s; is the controller up? try `sinfo`")
    if not ended.ok:
        why = text.plain(text.tail(ended.errors or ended.output), 300, lines=False)
        raise Refusal(f"{command[0]} failed: {why}; mend that and try again")
    return f"{ended.output}{ended.errors}".strip()

"""A sweep under Slurm: one array, each task pinned to its host before any may begin, and nothing of ours that stays."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from stackproof.api.base import Refusal, first_line, places, plain, tail
from stackproof.extras.fleet import rules
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
    at_once: int = 0
    """So many hosts at the same time, where they share a file server or a fuse; 0 is all."""


def require() -> None:
    """Refuse where there is no Slurm."""
    if missing := [name for name in ("sbatch", "scontrol", "squeue", "scancel") if not shutil.which(name)]:
        raise Refusal(
            f"{missing[0]} is not here, so no job can be submitted; run this where Slurm is, or `fleet card` on each host "
            f"({places.page('fleet.md')})"
        )


def submit(plan: FleetPlan, folder: Path, terms: SlurmTerms, say: Say) -> list[str]:
    """Submit the sweep, and return the ids of its arrays; a fleet that is longer than an array has several.

    Raises:
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
    carried = {
        "FOLDER": str(folder), "STACK": plan.stack, "PYTHON": str(terms.python), "CONTAINER": terms.container, "SCALE": str(terms.scale),
    }  # fmt: skip
    logs = folder / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    most = f"%{terms.at_once}" if terms.at_once else ""
    own = [f"--array=0-{count - 1}{most}", f"--output={logs}/%A_%a.out", "--hold", "--parsable"]
    said = call("sbatch", *own, *terms.options, str(TEMPLATE), environment=carried)
    return said.splitlines()[-1].partition(";")[0]


def _pin(job: str, hosts: Sequence[str]) -> None:
    """Give each task its host; names come from the plan, and were held against what a name can be."""
    lines = "".join(
        f"update JobId={job}_{number} ReqNodeList={rules.host(host)}\n" for number, host in enumerate(hosts)
    )
    said = call("scontrol", stdin=lines)
    if "error" in said.casefold():
        raise Refusal(
            f"Slurm does not give a task to its host: {first_line(said)}; check the names in the plan with `sinfo`"
        )


def finished(jobs: Sequence[str], minutes: float, say: Say) -> bool:
    """Wait until no task is left, or none but those of hosts that are down, or for so long."""
    until, before, dead = time.monotonic() + 60 * minutes, "", 0
    while left := Counter(_states(jobs)):
        told = ", ".join(f"{count} {state}" for state, count in sorted(left.items()))
        if told != before:
            say(told)
            before = told
        dead = dead + 1 if set(left) == {_WAITS} else 0
        if dead >= _PATIENT or time.monotonic() > until:
            return False
        time.sleep(_POLL_S)
    return True


def _states(jobs: Sequence[str]) -> Iterator[str]:
    try:
        said = call("squeue", "--noheader", "--array", f"--jobs={','.join(jobs)}", "--format=%T|%r")
    except Refusal as refusal:
        if "Invalid job id" in str(refusal):  # all have ended, and were forgotten
            return
        raise
    for line in filter(None, map(str.strip, said.splitlines())):
        state, _, why = line.partition("|")
        yield _WAITS if any(word in why for word in _DEAD) else plain(state.lower(), 40, lines=False)


def cancel(jobs: Sequence[str]) -> None:
    """Cancel what is left of the arrays."""
    if jobs:
        with contextlib.suppress(Refusal):
            call("scancel", *jobs)


def call(*command: str, environment: Mapping[str, str] | None = None, stdin: str = "") -> str:
    """Run a command of Slurm and return what it said, errors too.

    Raises:
        Refusal: it failed, or did not answer.
    """
    try:
        ended = subprocess.run(
            command, env={**os.environ, **(environment or {})}, input=stdin, capture_output=True, text=True, errors="replace",
            timeout=_CALL_S, check=False,
        )  # fmt: skip
    except OSError as error:
        why = "is not here" if isinstance(error, FileNotFoundError) else f"cannot be started ({error.strerror})"
        raise Refusal(f"{command[0]} {why}; run this where Slurm is") from None
    except subprocess.TimeoutExpired:
        raise Refusal(f"{command[0]} did not answer in {_CALL_S:.0f} s; is the controller up? try `sinfo`") from None
    if ended.returncode:
        raise Refusal(
            f"{command[0]} failed: {plain(tail(ended.stderr or ended.stdout), 300, lines=False)}; mend that and try again"
        )
    return f"{ended.stdout}{ended.stderr}".strip()

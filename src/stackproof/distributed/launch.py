"""Launches ranks through torch's elastic agent, and says which rank failed, crashed or hung, and where.

The agent runs in a process of its own, because a hang must be ended from outside: a peer that was stopped can
hang a process group for ever, whatever its own time-out says.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .. import processes
from ..checks import CapabilityMissing, CheckCrashed, CheckFailed, CheckHung
from ..device import Device
from ..stacks import Stack

_GRACE_S = 3.0


@dataclass(frozen=True)
class Arrangement:
    """Which rank runs on which card, over which backend; `note` says what such a group does not prove."""

    backend: str
    cards: tuple[int, ...]
    note: str = ""


@dataclass(frozen=True)
class Spec:
    """What every rank is told, as a JSON file."""

    program: str
    stack: str
    rehearsed: bool
    backend: str
    cards: tuple[int, ...]
    arguments: dict[str, Any]
    folder: str
    deadline_s: float
    until: float
    """When the deadline passes, in seconds since the epoch: ranks start later than the launcher and must not think they have longer."""

    @property
    def remaining_s(self) -> float:
        """Seconds that are left, at least one."""
        return max(1.0, self.until - time.time())

    @classmethod
    def load(cls, path: Path) -> Spec:
        """Read the specification that an agent or a rank was given."""
        values = json.loads(path.read_text(encoding="utf-8"))
        return cls(**{**values, "cards": tuple(values["cards"])})


def arrange(stack: Stack, cards: Sequence[Device], world_size: int) -> Arrangement:
    """Give each rank a card of its own; where there are fewer cards than ranks, share the first over another backend.

    NCCL, RCCL and oneCCL refuse two ranks on one card ("Duplicate GPU detected"), so a shared card says nothing about them.
    """
    if len(cards) >= world_size:
        return Arrangement(stack.backend, tuple(card.index for card in cards[:world_size]))
    if cards[0].shareable:
        return Arrangement(stack.backend, (cards[0].index,) * world_size)
    if not stack.shared_card_backend:
        raise CapabilityMissing(
            f"stacks/{stack.name}/stack.toml: shared_card_backend is empty: no backend of this stack lets "
            f"{world_size} ranks share one card, and {len(cards)} is visible"
        )
    note = f"{world_size} ranks share {cards[0]} over {stack.shared_card_backend}; {stack.backend} is not verified at this world size"
    return Arrangement(stack.shared_card_backend, (cards[0].index,) * world_size, note)


def launch(
    program: str, stack: Stack, arrangement: Arrangement, arguments: dict[str, Any], folder: Path, deadline_s: float
) -> list[dict[str, Any]]:
    """Run `module:function` on every rank and return what each rank gave back, in order of rank.

    Raises:
        CheckFailed: a rank raised; the message names it and what it said.
        CheckCrashed: a rank died by a signal.
        CheckHung: the ranks did not end within `deadline_s`; the message names the one that got least far.
    """
    folder.mkdir(parents=True, exist_ok=True)
    spec = Spec(
        program,
        stack.name,
        stack.rehearsed,
        arrangement.backend,
        arrangement.cards,
        arguments,
        str(folder),
        deadline_s,
        time.time() + deadline_s,
    )
    path = folder / "spec.json"
    path.write_text(json.dumps(asdict(spec)), encoding="utf-8")
    status = _run_agent(path, folder / "agent.log", spec.remaining_s + _GRACE_S, _threads(len(spec.cards)))
    if status is None:
        raise CheckHung(_who_hung(spec))
    if status != 0:
        raise _who_failed(spec, status)
    return [json.loads((folder / f"rank{rank}.json").read_text(encoding="utf-8")) for rank in range(len(spec.cards))]


def _threads(ranks: int) -> dict[str, str]:
    """Share the host's cores among the ranks, unless the user has decided; each rank taking all of them is slower for everybody."""
    return {} if "OMP_NUM_THREADS" in os.environ else {"OMP_NUM_THREADS": str(max(1, (os.cpu_count() or 1) // ranks))}


def _run_agent(spec: Path, log: Path, seconds: float, threads: dict[str, str]) -> int | None:
    """Return the agent's exit status, or None when it had to be ended; nothing that it started is left."""
    mark = processes.new_mark()
    until = time.monotonic() + seconds
    with log.open("wb") as output:
        agent = processes.start(
            [sys.executable, "-m", "stackproof.distributed.agent", str(spec)], output, threads, mark
        )
        try:
            while agent.poll() is None and time.monotonic() < until:
                time.sleep(0.03)
            return agent.poll()
        finally:
            processes.end_tree(mark, agent)


def _who_hung(spec: Spec) -> str:
    reached = {rank: _phases(spec, rank) for rank in range(len(spec.cards))}
    least = min(len(phases) for phases in reached.values())
    behind = [rank for rank, phases in reached.items() if len(phases) == least]
    others = ", ".join(f"rank {rank} in '{_last(phases)}'" for rank, phases in reached.items() if rank not in behind)
    named = " and ".join(f"rank {rank}" for rank in behind)
    at = _frame(spec, behind[0])
    beside = f" ({others})" if others else ""
    ended = f"all ranks were ended after {spec.deadline_s:.0f} s"
    return f"{named} hung in '{_last(reached[behind[0]])}'{beside}; {ended}{at}"


def _who_failed(spec: Spec, status: int) -> Exception:
    """Name the first rank that failed; the others only follow, because the agent ends them."""
    failures = _failures(Path(spec.folder))
    if not failures:
        said = " / ".join(processes.last_lines(Path(spec.folder) / "agent.log", 3))
        return CheckCrashed(f"the launcher ended with {processes.describe_exit(status)}; it printed last: {said}")
    first = min(failures, key=lambda failure: failure["time"])
    rank, where = first["rank"], _last(_phases(spec, first["rank"]))
    own = Path(spec.folder) / f"rank{rank}.error"
    if own.exists():
        return CheckFailed(f"rank {rank} failed in '{where}': {own.read_text(encoding='utf-8')}")
    said = " / ".join(processes.last_lines(_log(spec, rank), 2)) or "nothing"
    return CheckCrashed(
        f"rank {rank} ended with {processes.describe_exit(first['exitcode'])} in '{where}'; it printed last: {said}"
    )


def _failures(folder: Path) -> list[dict[str, Any]]:
    try:
        found = json.loads((folder / "failures.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    return list(found)


def _phases(spec: Spec, rank: int) -> list[str]:
    return processes.last_lines(Path(spec.folder) / f"rank{rank}.phases", 1000)


def _last(phases: list[str]) -> str:
    return phases[-1] if phases else "start-up"


def _log(spec: Spec, rank: int) -> Path:
    """The rank's own stderr; the agent keeps one folder per rank below a folder of the run's name."""
    found = sorted(Path(spec.folder).glob(f"*/attempt_0/{rank}/stderr.log"))
    return found[-1] if found else Path(spec.folder) / "agent.log"


def _frame(spec: Spec, rank: int) -> str:
    lines = processes.last_lines(_log(spec, rank), 60, of_bytes=65536)
    found = next((line.strip() for line in lines if line.strip().startswith("File ")), "")
    return f"; it was in {found}" if found else ""

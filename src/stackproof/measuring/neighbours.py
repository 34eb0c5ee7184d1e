"""Who else is on the card; what others do on the host is told by `hostload`."""

from __future__ import annotations

import os
from pathlib import Path

from .. import processes
from ..checks import CheckInconclusive
from ..device import Device
from ..stacks import Stack
from .hostload import HostLoad, descendants, everyone
from .telemetry import Telemetry, answer

__all__ = ["HostLoad", "family", "others_on_card", "require_alone"]


def others_on_card(device: Device, stack: Stack) -> tuple[str, ...] | None:
    """Return the processes on the card that are not of this run, as "name (id)"; None where nobody tells."""
    telemetry = Telemetry(device, stack)
    if telemetry.tool is None or telemetry.tool.processes is None:
        return None
    said = answer(telemetry.tool.processes, telemetry.card)
    if said is None:
        return None
    rows = telemetry.tool.processes.rows(said)
    own = family()
    strange = [(pid, name) for pid, name in rows if pid not in own]
    comparable = any(pid in own for pid, _ in rows)
    if strange and not comparable and not any(Path(f"/proc/{pid}").exists() for pid, _ in strange):
        return None  # a container's process ids are not the host's: these may be our own
    return tuple(f"{name} ({pid})" for pid, name in strange if comparable or Path(f"/proc/{pid}").exists())


def require_alone(device: Device, stack: Stack, *, allowed: bool) -> tuple[str, ...]:
    """Return what is to be noted about other processes on the card.

    Raises:
        CheckInconclusive: there are some, and they are not allowed.
    """
    found = others_on_card(device, stack)
    if found is None or not found:
        return ()
    sentence = f"{len(found)} other process(es) on {device}: {', '.join(found[:3])}"
    if not allowed:
        raise CheckInconclusive(f"{sentence}; end them, or add --allow-foreign to measure anyway and label the figures")
    return (sentence,)


def family() -> set[int]:
    """Return the ids of this process, its ancestors and descendants, and of all that carry its run's mark."""
    parents = {pid: row.parent for pid, row in everyone().items()}
    own, current = {os.getpid()}, os.getpid()
    while (current := parents.get(current, 0)) > 1:
        own.add(current)
    mark = os.environ.get(processes.MARK, "").split("/")[0]
    return own | descendants(os.getpid(), parents) | (set(processes.marked(mark)) if mark else set())

"""Clocks, temperature, throttling and other processes of a card, by the vendors' tools (`data/telemetry.toml`).

A card is asked while it works: a reading after the work shows clocks that already fall.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Annotated, Any

from stackproof import DATA
from stackproof.base import processes
from stackproof.base.files import try_parse_json
from stackproof.base.processes import descendants, process_table
from stackproof.base.toml import OneOf, kept_rows
from stackproof.device.kinds import Device
from stackproof.record.checks import CheckFailed, CheckInconclusive
from stackproof.record.records import Figure
from stackproof.stack.stacks import Stack

FILE = DATA / "telemetry.toml"
DEADLINE_S = 20.0


_Format = Annotated[str, OneOf(lambda: tuple(_READERS))]


@dataclass(frozen=True)
class Query:
    """One command and how to read it."""

    command: tuple[str, ...]
    format: _Format
    fields: tuple[str, ...] = ()
    keys: Mapping[str, str] = field(default_factory=dict)
    pattern: str = ""

    def facts(self, output: str, card: str) -> dict[str, Figure]:
        """Return what the tool reported of the card; what it has no number for is left out."""
        values = _READERS[self.format](self, output, card)
        return {name: value for name, word in values.items() if (value := _figure(word)) is not None}

    def rows(self, output: str) -> list[tuple[int, str]]:
        """Return process ids with names."""
        pairs: Iterable[tuple[object, object]]
        if self.format == "json":
            pid, name = self.fields
            pairs = ((row.get(pid), row.get(name)) for row in _dictionaries(try_parse_json(output)))
        else:
            pairs = (line.partition(",")[::2] for line in output.splitlines())
        return [(int(str(pid)), str(name).strip()) for pid, name in pairs if str(pid).strip().isdecimal()]


@dataclass(frozen=True)
class TelemetryTool:
    """One vendor's tool."""

    name: str
    tried: str
    """Where somebody saw it answer."""
    device: str
    select: str
    state: Query
    counters: Query | None = None
    processes: Query | None = None
    energy: str = ""
    """The library whose counter tells how much a card has drawn."""
    throttle: Mapping[str, str] = field(default_factory=dict)
    """What slows a card, by the bit that says so, in hexadecimal."""


def tool_for(kind: str) -> TelemetryTool | None:
    """Return the first tool for a torch device type whose command is on the PATH."""
    return next((tool for tool in tools() if tool.device == kind and shutil.which(tool.state.command[0])), None)


tools = kept_rows(FILE, "tool", TelemetryTool)


def _read_csv(query: Query, text: str, _: str) -> dict[str, str]:
    line = next((line for line in text.splitlines() if line.strip()), "")
    words = [word.strip() for word in line.split(",")]
    return dict(zip(query.fields, words, strict=True)) if len(words) == len(query.fields) else {}


def _read_json(query: Query, text: str, card: str) -> dict[str, str]:
    flat = dict(_flat(try_parse_json(text)))
    places = {name: key.format(card=card) for name, key in (query.keys or {}).items()}
    return {name: flat[key] for name, key in places.items() if key in flat}


def _flat(value: Any, prefix: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _flat(inner, f"{prefix}.{key}" if prefix else str(key))
    else:
        yield prefix, str(value)


def _read_regex(query: Query, text: str, _: str) -> dict[str, str]:
    groups: dict[str, list[float]] = {}
    for match in re.finditer(query.pattern, text):
        for name, word in match.groupdict().items():
            groups.setdefault(name, []).append(float(word))
    return {name: str(median(values)) for name, values in groups.items()}


_READERS = {"csv": _read_csv, "json": _read_json, "regex": _read_regex}


def _dictionaries(value: Any) -> Iterator[dict[str, Any]]:
    """Yield every object in nested lists and objects: tools wrap their rows under keys that change between versions."""
    if isinstance(value, dict):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _dictionaries(inner)


def _figure(word: str) -> Figure | None:
    """Return a number, a mask as its number, other words as they are; nothing for what a tool does not know."""
    text = word.strip()
    try:
        return int(text, 16) if text.startswith("0x") else float(text)
    except ValueError:
        return None if text.strip("[]").upper() in ("", "N/A", "NOT SUPPORTED", "UNKNOWN ERROR") else text


def others_on_card(device: Device, stack: Stack) -> tuple[str, ...] | None:
    """Return the processes on the card that are not of this run, as "name (id)"; None where nobody tells."""
    telemetry = Telemetry(device, stack)
    query = telemetry.tool.processes if telemetry.tool else None
    (text,) = answers([query], telemetry.card) if query else (None,)
    if query is None or text is None:
        return None
    rows, own = query.rows(text), family()
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
    if not (others := others_on_card(device, stack)):
        return ()
    sentence = neighbours(device, others)
    if not allowed:
        raise CheckInconclusive(f"{sentence}; end them, or add --allow-foreign to measure anyway and label the figures")
    return (sentence,)


def neighbours(device: Device, others: tuple[str, ...] | None) -> str:
    """Name the other processes on the card in a few words, or say that nobody tells of any."""
    if others:
        return f"{len(others)} other process(es) on {device}: {', '.join(others[:3])}"
    return f"no tool tells who else is on {device}" if others is None else f"no other process is seen on {device}"


@contextlib.contextmanager
def unless_shared(device: Device, stack: Stack) -> Iterator[None]:
    """Take a failure inside, of something that whoever shares the card can cause too, for inconclusive where there is somebody.

    Raises:
        CheckInconclusive: it failed, and other processes are on the card; the sentence names them.
    """
    try:
        yield
    except CheckFailed as failed:
        if others := others_on_card(device, stack):
            raise CheckInconclusive(f"{failed}; but {neighbours(device, others)}; end them and run again") from failed
        raise


def family() -> set[int]:
    """Return the ids of this process, its ancestors and descendants, and of all that carry its run's mark."""
    parents = {pid: row.parent for pid, row in process_table().items()}
    own, current = {os.getpid()}, os.getpid()
    while (current := parents.get(current, 0)) > 1:
        own.add(current)
    mark = os.environ.get(processes.MARK, "").split("/")[0]
    return own | descendants(os.getpid(), parents) | (set(processes.with_mark(mark)) if mark else set())


def energy_counter(device: Device) -> Callable[[], float] | None:
    """Return what reads the joules that a card has drawn so far; None where no library of the table counts them.

    https://docs.nvidia.com/deploy/nvml-api/group__nvmlDeviceQueries.html, in millijoules.
    """
    tool, handle, drawn = tool_for(device.kind), ctypes.c_void_p(), ctypes.c_ulonglong()
    try:
        library = ctypes.CDLL(tool.energy if tool and tool.energy else "no library")
    except OSError:
        return None
    card = f"GPU-{device.driver().get('properties.uuid', '')}".encode()

    def read() -> float:
        failed = library.nvmlDeviceGetTotalEnergyConsumption(handle, ctypes.byref(drawn))
        return math.nan if failed else drawn.value / 1e3

    known = not library.nvmlInit_v2() and not library.nvmlDeviceGetHandleByUUID(card, ctypes.byref(handle))
    return read if known and read() > 0 else None


_SLOWED_S = 1e-3
"""A counter that rose by less is the tool's own granularity."""


@dataclass
class Telemetry:
    """What the vendor's tool tells of one card, at the beginning and at the end of sampling."""

    device: Device
    stack: Stack
    tool: TelemetryTool | None = None
    readings: list[dict[str, Figure]] = field(default_factory=list)
    _counted: list[dict[str, Figure]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.tool = tool_for(self.device.kind)

    @property
    def card(self) -> str:
        """The card as the tool calls it."""
        if self.tool is None:
            return ""
        uuid = self.device.driver().get("properties.uuid", "")
        return self.tool.select.format(index=physical_index(self.device.index, self.stack), uuid=uuid)

    def read(self, work: Callable[[], object]) -> None:
        """Read state and counters; `work` keeps the card busy until the tool has answered.

        Each run is waited for: a second of runs that are only queued would keep the card busy for many, long after the tool is done.
        """

        def once() -> None:
            work()
            self.device.synchronize()

        pairs = ((self.tool.state, self.readings), (self.tool.counters, self._counted)) if self.tool else ()
        asked = [(query, kept) for query, kept in pairs if query is not None]
        texts = answers([query for query, _ in asked], self.card, once)
        for (query, kept), text in zip(asked, texts, strict=True):
            kept.append({} if text is None else query.facts(text, self.card))

    def facts(self) -> dict[str, Figure]:
        """Return both readings, flat; a tool that is absent, or says nothing, is a fact too."""
        if self.tool is None:
            return {"telemetry": f"absent: no tool for '{self.device.kind}' is on the PATH"}
        if not any(self.readings):
            return {"telemetry": f"{self.tool.name} gave no figure"}
        pairs = zip(("at the start", "at the end"), (self.readings[0], self.readings[-1]), strict=True)
        # What a card draws for a moment, before a short row or after it, is not what the row drew: `energy_counter` tells that.
        flat = {
            f"{name} {when}": value for when, reading in pairs for name, value in reading.items() if name != "watts"
        }
        return {"telemetry": self.tool.name, **flat, **{f"slowed_s {name}": s for name, s in self.slowed().items()}}

    def slowed(self) -> dict[str, float]:
        """Return the seconds that the card was slowed between the readings, by reason, where the tool counts them."""
        if len(self._counted) < 2:
            return {}
        first, last = self._counted[0], self._counted[-1]
        seconds = {name: (_number(last[name]) - _number(first[name])) / 1e6 for name in last if name in first}
        return {name: value for name, value in seconds.items() if value > _SLOWED_S}

    def throttled(self) -> tuple[str, ...]:
        """Return why the card ran slower than it could: reasons seen in a reading, or counted between them."""
        if self.tool is None:
            return ()
        masks = [int(_number(reading.get("throttle_mask", 0))) for reading in self.readings]
        seen = [word for bit, word in self.tool.throttle.items() if any(mask & int(bit, 16) for mask in masks)]
        return tuple(dict.fromkeys([*seen, *self.slowed()]))


def answers(queries: Sequence[Query], card: str, work: Callable[[], object] | None = None) -> list[str | None]:
    """Return the outputs of commands that are run at once, with work on the card meanwhile; None for one that fails or takes too long."""
    commands = [[part.format(card=card) for part in query.command] for query in queries]
    with ThreadPoolExecutor() as pool:
        asked = [pool.submit(processes.run, command, seconds=DEADLINE_S) for command in commands]
        while work is not None and not all(future.done() for future in asked):
            work()
        ended = [future.result() for future in asked]
    return [run.output if run.ok else None for run in ended]


def physical_index(index: int, stack: Stack) -> int:
    """Return the card's number on the host: visibility variables renumber what torch sees, tools do not look at them."""
    shown = os.environ.get(stack.visibility, "") if stack.visibility else ""
    chosen = shown.split(",")
    return int(chosen[index]) if index < len(chosen) and chosen[index].strip().isdecimal() else index


def _number(value: Figure) -> float:
    return float(value) if isinstance(value, (int, float)) else 0.0

"""Clocks, temperature and throttling of a card, read while it works: a reading after the work shows clocks that already fall."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from ..device import Device
from ..records import Figure
from ..stacks import Stack
from .tools import DEADLINE_S, Query, Tool, tool_for

_SLOWED_S = 1e-3
"""A counter that rose by less is the tool's own granularity."""


@dataclass
class Telemetry:
    """What the vendor's tool tells of one card, at the beginning and at the end of sampling."""

    device: Device
    stack: Stack
    tool: Tool | None = None
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
        """Read state and counters; `work` keeps the card busy until the tool has answered."""
        if self.tool is not None:
            self.readings.append(ask(self.tool.state, self.card, work))
            if self.tool.counters is not None:
                self._counted.append(ask(self.tool.counters, self.card, work))

    def facts(self) -> dict[str, Figure]:
        """Return both readings, flat; a tool that is absent, or says nothing, is a fact too."""
        if self.tool is None:
            return {"telemetry": f"absent: no tool for '{self.device.kind}' is on the PATH"}
        if not any(self.readings):
            return {"telemetry": f"{self.tool.name} gave no figure"}
        pairs = zip(("at the start", "at the end"), (self.readings[0], self.readings[-1]), strict=True)
        flat = {f"{name} {when}": value for when, reading in pairs for name, value in reading.items()}
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
        seen = [word for bit, word in self.tool.throttle.items() if any(mask & bit for mask in masks)]
        return tuple(dict.fromkeys([*seen, *self.slowed()]))


def ask(query: Query, card: str, work: Callable[[], object] | None = None) -> dict[str, Figure]:
    """Return what a tool says of a card; nothing if it fails or takes too long."""
    said = answer(query, card, work)
    return query.facts(said, card) if said is not None else {}


def answer(query: Query, card: str, work: Callable[[], object] | None = None) -> str | None:
    """Return a tool's output, with work on the card while it runs; None if it fails or takes too long."""
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as output:
        try:
            process = query.start(card, output)
        except OSError:
            return None
        until = time.monotonic() + DEADLINE_S
        while work is not None and process.poll() is None and time.monotonic() < until:
            work()
        try:
            process.wait(timeout=max(0.1, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=1.0)
            return None
        output.seek(0)
        return output.read() if process.returncode == 0 else None


def physical_index(index: int, stack: Stack) -> int:
    """Return the card's number on the host: visibility variables renumber what torch sees, tools do not look at them."""
    shown = os.environ.get(stack.visibility, "") if stack.visibility else ""
    chosen = shown.split(",")
    return int(chosen[index]) if index < len(chosen) and chosen[index].strip().isdecimal() else index


def _number(value: Figure) -> float:
    return float(value) if isinstance(value, (int, float)) else 0.0

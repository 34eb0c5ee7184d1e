"""The vendors' tools as data (`fixtures/telemetry.toml`): which command to ask about a card, and how to read what it says."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from statistics import median
from typing import IO, Any

from .. import ROOT
from ..records import Figure
from ..tables import Table

FILE = ROOT / "fixtures" / "telemetry.toml"
DEADLINE_S = 20.0


@dataclass(frozen=True)
class Query:
    """One command and how to read it."""

    command: tuple[str, ...]
    format: str
    fields: tuple[str, ...] = ()
    keys: Mapping[str, str] | None = None
    pattern: str = ""

    def start(self, card: str, output: IO[str]) -> subprocess.Popen[bytes]:
        """Start the tool; the caller waits for it, with work on the card meanwhile.

        It writes to a file: a pipe holds 64 KiB, and /proc/cpuinfo of 64 cores is longer.
        """
        command = [part.format(card=card) for part in self.command]
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.DEVNULL,
        )

    def facts(self, said: str, card: str) -> dict[str, Figure]:
        """Return what the tool told of the card; what it has no number for is left out."""
        found = _READERS[self.format](self, said, card)
        return {name: value for name, word in found.items() if (value := _figure(word)) is not None}

    def rows(self, said: str) -> list[tuple[int, str]]:
        """Return process ids with names."""
        pairs = _json_rows(said, self.fields) if self.format == "json" else _csv_rows(said)
        return [(int(pid), name) for pid, name in pairs if str(pid).strip().isdecimal()]


@dataclass(frozen=True)
class Tool:
    """One vendor's tool."""

    name: str
    device: str
    select: str
    state: Query
    counters: Query | None
    processes: Query | None
    throttle: Mapping[int, str]

    @property
    def present(self) -> bool:
        """Whether its command is on the PATH."""
        return shutil.which(self.state.command[0]) is not None


def tool_for(kind: str) -> Tool | None:
    """Return the first tool for a torch device type whose command is there."""
    return next((tool for tool in tools() if tool.device == kind and tool.present), None)


@cache
def tools() -> tuple[Tool, ...]:
    """Return all tools of the file."""
    with Table.load(FILE) as table:
        return tuple(map(_tool, table.tables("tool")))


def _tool(table: Table) -> Tool:
    with table:
        table.take("tried", str)
        return Tool(
            name=table.take("name", str),
            device=table.take("device", str),
            select=table.take("select", str),
            state=_query(table.table("state")),
            counters=_optional(table, "counters"),
            processes=_optional(table, "processes"),
            throttle={int(bit, 16): word for bit, word in table.mapping("throttle", {}).items()},
        )


def _optional(table: Table, key: str) -> Query | None:
    values = table.take(key, dict, {})
    return _query(Table(FILE, values, f"{key}.")) if values else None


def _query(table: Table) -> Query:
    with table:
        return Query(
            command=table.strings("command"),
            format=table.take("format", str, allowed=tuple(_READERS)),
            fields=table.strings("fields", []),
            keys=table.mapping("keys", {}),
            pattern=table.take("pattern", str, ""),
        )


def _read_csv(query: Query, said: str, _: str) -> dict[str, str]:
    line = next((line for line in said.splitlines() if line.strip()), "")
    words = [word.strip() for word in line.split(",")]
    return dict(zip(query.fields, words, strict=True)) if len(words) == len(query.fields) else {}


def _read_json(query: Query, said: str, card: str) -> dict[str, str]:
    try:
        flat = dict(_flat(json.loads(said)))
    except ValueError:
        return {}
    wanted = {name: key.format(card=card) for name, key in (query.keys or {}).items()}
    return {name: flat[key] for name, key in wanted.items() if key in flat}


def _flat(value: Any, prefix: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _flat(inner, f"{prefix}.{key}" if prefix else str(key))
    else:
        yield prefix, str(value)


def _read_regex(query: Query, said: str, _: str) -> dict[str, str]:
    found: dict[str, list[float]] = {}
    for match in re.finditer(query.pattern, said):
        for name, word in match.groupdict().items():
            found.setdefault(name, []).append(float(word))
    return {name: str(median(values)) for name, values in found.items()}


_READERS = {"csv": _read_csv, "json": _read_json, "regex": _read_regex}


def _csv_rows(said: str) -> list[tuple[str, str]]:
    pairs = (line.partition(",") for line in said.splitlines())
    return [(pid.strip(), name.strip()) for pid, _, name in pairs]


def _json_rows(said: str, keys: tuple[str, ...]) -> list[tuple[str, str]]:
    try:
        found = json.loads(said)
    except ValueError:
        return []
    return [(str(row.get(keys[0], "")), str(row.get(keys[1], ""))) for row in _dictionaries(found)]


def _dictionaries(value: Any) -> Iterator[dict[str, Any]]:
    """Yield every object in nested lists and objects: tools wrap their rows under keys that change between versions."""
    if isinstance(value, dict):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _dictionaries(inner)


def _figure(word: str) -> Figure | None:
    """Return a number, a mask as its number, other words as they are; nothing for what a tool does not know."""
    text = word.strip()
    if re.fullmatch(r"0x[0-9a-fA-F]+", text):
        return int(text, 16)
    try:
        return float(text)
    except ValueError:
        return None if text.strip("[]").upper() in ("", "N/A", "NOT SUPPORTED", "UNKNOWN ERROR") else text

"""Vendors' tools: which are here, and what versions they say."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor

from ..variable_tables import Level
from .findings import Finding, ok
from .machine import Machine
from .rules import Rules, Tool

_VERSION = re.compile(r"\d+(?:\.\d+)+\S*")


def examine(machine: Machine, rules: Rules, toolkits: Collection[str]) -> Iterator[Finding]:
    """Yield the tools that are here, and those that are missed where cards of these toolkits are."""
    here = {tool: path for tool in rules.tools if (path := next(filter(None, map(machine.find, tool.paths)), ""))}
    with ThreadPoolExecutor(max_workers=max(len(here), 1)) as pool:
        versions = dict(zip(here, pool.map(lambda pair: _version(machine, *pair), here.items()), strict=True))
    if here:
        said = ", ".join(f"{tool.name} {versions[tool]}".strip() for tool in here)
        yield ok("cards", f"tools: {said}")
    for tool in rules.tools:
        if tool.wanted and tool.toolkit in toolkits and tool not in here:
            yield Finding("cards", Level.NOTE, f"{tool.name} is not here", tool.wanted, toolkit=tool.toolkit)


def _version(machine: Machine, tool: Tool, path: str) -> str:
    found = _VERSION.search(machine.ask([path, *tool.version])) if tool.version else None
    return found[0].rstrip(",;)") if found else ""

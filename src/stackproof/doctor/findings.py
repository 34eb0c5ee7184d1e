"""A finding: how bad, one sentence, the remedy as a command or a setting, a link where there is one."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..variable_tables import Level

AREAS = ("host", "cards", "environment", "variables")


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at; `toolkit` is set if it concerns only stacks with that toolkit."""

    area: str
    level: Level
    sentence: str
    remedy: str = ""
    link: str = ""
    toolkit: str = ""

    def at_most(self, level: Level) -> Finding:
        """Return the finding, made milder if it is worse than `level`."""
        order = list(Level)
        return replace(self, level=level) if order.index(self.level) > order.index(level) else self


def ok(area: str, sentence: str, toolkit: str = "") -> Finding:
    """Make the finding that something is as it should be."""
    return Finding(area, Level.OK, sentence, toolkit=toolkit)

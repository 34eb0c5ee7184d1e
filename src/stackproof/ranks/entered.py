"""How many collectives each rank had entered when it hung: which is behind, by the counts that the ranks left. Needs no torch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

Counts = dict[str, int]
"""Collectives by the name of their group."""


def path(folder: Path, rank: int) -> Path:
    """Return where a rank leaves its counts."""
    return folder / f"rank{rank}.entered"


def read(folder: Path, rank: int) -> Counts:
    """Return a rank's counts by group; nothing where it left none."""
    try:
        found = json.loads(path(folder, rank).read_text(encoding="utf-8"))
        return {str(group): int(count) for group, count in found.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def lagging(entered: Mapping[int, Counts]) -> dict[str, set[int]]:
    """Return which ranks have entered fewer collectives of a group than another of its ranks, by group."""
    groups = dict.fromkeys(group for counts in entered.values() for group in counts)
    found = {}
    for group in groups:
        of_group = {rank: counts[group] for rank, counts in entered.items() if group in counts}
        if behind := {rank for rank, count in of_group.items() if count < max(of_group.values())}:
            found[group] = behind
    return found


def sentence(entered: Mapping[int, Counts]) -> str:
    """Say how many collectives the ranks have entered, group by group where that differs; nothing where they left no counts."""
    apart = lagging(entered)
    if not apart:
        whole = {sum(counts.values()) for counts in entered.values()}
        return (
            f"; each rank had entered {whole.pop()} collectives, so none is behind"
            if len(whole) == 1 and whole != {0}
            else ""
        )
    several = len({group for counts in entered.values() for group in counts}) > 1
    said = [f"{f'of group {group} ' if several else ''}{_each(entered, group)}" for group in apart]
    return f"; collectives entered: {'; '.join(said)}"


def _each(entered: Mapping[int, Counts], group: str) -> str:
    return ", ".join(f"rank {rank} {counts[group]}" for rank, counts in sorted(entered.items()) if group in counts)

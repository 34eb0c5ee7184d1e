"""What was asked of a library of collectives against what is in effect, read from its own log."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from .blame import Traces
from .libraries import Contradiction, Library


@dataclass(frozen=True)
class Effect:
    """Facts that a log tells by name, what it denies of what was asked for, and what it warns of, a sentence each."""

    facts: dict[str, str]
    contradictions: tuple[str, ...]
    warnings: tuple[str, ...]


def log_of(traces: Traces, rank: int) -> str:
    """Return everything that a rank's library said: NCCL writes a file of its own, oneCCL into the rank's output."""
    paths = [traces.folder / f"library.rank{rank}.log", traces.log(rank, "stdout"), traces.log(rank, "stderr")]
    return "\n".join(path.read_text(encoding="utf-8", errors="replace") for path in paths if path.exists())


def read(library: Library, log: str, asked: Mapping[str, str]) -> Effect:
    """Hold a log against the variables that were asked for; those that only make the library talk do not count."""
    wanted = {name: value for name, value in asked.items() if name not in library.talk}
    facts = {fact.name: found for fact in library.facts if (found := _values(fact.pattern, log, fact.many))}
    denied = [*_unlike(library, log, wanted), *_denied(library, log, wanted, facts)]
    warned = [
        row.sentence.format(seen=found.group().strip(" :"))
        for row in library.warnings
        for found in row.pattern.finditer(log)
    ]
    return Effect(facts, tuple(dict.fromkeys(denied)), tuple(dict.fromkeys(warned)))


def common(effects: Mapping[int, Effect]) -> dict[str, str]:
    """Return the facts of all ranks: one value where they agree, else each rank's; what only some ranks log is theirs."""
    found: dict[str, str] = {}
    for name in dict.fromkeys(name for effect in effects.values() for name in effect.facts):
        values = {rank: effect.facts[name] for rank, effect in effects.items() if name in effect.facts}
        agreed = len(set(values.values())) == 1
        each = ", ".join(f"rank {rank}: {value}" for rank, value in values.items())
        found[name] = next(iter(values.values())) if agreed else each
    return found


def _values(pattern: re.Pattern[str], log: str, many: bool) -> str:
    found = [match["value"].strip() for match in pattern.finditer(log)]
    return ", ".join(sorted(set(found))) if many else (found or [""])[0]


def _unlike(library: Library, log: str, wanted: Mapping[str, str]) -> Iterator[str]:
    """Variables that the log lists with another value than was asked for."""
    for match in library.echo.finditer(log) if library.echo else ():
        name, value = match["name"], match["value"]
        if name in wanted and not _same(wanted[name], value):
            yield f"{name}={wanted[name]} was asked for, {value} is in effect"


def _same(asked: str, value: str) -> bool:
    """Whether two values mean the same: letters' case does not count, nor how a number is written."""
    try:
        return int(asked, 0) == int(value, 0)
    except ValueError:
        return asked.strip().casefold() == value.strip().casefold()


def _denied(library: Library, log: str, wanted: Mapping[str, str], facts: Mapping[str, str]) -> Iterator[str]:
    for row in library.contradictions:
        asked = wanted.get(row.asked, "")
        if asked and row.value.fullmatch(asked) and (seen := _seen(row, asked, log, facts)):
            yield row.sentence.format(asked=asked, seen=seen)


def _seen(row: Contradiction, asked: str, log: str, facts: Mapping[str, str]) -> str:
    """Return what denies it, or nothing."""
    if row.seen:
        found = row.seen.search(log)
        return found.group().removeprefix("] ").strip(" :") if found else ""
    value, word = facts.get(row.fact, ""), re.split("[,;]", asked.lstrip("="))[0].casefold()
    return "" if not value or word in value.casefold() or value.casefold() in word else value

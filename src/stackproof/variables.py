"""Environment variables held against tables: unknown names, values out of their grammar, likely slips, combinations.

A library that does not know a variable ignores it without a word, so that a typo costs a day (oneCCL accepts any `CCL_*`).
No list of names is complete for ever, so a name that no list has is reported only if a known one is near. Needs no torch.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from . import variable_tables
from .errors import Refusal, suggestion
from .spelling import nearest
from .stacks import Stack
from .variable_tables import Combination, Family, Level, Variable

_QUOTES = str.maketrans(dict.fromkeys("\"'‘’“”「」`"))
_IDEOGRAPHIC = str.maketrans("。、", ".,")


@dataclass(frozen=True)
class Slip:
    """One thing that is wrong, or looks wrong: variables, how bad, one sentence, a command or setting, where it is documented."""

    variables: tuple[str, ...]
    family: str
    level: Level
    sentence: str
    remedy: str
    link: str


def examine(environ: Mapping[str, str], families: Collection[str] | None = None) -> list[Slip]:
    """Return what is wrong, or looks wrong, with the variables; the worst first.

    `environ`: the variables as the ranks will get them. A preflight that starts ranks by torchrun adds torchrun's own
    (`TORCHELASTIC_RUN_ID`, `LOCAL_RANK` ...), so that combinations with a launcher are seen.
    `families`: such as `relevant(stack)`. By default all, and then nothing is said of variables that another stack would read.

    Raises:
        Refusal: a table is broken, or no table has a family of that name.
    """
    chosen = _chosen(families)
    slips = [slip for family in chosen for slip in _names_and_values(family, environ)]
    slips += [*_strangers(chosen, environ), *_combined(chosen, environ, families)]
    order = list(Level)
    unique = {(slip.variables, slip.sentence.partition(";")[0]): slip for slip in slips}
    return sorted(unique.values(), key=lambda slip: -order.index(slip.level))


def relevant(stack: Stack) -> tuple[str, ...]:
    """Return the families that the stack's libraries read: those of every torch, of its toolkit, of its backend."""
    table = variable_tables.relevance()
    toolkits = [name for name, state in stack.flavour.toolkits.items() if state == "set"]
    found = [name for key in ("", *toolkits, stack.backend) for name in table.get(key, ())]
    return tuple(dict.fromkeys(found))


def tidy(value: str) -> str:
    """Return a value as it was likely meant: no full-width characters, no quotes, no blanks."""
    plain = unicodedata.normalize("NFKC", value.translate(_IDEOGRAPHIC)).translate(_QUOTES)
    return "".join(plain.split())


def _chosen(names: Collection[str] | None) -> list[Family]:
    known = variable_tables.families()
    for name in names or ():
        if name not in known:
            raise Refusal(
                f"there is no family of variables '{name}'{suggestion(name, known)}; known: {', '.join(known)}"
            )
    return [family for name, family in known.items() if names is None or name in names]


def _names_and_values(family: Family, environ: Mapping[str, str]) -> Iterator[Slip]:
    for name, value in environ.items():
        if name in family.variables:
            yield from _value(family.name, family.variables[name], value)
        elif name.startswith(family.prefixes) and not name.startswith(family.generated):
            yield from _misspelt(family, name, family.variables, environ, most=2)


def _value(family: str, variable: Variable, value: str) -> Iterator[Slip]:
    name, grammar, meant = variable.name, variable.grammar, tidy(value)
    if grammar.pattern.fullmatch(value) if grammar else not _odd(value):
        return
    if not grammar or grammar.pattern.fullmatch(meant):
        sentence = f"{name}='{value}' holds {_oddity(value)}; '{meant}' was likely meant"
        remedy = f"export {name}={meant}"
    else:
        sentence = f"{name}='{value}' is not {grammar.says}"
        remedy = f"unset {name}   # or, for example: export {name}={grammar.example}"
    yield Slip((name,), family, variable.level, sentence, remedy, variable.link)


def _odd(value: str) -> bool:
    """Whether a value that may be anything holds full-width punctuation or has quotes round it, as from a Docker env-file."""
    quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "\"'"
    return quoted or any(unicodedata.east_asian_width(char) == "F" for char in value)


def _oddity(value: str) -> str:
    wide = [char for char in value if unicodedata.east_asian_width(char) in "FW"]
    if wide:
        return f"the full-width character '{wide[0]}'"
    return "quotes" if value.translate(_QUOTES) != value else "blanks"


def _misspelt(family: Family, name: str, known: Iterable[str], environ: Mapping[str, str], most: int) -> Iterator[Slip]:
    near = nearest(name, known, most)
    if near is None:
        return
    also = f", which is also set, to '{environ[near]}'" if near in environ else ""
    sentence = f"{name} is not a variable known to {family.title}; {near} is{also}"
    remedy = f"unset {name}" if also else f"export {near}='{environ[name]}'; unset {name}"
    yield Slip((name,), family.name, Level.WARNING, sentence, remedy, family.link)


def _strangers(chosen: list[Family], environ: Mapping[str, str]) -> Iterator[Slip]:
    """Names whose very beginning is misspelt (NCLL_DEBUG): one slip from a name whose values are known."""
    prefixes = tuple(prefix for family in chosen for prefix in family.prefixes)
    known = {name for family in chosen for name in family.variables}
    for family in chosen:
        documented = [row.name for row in family.variables.values() if row.grammar]
        for name in environ:
            if name not in known and not name.startswith(prefixes):
                yield from _misspelt(family, name, documented, environ, most=1)


def _combined(chosen: Iterable[Family], environ: Mapping[str, str], families: Collection[str] | None) -> Iterator[Slip]:
    names = {family.name for family in chosen}
    for row in variable_tables.combinations():
        news = not row.not_with or (families is not None and not names & set(row.not_with))
        if news and names & set(row.families) and row.holds(environ):
            yield _slip(row, environ)


def _slip(row: Combination, environ: Mapping[str, str]) -> Slip:
    named = (*row.when, *row.all_set, *row.differ, *row.any_set)
    names = tuple(dict.fromkeys(name for name in named if name in environ))
    words = row.words(environ)
    return Slip(
        names, row.families[0], row.level, row.sentence.format_map(words), row.remedy.format_map(words), row.link
    )

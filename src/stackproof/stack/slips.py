"""Environment variables held against tables: unknown names, values out of their grammar, what the host lacks, combinations.

No list of names is complete for ever: a name that no list has is a warning only if a known one is near, and else it is told as unknown.
"""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from stackproof.base.errors import Refusal, nearest, suggestion
from stackproof.stack import on_host
from stackproof.stack.grammars import Grammar, odd, oddity, tidy
from stackproof.stack.on_host import Inventory
from stackproof.stack.variables import (
    Combination,
    Family,
    Former,
    Level,
    Variable,
    bounds,
    combinations,
    families,
    former,
)

_UNEXPANDED = re.compile(r"\$\{?[A-Za-z_]\w*\}?|\$\(|^~(?=/|$)")
_SECRET = re.compile(r"(TOKEN|SECRET|PASSWORD|PASSWD|KEY)S?$", re.IGNORECASE)
_ALIKE = 0.75
_SHORTEST_PART = 3
_LONG_TAIL = 8


@dataclass(frozen=True)
class Slip:
    """One thing that is wrong, or looks wrong: variables, how bad, one sentence, a command or setting, where it is documented."""

    variables: tuple[str, ...]
    family: str
    level: Level
    sentence: str
    remedy: str
    link: str
    misspelt: bool = False
    """Whether a name that is set does nothing, because it is a letter or two away from one that would."""

    def setting(self, environ: Mapping[str, str]) -> str:
        """Return what is set, as a shell would have it."""
        return " ".join(f"{name}={environ[name]}" for name in self.variables)


@dataclass(frozen=True)
class Known:
    """What is known of the variables that are set and belong to a library: how many are checked, and how many cannot be."""

    checked: tuple[str, ...]
    """Their values have a grammar."""
    free: tuple[str, ...]
    """Known names whose values nobody has written down."""
    unknown: tuple[str, ...]
    """Names that begin like a library's, and that no list has."""


def examine(
    environ: Mapping[str, str], families: Collection[str] | None = None, host: Inventory | None = None
) -> list[Slip]:
    """Return what is wrong, or looks wrong, with the variables; the worst first.

    `environ`: the variables as the ranks will get them. A preflight that starts ranks by torchrun adds torchrun's own
    (`TORCHELASTIC_RUN_ID`, `LOCAL_RANK` ...), so that combinations with a launcher are seen.
    `families`: such as `variables.relevant(stack)`. By default all, and then nothing is said of variables that another stack would read.
    `host`: what values are held against; by default nothing is said of interfaces, cards, files.

    Raises:
        Refusal: a table is broken, or no table has a family of that name.
    """
    chosen, host = _chosen(families), host or Inventory()
    found = [slip for family in chosen for slip in _secrets(family, environ)]
    environ = public(environ)
    found += [slip for family in chosen for slip in _names_and_values(family, environ, host)]
    found += _strangers(chosen, environ)
    nonsense = {name for family in chosen for name in _nonsense(family, environ)}
    at_odds = [*_combined(chosen, environ, families, host), *_ranges(chosen, environ)]
    found += [slip for slip in at_odds if not nonsense & set(slip.variables)]
    order = list(Level)
    unique = {(slip.variables, slip.sentence.partition(";")[0]): slip for slip in found}
    return sorted(unique.values(), key=lambda slip: -order.index(slip.level))


def known(environ: Mapping[str, str], families: Collection[str] | None = None) -> Known:
    """Say which of the variables that are set can be checked, so that silence about the others is no claim.

    Raises:
        Refusal: a table is broken, or no table has a family of that name.
    """
    chosen, environ = _chosen(families), public(environ)
    rows = {name: row for family in chosen for name, row in family.variables.items() if name in environ}
    checked = tuple(sorted(name for name, row in rows.items() if row.grammar))
    prefixes = tuple(prefix for family in chosen for prefix in family.prefixes)
    unknown = (name for name in environ if name.startswith(prefixes) and name not in rows and name not in former())
    return Known(checked, tuple(sorted(rows.keys() - set(checked))), tuple(sorted(unknown)))


def of_results(environ: Mapping[str, str]) -> list[Slip]:
    """Return what is set and changes what is computed, such as NVIDIA_TF32_OVERRIDE."""
    return [_slip(row, environ) for row in combinations() if row.results and row.holds(environ)]


def public(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables without those whose name says that the value is nobody's business (HF_TOKEN)."""
    return {name: value for name, value in environ.items() if not _SECRET.search(name)}


def told(reason: str, environ: Mapping[str, str]) -> str:
    """Return why something failed, with what is set and changes results: whoever reads it has to know before looking further."""
    changing = ", ".join(slip.setting(environ) for slip in of_results(environ))
    return f"{reason} (set, and changes results: {changing})" if changing else reason


def _chosen(names: Collection[str] | None) -> list[Family]:
    all_ = families()
    for name in names or ():
        if name not in all_:
            raise Refusal(f"there is no family of variables '{name}'{suggestion(name, all_)}; known: {', '.join(all_)}")
    return [family for name, family in all_.items() if names is None or name in names]


def _names_and_values(family: Family, environ: Mapping[str, str], host: Inventory) -> Iterator[Slip]:
    for name, value in environ.items():
        if name in family.variables:
            yield from _value(family, family.variables[name], value, environ, host)
        elif (row := former().get(name)) and family.name in row.families:
            yield _former(family, row, environ)
        elif name.startswith(family.prefixes) and not name.startswith(family.generated):
            yield from _unknown(family, name, environ)


_Look = tuple[Level, str, str]
"""How bad, a sentence, a remedy."""


def _value(family: Family, row: Variable, value: str, environ: Mapping[str, str], host: Inventory) -> Iterator[Slip]:
    """One slip at most: the first thing that has to be mended."""
    looks = (
        _unexpanded(row, value),
        _spoilt(family, row, value, environ, host),
        _absent(row, value, host),
        _above(row, value, environ),
    )
    for level, sentence, remedy in filter(None, looks):
        yield Slip((row.name,), family.name, level, sentence, remedy, row.link)
        return


def _nonsense(family: Family, environ: Mapping[str, str]) -> Iterator[str]:
    """Names whose value the library does not understand, so that nothing can be said of what it does."""
    for name, value in environ.items():
        row = family.variables.get(name)
        wrong = row and row.grammar and row.opened_by not in environ and row.grammar.wrong(value)
        if row and (wrong or _unexpanded(row, value) or _above(row, value, environ)):
            yield name


def _secrets(family: Family, environ: Mapping[str, str]) -> Iterator[Slip]:
    """Quotes and blanks in a value that may not be shown, and names of tokens that nobody reads."""
    for name, value in environ.items():
        if not (name.startswith(family.prefixes) and _SECRET.search(name)):
            continue
        if value and tidy(value) != value:
            sentence = f"{name} holds {oddity(value)}, which are no part of it (its value is not shown)"
            remedy = f"export {name}=...   # the same without {oddity(value)}; an env-file takes quotes as they stand"
            level = (
                Level.PROBLEM if "quotes" in oddity(value) else Level.WARNING
            )  # blanks at its ends are taken off by who reads it
            yield Slip((name,), family.name, level, sentence, remedy, family.link)
        if family.secrets and name not in family.secrets and not name.startswith(family.generated):
            sentence = f"{name} is not a variable known to {family.title}; {' or '.join(family.secrets)} is"
            remedy = f'export {family.secrets[0]}="${name}"; unset {name}'
            yield Slip((name,), family.name, Level.WARNING, sentence, remedy, family.link)


def _unexpanded(row: Variable, value: str) -> _Look | None:
    found = None if row.literal else _UNEXPANDED.search(value)
    if not found or found[0][0] in row.expands:
        return None
    remedy = f'export {row.name}="{value.replace("~", "$HOME", 1) if found[0] == "~" else value}"'
    sentence = f"{row.name}='{value}' holds {found[0]} as it was typed: nothing has put its value there"
    return row.level, sentence, f"{remedy}   # in a shell, with double quotes; an env-file knows no variables"


def _spoilt(family: Family, row: Variable, value: str, environ: Mapping[str, str], host: Inventory) -> _Look | None:
    name, grammar, plain = row.name, row.grammar, tidy(value)
    if row.opened_by in environ:
        return None
    said = grammar.wrong(value) if grammar else ""
    if not said and not odd(value):
        return None
    meant = grammar.meant(value, name) if grammar else plain
    if not grammar or (meant == plain and plain != value):
        sentence = f"{name}='{value}' holds {oddity(value)}; '{plain}' was likely meant"
        return row.level, sentence, f"export {name}={shlex.quote(plain)}"
    hint = f"; '{meant}' was likely meant" if meant else _belongs(family, row, value)
    sentence = f"{name}='{value}' {said}{hint}"
    if meant:
        return row.level, sentence, f"export {name}={shlex.quote(meant)}"
    example = shlex.quote(_on(_without(host, plain), grammar) or grammar.sound(value))
    return row.level, sentence, f"unset {name}   # or, for example: export {name}={example}"


def _without(host: Inventory, value: str) -> Inventory:
    """Return the host without the interfaces that a value leaves out: an example may not name them."""
    names = tuple(on_host.left("prefixes", value, host.interfaces or ())) if value.startswith("^") else ()
    return replace(host, interfaces=names) if names else host


def _on(host: Inventory, grammar: Grammar) -> str:
    """Return an example that this host has, where its own would name an interface or an adapter of another."""
    found = on_host.lack(grammar.host, grammar.example, host) if grammar.host else None
    return found.instead if found else ""


def _belongs(family: Family, row: Variable, value: str) -> str:
    """Say whose value it is, if it is a word of one other variable of the family."""
    owners = [
        other.name
        for other in family.variables.values()
        if other.grammar and other is not row and value.upper() in map(str.upper, other.grammar.words)
    ]
    return f"; it is one of {owners[0]}" if len(owners) == 1 and not value.isdecimal() else ""


def _absent(row: Variable, value: str, host: Inventory) -> _Look | None:
    found = on_host.lack(row.grammar.host, value, host) if row.grammar and row.grammar.host else None
    if not found:
        return None
    comment = f"   # {found.comment}" if found.comment else ""
    remedy = f"export {row.name}={shlex.quote(found.instead)}{comment}" if found.instead else f"unset {row.name}"
    level = Level.WARNING if found.mild and row.level is Level.PROBLEM else row.level
    return level, f"{row.name}='{value}' {found.clause}", remedy


def _above(row: Variable, value: str, environ: Mapping[str, str]) -> _Look | None:
    bound = environ.get(row.below, "")
    if not (bound.isdecimal() and value.isdecimal() and int(value) >= int(bound)):
        return None
    sentence = f"{row.name}={value} is not below {row.below}={bound}: ranks are counted from 0"
    return row.level, sentence, f"unset {row.name} {row.below}   # and let the launcher set both"


def _former(family: Family, row: Former, environ: Mapping[str, str]) -> Slip:
    value = environ[row.name]
    why = row.why or f"{row.name} is not read any more; {row.instead} is"
    remedy = row.remedy or f"export {row.instead}={shlex.quote(value)}; unset {row.name}"
    return Slip((row.name,), family.name, row.level, f"{row.name}='{value}': {why}", remedy, row.link or family.link)


def _unknown(family: Family, name: str, environ: Mapping[str, str]) -> Iterator[Slip]:
    """A name that begins like the family's: a slip of letters, a part of a name, a neighbour, or one that nobody knows."""
    others = (
        row
        for other in families().values()
        for row in other.variables
        if row.partition("_")[0] != name.partition("_")[0]
    )
    value = environ[name]
    if near := nearest(name, family.variables, 2) or nearest(name, others, 2):
        yield _misspelt(family, name, near, environ, True)
    elif near := _partly(name, value, family) or _elsewhere(name, value) or _alike(name, value, family):
        yield _misspelt(family, name, near, environ, False)
    elif family.complete:
        sentence = f"{name} is not a variable known to {family.title}, and nothing may read it"
        yield Slip((name,), family.name, Level.NOTE, sentence, f"compare its spelling with {family.link}", family.link)


def _misspelt(family: Family, name: str, near: str, environ: Mapping[str, str], surely: bool) -> Slip:
    also = f", which is also set, to '{environ[near]}'" if near in environ else ""
    said = f"{near} is" if surely else f"the nearest is {near}"
    sentence = f"{name} is not a variable known to {family.title}; {said}{also}"
    remedy = f"unset {name}" if also else f"export {near}='{environ[name]}'; unset {name}"
    mine = name.upper()
    likely = _within(mine.split("_"), near.split("_")) or mine.partition("_")[2] == near.partition("_")[2]
    level = Level.WARNING if surely or likely or family.complete else Level.NOTE
    return Slip((name,), family.name, level, sentence, remedy, family.link, surely)


def _partly(name: str, value: str, family: Family) -> str | None:
    """Return the known name of which this one has all words, or which has all of its, some shortened."""
    mine = name.upper().split("_")
    found = [
        other for other in _taking(family, value) if _within(mine, other.split("_")) or _within(other.split("_"), mine)
    ]

    def rank(other: str) -> tuple[bool, int, bool]:
        return other.split("_")[-1] != mine[-1], abs(len(other) - len(name)), family.variables[other].grammar is None

    return min(found, key=rank, default=None)


def _elsewhere(name: str, value: str) -> str | None:
    """Return the name of another library that differs in its first word alone, if there is one only."""
    tail = name.upper().partition("_")[2]
    every = {row for other in families().values() for row in _taking(other, value) if row.partition("_")[2] == tail}
    return every.pop() if len(tail) >= _LONG_TAIL and len(every) == 1 else None


def _alike(name: str, value: str, family: Family) -> str | None:
    """Return the name that looks most like it, where all names of the family are known."""
    alike = difflib.get_close_matches(name.upper(), _taking(family, value), n=1, cutoff=_ALIKE)
    return alike[0] if alike and family.complete and _same_numbers(alike[0], name) else None


def _taking(family: Family, value: str) -> list[str]:
    """Return the names whose grammar the value obeys: what is meant takes what was given."""
    return [name for name, row in family.variables.items() if not row.grammar or not row.grammar.wrong(value)]


def _within(few: list[str], many: list[str]) -> bool:
    """Whether all of a name's words stand in the other, in order, as they are or shortened; one word of a prefix is too few."""
    rest = iter(many)
    return (
        1 < len(few) <= len(many) and few[0] == many[0] and all(any(_same(word, one) for one in rest) for word in few)
    )


def _same(word: str, other: str) -> bool:
    short, long = sorted((word, other), key=len)
    return word == other or (len(short) >= _SHORTEST_PART and long.startswith(short))


def _same_numbers(one: str, other: str) -> bool:
    return re.findall(r"\d+", one) == re.findall(r"\d+", other)


def _strangers(chosen: list[Family], environ: Mapping[str, str]) -> Iterator[Slip]:
    """Names whose very beginning is misspelt (NCLL_DEBUG): one slip from a name whose values are known."""
    prefixes = tuple(prefix for family in chosen for prefix in family.prefixes)
    everything = {name for family in families().values() for name in family.variables}
    for family in chosen:
        documented = [row.name for row in family.variables.values() if row.grammar]
        for name in environ:
            if name in everything or name in former() or name.startswith(prefixes):
                continue
            if near := nearest(name, documented, 1) or _in_capitals(name, documented):
                yield _misspelt(family, name, near, environ, True)


def _in_capitals(name: str, documented: Iterable[str]) -> str | None:
    return next((known_ for known_ in documented if known_ == name.upper()), None)


def _ranges(chosen: Iterable[Family], environ: Mapping[str, str]) -> Iterator[Slip]:
    """The lower end of a range above its upper end; an upper end of 0 is taken for none."""
    for family in chosen:
        for name in environ.keys() & family.variables.keys():
            for high in filter(environ.__contains__, _other_ends(name, family)):
                least, most = environ[name], environ[high]
                if least.isdecimal() and most.isdecimal() and int(least) > int(most) > 0:
                    sentence = f"{name}={least} is above {high}={most}: no number is in that range"
                    remedy = f"export {name}={most} {high}={least}   # or unset one of them"
                    yield Slip((name, high), family.name, Level.WARNING, sentence, remedy, family.variables[name].link)


def _other_ends(name: str, family: Family) -> Iterator[str]:
    parts = name.split("_")
    for row in bounds():
        for place, part in enumerate(parts):
            other = "_".join([*parts[:place], row.high, *parts[place + 1 :]])
            if part == row.low and other in family.variables:
                yield other


def _combined(
    chosen: Iterable[Family], environ: Mapping[str, str], asked: Collection[str] | None, host: Inventory
) -> Iterator[Slip]:
    names = {family.name for family in chosen}
    for row in combinations():
        news = not row.not_with or (asked is not None and not names & set(row.not_with))
        if news and names & set(row.families) and row.holds(environ):
            mild = row.hides and not host.cards.get(row.hides)
            yield replace(_slip(row, environ), level=Level.NOTE) if mild else _slip(row, environ)


def _slip(row: Combination, environ: Mapping[str, str]) -> Slip:
    named = (*row.when, *row.all_set, *row.differ, *row.product, *row.any_set)
    names = tuple(dict.fromkeys(name for name in named if name in environ))
    words = row.words(environ)
    return Slip(
        names, row.families[0], row.level, row.sentence.format_map(words), row.remedy.format_map(words), row.link
    )

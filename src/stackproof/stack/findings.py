"""Findings about environment variables: unknown names, values that cannot be, what the host lacks, settings that clash.

No list of names is complete for ever: a name that no list has is a warning only if a known one is near, and a note otherwise.
What is not known of a host (None, or no card at all) is not judged, so that a sandbox and a login node make no alarm.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from stackproof.base.errors import nearest, suggestion
from stackproof.stack.stacks import TOOLKITS
from stackproof.stack.variables import Combination, Family, Former, Level, Variable, combinations, families, former, odd

_UNEXPANDED = re.compile(r"\$\{?[A-Za-z_]\w*\}?|\$\(|^~(?=/|$)")
_SECRET = re.compile(r"(TOKEN|SECRET|PASSWORD|PASSWD|KEY)S?$", re.IGNORECASE)
_ODD = "quotes or blanks round it, or full-width characters, which are no part of it"


@dataclass(frozen=True, kw_only=True)
class Inventory:
    """What there is for values to name."""

    interfaces: tuple[str, ...] | None = None
    adapters: Mapping[str, tuple[str, ...]] | None = None
    """RDMA adapters, each with its ports."""
    cards: Mapping[str, int] = field(default_factory=dict)
    """By toolkit, how many a process may choose from."""
    cores: int | None = None
    is_file: Callable[[str], bool | None] = lambda _: None
    is_folder: Callable[[str], bool | None] = lambda _: None


def passed_by(grammar: str, value: str, names: Iterable[str]) -> list[str]:
    """Return the names that a filter lets pass.

    `prefixes` is NCCL's: beginnings, after ^ those to leave out, after = whole names. `names` is a plain list.
    https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html
    """
    if grammar == "names":
        return [name for name in names if name in listed(value)]
    excludes, rest = value.startswith("^"), value.removeprefix("^")
    exact, beginnings = rest.startswith("="), tuple(listed(rest.removeprefix("=")))
    return [name for name in names if (name in beginnings if exact else name.startswith(beginnings)) != excludes]


def listed(value: str) -> list[str]:
    """Return the parts of a list without blanks."""
    return [word.strip() for word in value.split(",") if word.strip()]


def _by_prefix(value: str, host: Inventory) -> str:
    names = host.interfaces or ()
    if names and not passed_by("prefixes", value, names):
        return f"matches no interface of this host, which has {', '.join(names)}"
    # A whole name ends in a number; a beginning such as `ib` may be for other hosts.
    asked = [] if value.startswith("^") else listed(value.removeprefix("="))
    lost = [word for word in asked if word[-1].isdecimal() and not any(name.startswith(word) for name in names)]
    return _lost(lost, names)


def _by_name(value: str, host: Inventory) -> str:
    names = host.interfaces or ()
    return _lost([word for word in listed(value) if word not in names], names)


def _lost(lost: list[str], names: tuple[str, ...]) -> str:
    return f"names {', '.join(lost)}, and this host has {', '.join(names)}" if lost and names else ""


def _adapters(value: str, host: Inventory) -> str:
    """NCCL's list: beginnings of names or, after =, whole names, each with a port if wanted; ^ leaves out."""
    if host.adapters is None:
        return ""
    if not host.adapters:
        return "names an adapter, and this host has none in /sys/class/infiniband"
    exact = value.removeprefix("^").startswith("=")
    shown = ", ".join(f"{name} (port {', '.join(ports)})" for name, ports in host.adapters.items())
    for word in () if value.startswith("^") else listed(value.removeprefix("=")):
        name, _, port = word.partition(":")
        alike = [text for text in host.adapters if (text == name if exact else text.startswith(name))]
        if not alike or (port and not any(port in host.adapters[text] for text in alike)):
            return f"names {word}, and this host has {shown}"
    return ""


def _cards(toolkit: str) -> Callable[[str, Inventory], str]:
    def judge(value: str, host: Inventory) -> str:
        count = host.cards.get(toolkit, 0)
        lost = [number for number in re.findall(r"(?:^|,)\s*(\d+)", value) if int(number) >= count]
        there = "card 0 only" if count == 1 else f"cards 0 to {count - 1}"
        return f"names card {lost[0]}, and this host has {there}" if count and lost else ""

    return judge


def _threads(value: str, host: Inventory) -> str:
    most = max((int(number) for number in re.findall(r"\d+", value)), default=0)
    return f"is more threads than this host's {host.cores} CPUs" if host.cores and most > host.cores else ""


_THREADS = "count of cores"
KINDS: Mapping[str, Callable[[str, Inventory], str]] = {
    "interfaces by prefix": _by_prefix,
    "interfaces": _by_name,
    "adapters": _adapters,
    **{toolkit: _cards(toolkit) for toolkit in TOOLKITS},
    _THREADS: _threads,
    "file": lambda path, host: "names a file that is not here" if host.is_file(path) is False else "",
    "folder": lambda path, host: "names a folder that is not here" if host.is_folder(path) is False else "",
}
"""What each kind of value names: a clause to stand after "NAME='value' " where the host lacks it, else nothing."""


@dataclass(frozen=True)
class EnvFinding:
    """A finding about environment variables: names, level, message, remedy, link."""

    variables: tuple[str, ...]
    family: str
    level: Level
    sentence: str
    remedy: str
    link: str
    misspelt: bool = False
    """Whether a name that is set does nothing, because it is a letter or two away from one that would."""

    @property
    def refusal(self) -> str:
        """The sentence and what to type, without what else would do."""
        return f"{self.sentence}: {self.remedy.partition('   #')[0]}"

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
) -> list[EnvFinding]:
    """Return what is wrong, or looks wrong, with the variables; the worst first.

    `environ`: the variables as the ranks will get them. A preflight that starts ranks by torchrun adds torchrun's own
    (`TORCHELASTIC_RUN_ID`, `LOCAL_RANK` ...), so that combinations with a launcher are seen.
    `families`: such as `variables.relevant(stack)`. By default all, and then nothing is said of variables that another stack would read.
    `host`: what values are held against; by default nothing is said of interfaces, cards, files.

    Raises:
        Refusal: a table is broken.
    """
    chosen, host = _chosen(families), host or Inventory()
    findings = [env_finding for family in chosen for env_finding in _secrets(family, environ)]
    environ = public(environ)
    findings += [env_finding for family in chosen for env_finding in _names_and_values(family, environ, host)]
    findings += _misspelt_prefixes(chosen, environ)
    wrong = {name for env_finding in findings for name in env_finding.variables}  # one thing at a time
    at_odds = _combined(chosen, environ, families, host)
    findings += [env_finding for env_finding in at_odds if not wrong & set(env_finding.variables)]
    order = list(Level)
    unique = {(finding.variables, finding.sentence.partition(";")[0]): finding for finding in findings}
    return sorted(unique.values(), key=lambda env_finding: -order.index(env_finding.level))


def known(environ: Mapping[str, str], families: Collection[str] | None = None) -> Known:
    """Say which of the variables that are set can be checked, so that silence about the others is no claim."""
    chosen, environ = _chosen(families), public(environ)
    rows = {name: row for family in chosen for name, row in family.variables.items() if name in environ}
    checked = tuple(sorted(name for name, row in rows.items() if row.grammar))
    prefixes = tuple(prefix for family in chosen for prefix in family.prefixes)
    unknown = (name for name in environ if name.startswith(prefixes) and name not in rows and name not in former())
    free = (
        name for name in rows if name not in checked and not name.startswith("STACKPROOF_")
    )  # ours, to our own processes
    return Known(checked, tuple(sorted(free)), tuple(sorted(unknown)))


def of_results(environ: Mapping[str, str]) -> list[EnvFinding]:
    """Return what is set and changes what is computed, such as NVIDIA_TF32_OVERRIDE."""
    return [_clash(row, environ) for row in combinations() if row.results and row.holds(environ)]


def public(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables without those whose name says that the value is nobody's business (HF_TOKEN)."""
    return {name: value for name, value in environ.items() if not _SECRET.search(name)}


def with_settings(reason: str, environ: Mapping[str, str]) -> str:
    """Return why something failed, with the variables that are set and change results."""
    changing = ", ".join(env_finding.setting(environ) for env_finding in of_results(environ))
    return f"{reason} (set, and changes results: {changing})" if changing else reason


def _chosen(names: Collection[str] | None) -> list[Family]:
    return [family for name, family in families().items() if names is None or name in names]


def _names_and_values(family: Family, environ: Mapping[str, str], host: Inventory) -> Iterator[EnvFinding]:
    for name, value in environ.items():
        if name in family.variables:
            yield from _value(family, family.variables[name], value, environ, host)
        elif (row := former().get(name)) and family.name in row.families:
            yield _former(family, row, environ)
        elif name.startswith(family.prefixes) and not name.startswith(family.generated):
            yield from _unknown(family, name, environ)


_Look = tuple[Level, str, str]
"""How bad, a sentence, a remedy."""


def _value(
    family: Family, row: Variable, value: str, environ: Mapping[str, str], host: Inventory
) -> Iterator[EnvFinding]:
    """One finding at most: the first thing that has to be mended."""
    complaints = (
        _unexpanded(row, value),
        _malformed(row, value, environ),
        _not_here(row, value, host),
        _above(row, value, environ),
    )
    for level, sentence, remedy in filter(None, complaints):
        yield EnvFinding((row.name,), family.name, level, sentence, remedy, row.link)
        return


def _secrets(family: Family, environ: Mapping[str, str]) -> Iterator[EnvFinding]:
    """Quotes and blanks in a value that may not be shown, and names of tokens that nobody reads."""
    for name, value in environ.items():
        if not (name.startswith(family.prefixes) and _SECRET.search(name)):
            continue
        if odd(value):
            sentence = f"{name} has {_ODD} (its value is not shown)"
            remedy = f"export {name}=...   # the same without them; an env-file takes quotes as they stand"
            yield EnvFinding((name,), family.name, Level.PROBLEM, sentence, remedy, family.link)
        if family.secrets and name not in family.secrets and not name.startswith(family.generated):
            sentence = f"{name} is not a variable known to {family.title}; {' or '.join(family.secrets)} is"
            remedy = f'export {family.secrets[0]}="${name}"; unset {name}'
            yield EnvFinding((name,), family.name, Level.WARNING, sentence, remedy, family.link)


def _unexpanded(row: Variable, value: str) -> _Look | None:
    match = _UNEXPANDED.search(value)
    if not match or match[0][0] in row.expands:
        return None
    remedy = f'export {row.name}="{value.replace("~", "$HOME", 1) if match[0] == "~" else value}"'
    sentence = f"{row.name}='{value}' holds {match[0]} as it was typed: nothing has put its value there"
    return row.level, sentence, f"{remedy}   # in a shell, with double quotes; an env-file knows no variables"


def _malformed(row: Variable, value: str, environ: Mapping[str, str]) -> _Look | None:
    if row.opened_by in environ:
        return None
    text = f"has {_ODD}" if odd(value) else row.grammar.wrong(value) if row.grammar else ""
    example = f"   # or, for example: export {row.name}={shlex.quote(row.grammar.example)}" if row.grammar else ""
    return (row.level, f"{row.name}='{value}' {text}", f"unset {row.name}{example}") if text else None


def _not_here(row: Variable, value: str, host: Inventory) -> _Look | None:
    kind = row.grammar.host if row.grammar else ""
    clause = KINDS[kind](value, host) if kind else ""
    level = Level.WARNING if kind == _THREADS else row.level  # slow at worst
    return (level, f"{row.name}='{value}' {clause}", f"unset {row.name}") if clause else None


def _above(row: Variable, value: str, environ: Mapping[str, str]) -> _Look | None:
    bound, numbers = environ.get(row.below, ""), re.findall(r"\d+", value)
    if not (bound.isdecimal() and any(int(number) >= int(bound) for number in numbers)):
        return None
    sentence = f"{row.name}={value} is not below {row.below}={bound}: they are counted from 0"
    return row.level, sentence, f"unset {row.name} {row.below}   # and let the launcher set both"


def _former(family: Family, row: Former, environ: Mapping[str, str]) -> EnvFinding:
    value = environ[row.name]
    why = row.why or f"{row.name} is not read any more; {row.instead} is"
    remedy = row.remedy or f"export {row.instead}={shlex.quote(value)}; unset {row.name}"
    return EnvFinding(
        (row.name,), family.name, row.level, f"{row.name}='{value}': {why}", remedy, row.link or family.link
    )


def _unknown(family: Family, name: str, environ: Mapping[str, str]) -> Iterator[EnvFinding]:
    """A name that begins like the family's: a slip of letters, or one that nobody knows."""
    others = (
        row
        for other in families().values()
        for row in other.variables
        if row.partition("_")[0] != name.partition("_")[0]
    )
    if near := nearest(name, family.variables, 2) or nearest(name, others, 2):
        yield _misspelt(family, name, near, environ)
    elif family.complete:
        known = f"{family.title}{suggestion(name, family.variables)}"
        sentence = f"{name} is not a variable known to {known}, and nothing may read it"
        yield EnvFinding(
            (name,), family.name, Level.NOTE, sentence, f"compare its spelling with {family.link}", family.link
        )


def _misspelt(family: Family, name: str, near: str, environ: Mapping[str, str]) -> EnvFinding:
    also = f", which is also set, to '{environ[near]}'" if near in environ else ""
    sentence = f"{name} is not a variable known to {family.title}; {near} is{also}"
    remedy = f"unset {name}" if also else f"export {near}='{environ[name]}'; unset {name}"
    return EnvFinding((name,), family.name, Level.WARNING, sentence, remedy, family.link, misspelt=True)


def _misspelt_prefixes(chosen: list[Family], environ: Mapping[str, str]) -> Iterator[EnvFinding]:
    """Names whose very beginning is misspelt (NCLL_DEBUG): one slip from a name whose values are known."""
    prefixes = tuple(prefix for family in chosen for prefix in family.prefixes)
    everything = {name for family in families().values() for name in family.variables}
    for family in chosen:
        documented = [row.name for row in family.variables.values() if row.grammar]
        for name in environ:
            if name in everything or name in former() or name.startswith(prefixes):
                continue
            if near := nearest(name, documented, 1) or (name.upper() in documented and name.upper()):
                yield _misspelt(family, name, near, environ)


def _combined(
    chosen: Iterable[Family], environ: Mapping[str, str], asked: Collection[str] | None, host: Inventory
) -> Iterator[EnvFinding]:
    names = {family.name for family in chosen}
    for row in combinations():
        news = not row.not_with or (asked is not None and not names & set(row.not_with))
        if news and names & set(row.families) and row.holds(environ):
            mild = row.hides and not host.cards.get(row.hides)
            yield replace(_clash(row, environ), level=Level.NOTE) if mild else _clash(row, environ)


def _clash(row: Combination, environ: Mapping[str, str]) -> EnvFinding:
    named = (*row.when, *row.all_set, *row.differ, *row.any_set)
    names = tuple(dict.fromkeys(name for name in named if name in environ))
    words = row.words(environ)
    return EnvFinding(
        names, row.families[0], row.level, row.sentence.format_map(words), row.remedy.format_map(words), row.link
    )

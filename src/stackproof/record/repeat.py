"""The command that repeats a check, as it is typed where the run was started."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence

from stackproof.base import places
from stackproof.base.text import plain
from stackproof.record.records import SUITE_VERBS, Check, Record
from stackproof.record.writer import TYPED

_SESSIONS = (*SUITE_VERBS, "gate", "sweep", "bisect", "night")
"""Verbs that have a session of each stack (tools/sessions.toml)."""
_BEGUN_WITH = ("--stack", "--project")


def again(record: Record, check: Check) -> str:
    """Return the command that repeats one check; it is never broken into lines, so that it can be copied."""
    begin = _begin(record)
    if "::" not in check.id or check.id.startswith(("guard: ", "known issue ")):  # of the whole run, not of one check
        suites = [word for suite in str(record.provenance.get("suites", "")).split() for word in ("--suite", suite)]
        whole = suites if record.verb not in ("smoke", "rehearse") else []
        return shlex.join([*begin, *whole, *_flags(record, "")])
    suite = check.id.split("/", 1)[0]
    chosen = [] if record.verb == "smoke" or (record.verb == "rehearse" and suite == "smoke") else ["--suite", suite]
    words = [*begin, *chosen, *_flags(record, suite), "--only", check.id]
    return shlex.join(_plain(words))


def whole(record: Record) -> str:
    """Return the command that makes such a record again, with the flags that it was made with; empty where they are not known."""
    try:
        words = shlex.split(str(record.provenance.get(TYPED, "")))
    except ValueError:
        return ""
    if record.verb not in words:
        return ""
    rest = words[: words.index(record.verb)] + words[words.index(record.verb) + 1 :]
    if record.verb not in _SESSIONS:
        begin = ["stackproof" if places.INSTALLED else "python -m stackproof", record.verb]
        return " ".join([*begin, shlex.join(_plain(rest))]).strip()
    begin, flags = _begin(record), [*_without_stack(rest)]
    return shlex.join(_plain([*begin, *flags] if flags or begin[-1] != "--" else begin[:-1]))


def _without_stack(words: Sequence[str]) -> Iterator[str]:
    """Yield the words but those that name the stack and the project: the command begins with them."""
    value = False
    for word in words:
        name, joined, _ = word.partition("=")
        if value:
            value = False
        elif name in _BEGUN_WITH:
            value = not joined
        else:
            yield word


def _plain(words: Iterable[str]) -> list[str]:
    return [plain(word, lines=False) for word in words]


def _begin(record: Record) -> list[str]:
    """Return what starts the verb again: our sessions in a checkout, else the command that has no noxfile beside it."""
    if not record.provenance.get("pinned", True):
        return ["python", "-m", "stackproof", record.verb, "--stack", record.stack]
    if places.INSTALLED:
        return ["stackproof", record.verb, "--stack", record.stack, "--locked"]
    project = record.provenance.get("project.folder", "")
    return ["nox", "-s", f"{record.stack}-{record.verb}", "--", *(["--project", str(project)] if project else [])]


def _flags(record: Record, suite: str) -> list[str]:
    """Return the flags of the run that change what a check of the suite does."""
    facts = record.provenance
    usual: dict[str, object] = {"device": "the first", "preset": "tiny", "deadline_scale": 1.0, "profile": "fast"}
    usual |= {"dataset": "none"} if suite == "data" else {}
    given = {name: facts[name] for name, value in usual.items() if facts.get(name, value) != value}
    flags = [word for name, value in given.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    return flags if facts.get("preflight", True) else [*flags, "--no-preflight"]

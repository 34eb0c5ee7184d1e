"""The command that repeats a check, as it is typed where the run was started."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from stackproof.base import advice, git, places
from stackproof.base.text import plain
from stackproof.record.records import SUITE_VERBS, TYPED, Check, Record, Verdict

_SESSIONS = (*SUITE_VERBS, "gate", "sweep", "bisect", "night")
"""Verbs that have a session of each stack (tools/sessions.toml)."""
_OWN_SUITE = ("explore", "upstream")
"""Verbs that run one suite, of checks that their flags name."""
_TOOLS = ("drill", "triage")
"""Verbs that have one session for all."""
_WRAPPERS = ("watch",)
"""Verbs behind which, after `--`, stands somebody else's command; it is a fact of its own."""
_BEGUN_WITH = ("--stack", "--project")
"""Flags with which a command begins."""
_OF_HOST = re.compile(r"LD_|NVIDIA_(?!TF32)|.*(VERSION|HOME|PATH|LIST|ROOT|DIR)$")
"""Variables of a host or an image, which are there wherever the command is typed."""
_LONGEST = 80


def command_of_check(record: Record, check: Check) -> str:
    """Return the command that repeats one check; it is never broken into lines, so that it can be copied."""
    if "::" not in check.id or check.id.startswith(("guard: ", "known issue ")):  # of the whole run, not of one check
        suites = [word for suite in str(record.provenance.get("suites", "")).split() for word in ("--suite", suite)]
        whole = suites if record.verb not in ("smoke", "rehearse", *_OWN_SUITE) else []
        return command_with(record, [*whole, *_flags(record, "")])
    suite = check.id.split("/", 1)[0]
    chosen = (
        []
        if record.verb in ("smoke", *_OWN_SUITE) or (record.verb == "rehearse" and suite == "smoke")
        else ["--suite", suite]
    )
    return command_with(record, [*chosen, *_flags(record, suite), "--only", check.id])


def command_of_record(record: Record) -> str:
    """Return the command that makes such a record again, with the flags that it was made with; empty where they are not known."""
    try:
        words = shlex.split(str(record.provenance.get(TYPED, "")))
        theirs = shlex.split(str(record.provenance.get("command", ""))) if record.verb in _WRAPPERS else []
    except ValueError:
        return ""
    if record.verb not in words:
        return ""
    rest = words[: words.index(record.verb)] + words[words.index(record.verb) + 1 :]
    if record.verb not in _SESSIONS:
        return _joined(record, [*_called(record), *_plain([*rest, *(["--", *theirs] if theirs else [])])])
    return command_with(record, [*advice.without(rest, _BEGUN_WITH)])


def command_of(record: Record, check: Check | None = None) -> str:
    """Return the command that repeats a record, or one check of it where it ran suites; empty where that is not known."""
    if check and record.runs_suites:
        return command_of_check(record, check)
    typed = command_of_record(record)
    if typed or not record.runs_suites:
        return typed
    return command_of_check(record, Check("run", record.verdict, "", 0.0))


def command_with(record: Record, flags: Sequence[str]) -> str:
    """Return the command that starts the record's verb for its stack, with these flags."""
    return _joined(record, [*_begin(record), *_plain(flags)])


def _joined(record: Record, words: list[str]) -> str:
    return " ".join([*_variables(record), shlex.join(words[:-1] if words[-1] == "--" else words)])


def _variables(record: Record) -> Iterator[str]:
    for fact, value in record.provenance.items():
        name = fact.removeprefix("env.")
        if name != fact and " " not in name and not _OF_HOST.match(name) and len(str(value)) <= _LONGEST:
            yield f"{name}={shlex.quote(plain(str(value), lines=False))}"


def _called(record: Record) -> list[str]:
    if not _had_sessions(record):
        return ["stackproof", record.verb]
    return ["nox", "-s", record.verb, "--"] if record.verb in _TOOLS else ["python", "-m", "stackproof", record.verb]


def _plain(words: Iterable[str]) -> list[str]:
    return [plain(word, lines=False) for word in words]


def _begin(record: Record) -> list[str]:
    """Return what starts the verb again: our sessions in a checkout, else the command that has no noxfile beside it."""
    facts = record.provenance
    project = str(facts.get("project.folder") or facts.get("head.project.folder", ""))
    named = ["--project", project] if project and not Path.cwd().is_relative_to(project) else []
    unproved = record.verdict is Verdict.UNAVAILABLE  # in the environment of a lock nobody would have come so far
    if not record.provenance.get("pinned", not unproved):
        return ["python", "-m", "stackproof", record.verb, "--stack", record.stack, *named]
    if not _had_sessions(record):
        return [*advice.words(record.stack, record.verb, session=False), *named]
    return [*advice.words(record.stack, record.verb, session=True), "--", *named]


def _had_sessions(record: Record) -> bool:
    """Whether it was made in a checkout; who reads it elsewhere than in ours, which is installed so that it can be edited, has none."""
    commit = str(record.provenance.get("commit", ""))
    made = not git.is_package(commit) if commit else not places.INSTALLED
    return made and (places.INSTALLED or advice.sessions())


def _flags(record: Record, suite: str) -> list[str]:
    """Return the flags of the run that change what a check of the suite does."""
    facts = record.provenance
    usual: dict[str, object] = {"device": "the first", "preset": "tiny", "deadline_scale": 1.0, "profile": "fast"}
    usual |= {"dataset": "none"} if suite == "data" else {}
    usual |= dict.fromkeys(("minutes", "seed", "case", "source", "files"), "") if record.verb in _OWN_SUITE else {}
    figures = {name: facts[name] for name, value in usual.items() if facts.get(name, value) != value}
    flags = [word for name, value in figures.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    return flags if facts.get("preflight", True) else [*flags, "--no-preflight"]

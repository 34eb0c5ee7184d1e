"""The command that repeats a check, as it is typed where the run was started."""

from __future__ import annotations

import shlex

from stackproof.base import places
from stackproof.base.text import plain
from stackproof.record.records import Check, Record


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
    return shlex.join([plain(word, lines=False) for word in words])


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

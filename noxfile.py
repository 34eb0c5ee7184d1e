"""Each session builds an environment and runs in it: `nox -s smoke [-- STACK FLAGS]`. More: `nox -l -- STACK`, extras, dev, long, all."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import nox

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT / "src"))

from stackproof.base import files, processes  # noqa: E402
from stackproof.base.errors import Refusal  # noqa: E402
from stackproof.commands import plugins  # noqa: E402
from stackproof.stack import environments, hosts, stacks  # noqa: E402

nox.needs_version = ">=2025.2.9"

# Containers often forbid bytecode; without it half of a check's time is compiling torch.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# A host without uv gets ours, so that nox need not say at every session that it found none.
logging.getLogger("nox").addFilter(lambda record: record.getMessage() != "uv binary not found.")

# SIGTERM would end nox alone; as Ctrl-C, nox ends the verb first, which ends its ranks and writes its record.
signal.signal(signal.SIGTERM, signal.default_int_handler)
_PATIENCE: dict[str, Any] = {"interrupt_timeout": 0.5, "terminate_timeout": 15.0}
_PATH = os.pathsep.join(filter(None, (str(ROOT / "src"), os.environ.get("PYTHONPATH"))))
Row = dict[str, Any]
_LISTED = set(sys.argv[1:]) if {"-l", "--list", "--list-sessions"} & set(sys.argv) else {"all"}


def _session(name: str, *tags: str, **options: Any) -> Callable[[Callable[[nox.Session], None]], None]:
    """Register a session whose refusals are one sentence; with tags it is listed only where one, or its name, is asked for."""

    def register(action: Callable[[nox.Session], None]) -> None:
        def session_of_name(session: nox.Session) -> None:
            try:
                action(session)
            except (Refusal, OSError) as error:
                refusal = files.disk_refusal(error) if isinstance(error, OSError) else error
                if refusal is None:
                    raise
                session.error(f"{refusal} (exit code {refusal.exit_code})")

        session_of_name.__doc__ = action.__doc__
        if not tags or {"all", name, *tags} & _LISTED:
            nox.session(name=name, default=name == "smoke", tags=list(tags), **options)(session_of_name)

    return register


def _call(session: nox.Session, python: str, *words: str, answers: Sequence[int] = (), **env: str) -> None:
    """Run a module, and let it end in its own time; `answers` are exit codes that say what was found, and fail no session."""
    options = {**_PATIENCE, "success_codes": [0, *answers]}
    env = {"PYTHONPATH": _PATH, processes.ANSWERS: " ".join(map(str, answers)), **env}
    session.run(python, "-m", *words, external=True, env=env, **options)


def _install(session: nox.Session, *groups: str) -> None:
    """Install groups of pyproject.toml: what a tool of ours needs besides the stacks."""
    pyproject = nox.project.load_toml(ROOT / "pyproject.toml")
    pyproject["dependency-groups"]["product"] = pyproject["project"]["dependencies"]
    pyproject["dependency-groups"] |= pyproject["project"]["optional-dependencies"]
    session.install(*nox.project.dependency_groups(pyproject, *groups))


def _in_stack(session: nox.Session, row: Row, stack: stacks.Stack, words: Sequence[str]) -> None:
    """Call the verb, which builds the stack's environment from its lock and goes on in it."""
    _call(session, sys.executable, "stackproof", row["name"], "--stack", stack.name, "--locked", *words)


def _in_judges(session: nox.Session, row: Row, stack: stacks.Stack, words: Sequence[str]) -> None:
    """Call what compares variants, where the statistics are; each side has its stack's environment."""
    hosts.require(stacks.load(stack.name, rehearsed="--rehearsed" in words))
    python = str(environments.prepare_judges(session.log))
    _call(session, python, "stackproof", row["name"], "--stack", stack.name, *words, answers=row.get("answers", ()))


def _in_judges_by_steps(session: nox.Session, row: Row, stack: stacks.Stack, words: Sequence[str]) -> None:
    """Call a step of a verb where the statistics are, on a host without cards too; some go on in the stack's environment."""
    python = environments.prepare_judges(session.log)
    locked = ["--locked"] if words and words[0] in row["locked"] else []  # a scheduler's step: it wants the exit code
    step = [*words[:1], "--stack", stack.name, *locked, *words[1:]] if words else []
    _call(session, str(python), "stackproof", row["name"], *step, answers=() if locked else row.get("answers", ()))


def _in_asv(session: nox.Session, row: Row, stack: stacks.Stack | None, words: Sequence[str]) -> None:
    """Call asv in its own environment; it measures in the stack's, and reads histories without one."""
    if stack:
        environments.prepare(hosts.require(stacks.load(stack.name, rehearsed="--rehearsed" in words)), session.log)
        words = ["--stack", stack.name, *words]
    _call(session, str(environments.prepare_asv(session.log)), "stackproof", row["name"], *words)


_RUNS = {"stack": _in_stack, "judges": _in_judges, "asv": _in_asv, "steps": _in_judges_by_steps}
_EXTRAS = "extras"
_CORE, *_PLUG_INS = (nox.project.load_toml(ROOT / "tools" / "sessions.toml"), *plugins.sessions())


def _rows(kind: str) -> list[tuple[Row, list[str]]]:
    """Return the rows of a kind, each with its tags; those of plug-ins are listed where they are asked for."""
    added = [(row, [_EXTRAS]) for table in _PLUG_INS for row in table.get(kind, ())]
    return [*((row, row.get("tags", [])) for row in _CORE[kind]), *added]


def _asked(session: nox.Session, runs: str) -> tuple[stacks.Stack | None, Sequence[str]]:
    """Return the stack that a session of the menu is asked for, and the other words."""
    words = list(session.posargs)
    if words and (words[0] in stacks.names() if runs in ("asv", "steps") else not words[0].startswith("-")):
        return stacks.load(words[0]), words[1:]
    if runs == "asv":
        return None, words
    stack = hosts.preferred().stack
    session.log(f"this host has: {stack.name} ({stack.title})")
    return stack, words


def _add_verb(row: Row, tags: Sequence[str], name: str = "") -> None:
    """Register the verb, or NAME-VERB for a stack; one that is broken still has its sessions, and they say why."""

    def session_of_verb(session: nox.Session) -> None:
        stack, words = (stacks.load(name), session.posargs) if name else _asked(session, row["runs"])
        _RUNS[row["runs"]](session, row, stack, words)

    summary, verb = row["summary"], row["name"]
    session_of_verb.__doc__ = f"{summary.format(name)} ({stacks.title(name)})" if name else summary.format("a stack")
    _session(f"{name}-{verb}" if name else verb, *((name, verb) if name else tags), python=False)(session_of_verb)


def _add_tool(row: Row, tags: Sequence[str]) -> None:
    """Register what needs no stack: under nox's own Python, or where its groups are installed."""
    groups = row.get("groups", ())

    def session_of_tool(session: nox.Session) -> None:
        if groups:
            _install(session, *groups)
        python = "python" if groups else sys.executable
        _call(session, python, *row["words"], *session.posargs, answers=row.get("answers", ()))

    session_of_tool.__doc__ = row["summary"]
    _session(row["name"], *tags, **({} if groups else {"python": False}))(session_of_tool)


def _add_tests(name: str, rows: Sequence[Row]) -> None:
    """Register our own tests of a marker or in some folders; without groups they run in the cpu stack's environment, with uv and asv."""
    row = {key: value for one in rows for key, value in one.items()}
    paths = [path for one in rows for path in one.get("paths", ()) if (ROOT / path).exists()]

    def session_of_tests(session: nox.Session) -> None:
        python, env = "python", {}
        if "groups" not in row or row.get("side"):
            python = str(environments.prepare(stacks.load(stacks.DEVELOPMENT), session.log))
        if "groups" in row:
            _install(session, *row["groups"])
            python, env = "python", {"STACKPROOF_SIDE": python}
        else:
            path = os.pathsep.join((str(environments.find_uv(session.log).parent), os.environ.get("PATH", os.defpath)))
            env = {
                "STACKPROOF_NOX": sys.executable,
                "STACKPROOF_ASV": str(environments.prepare_asv(session.log)),
                "PATH": path,
            }
        named = any((ROOT / word.partition("::")[0]).exists() for word in session.posargs)
        words = [*row.get("words", ()), *(["-m", row["marker"]] if "marker" in row else []), *([] if named else paths)]
        _call(session, python, "pytest", "-p", "no:benchmark", *words, *session.posargs, **env)

    session_of_tests.__doc__ = row["summary"]
    _session(name, *(() if name == "tests" else ("long",)), **({} if "groups" in row else {"python": False}))(
        session_of_tests
    )


for _row, _tags in _rows("verb"):
    for _name in ("", *stacks.names()):
        _add_verb(_row, _tags, _name)
_tools = _rows("tool")
if _found := [_row["name"] for _row, _tags in (*_rows("verb"), *_tools) if _EXTRAS in _tags]:
    _words, _summary = ["nox", "-l", "--", _EXTRAS], f"{', '.join(_found)}: `nox -l -- {_EXTRAS}` lists them"
    _tools.append(({"name": _EXTRAS, "summary": _summary, "words": _words}, []))
for _row, _tags in sorted(_tools, key=lambda tool: bool({"dev", "laboratory"} & set(tool[1]))):
    _add_tool(_row, _tags)
_tests = [_row for _row, _ in _rows("test")]
for _name in dict.fromkeys(_row["name"] for _row in _tests):
    _add_tests(_name, [_row for _row in _tests if _row["name"] == _name])


@_session("lint")
def lint(session: nox.Session) -> None:
    """Check style, types, layers, workflows, images, links of pages, and that what is generated is fresh."""
    stack_python = environments.prepare(stacks.load(stacks.DEVELOPMENT), session.log)  # mypy and known issues ask it
    _install(session, "lint")
    _call(session, "python", "tools.lint", str(stack_python))

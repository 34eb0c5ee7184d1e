"""Environments only. A verb takes a stack, as in `nox -s smoke -- xpu`, or this host's. `nox -l -- xpu`, `-- long` and `-- all`: more."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import nox

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT / "src"))

from stackproof.base import files  # noqa: E402
from stackproof.base.errors import Refusal  # noqa: E402
from stackproof.stack import environments, hosts, stacks  # noqa: E402

nox.needs_version = ">=2025.2.9"

# Containers often forbid bytecode; without it half of a check's time is compiling torch.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# SIGTERM would end nox alone; as Ctrl-C, nox ends the verb first, which ends its ranks and writes its record.
signal.signal(signal.SIGTERM, signal.default_int_handler)
_PATIENCE: dict[str, Any] = {"interrupt_timeout": 0.5, "terminate_timeout": 15.0}
_PATH = os.pathsep.join(filter(None, (str(ROOT / "src"), os.environ.get("PYTHONPATH"))))
_LISTED = set(sys.argv[1:]) if {"-l", "--list", "--list-sessions"} & set(sys.argv) else {"all"}


def _session(name: str, *tags: str, **options: Any) -> Callable[[Callable[[nox.Session], None]], None]:
    """Register a session whose refusals are one sentence; with tags it is listed only where one, or its name, is asked for."""

    def register(action: Callable[[nox.Session], None]) -> None:
        def session_of_name(session: nox.Session) -> None:
            try:
                action(session)
            except (Refusal, OSError) as error:
                refusal = files.said_no(error) if isinstance(error, OSError) else error
                if refusal is None:
                    raise
                session.error(f"{refusal} (exit code {refusal.exit_code})")

        session_of_name.__doc__ = action.__doc__
        if not tags or {"all", name, *tags} & _LISTED:
            nox.session(name=name, default=name == "smoke", tags=list(tags), **options)(session_of_name)

    return register


def _call(session: nox.Session, python: str, *words: str, **env: str) -> None:
    """Run a module, and let it end in its own time."""
    session.run(python, "-m", *words, external=True, env={"PYTHONPATH": _PATH, **env}, **_PATIENCE)


def _install(session: nox.Session, *groups: str) -> None:
    """Install groups of pyproject.toml: what a tool of ours needs besides the stacks."""
    pyproject = nox.project.load_toml(ROOT / "pyproject.toml")
    pyproject["dependency-groups"]["product"] = pyproject["project"]["dependencies"]
    session.install(*nox.project.dependency_groups(pyproject, *groups))


def _in_stack(session: nox.Session, verb: str, stack: stacks.Stack, words: Sequence[str]) -> None:
    """Call the verb, which builds the stack's environment from its lock and goes on in it."""
    _call(session, sys.executable, "stackproof", verb, "--stack", stack.name, "--locked", *words)


def _in_judges(session: nox.Session, verb: str, stack: stacks.Stack, words: Sequence[str]) -> None:
    """Call what compares variants, where the statistics are; each side has its stack's environment."""
    hosts.require(stack, rehearsed="--rehearsed" in words)
    _call(session, str(environments.prepare_judges(session.log)), "stackproof", verb, "--stack", stack.name, *words)


def _in_asv(session: nox.Session, verb: str, stack: stacks.Stack | None, words: Sequence[str]) -> None:
    """Call asv in its own environment; it measures in the stack's, and reads histories without one."""
    if stack:
        environments.prepare(hosts.require(stack, rehearsed="--rehearsed" in words), session.log)
        words = ["--stack", stack.name, *words]
    _call(session, str(environments.prepare_asv(session.log)), "stackproof", verb, *words)


def _in_fleet(session: nox.Session, verb: str, stack: stacks.Stack, words: Sequence[str]) -> None:
    """Plan and judge where the judges are, on a host without cards too; a card's own work goes on in the stack's environment."""
    python, locked = environments.prepare_judges(session.log), ["--locked"] if words[:1] == ["card"] else []
    step = [*words[:1], "--stack", stack.name, *locked, *words[1:]] if words else []
    _call(session, str(python), "stackproof", verb, *step)


_RUNS = {"stack": _in_stack, "judges": _in_judges, "asv": _in_asv, "fleet": _in_fleet}
_ROWS: dict[str, list[dict[str, Any]]] = nox.project.load_toml(ROOT / "tools" / "sessions.toml")
VERBS = {row["name"]: (_RUNS[row["runs"]], row["summary"]) for row in _ROWS["verb"]}


def _asked(session: nox.Session, verb: str) -> tuple[stacks.Stack | None, Sequence[str]]:
    """Return the stack that a session of the menu is asked for, and the other words."""
    words = list(session.posargs)
    if words and (words[0] in stacks.names() if verb in ("asv", "fleet") else not words[0].startswith("-")):
        return stacks.load(words[0]), words[1:]
    if verb == "asv":
        return None, words
    stack = hosts.preferred().stack
    session.log(f"this host has: {stack.name} ({stack.title})")
    return stack, words


def _add(verb: str, name: str = "") -> None:
    """Register the verb, or NAME-VERB for a stack; one that is broken still has its sessions, and they say why."""
    call, summary = VERBS[verb]

    def session_of_verb(session: nox.Session) -> None:
        stack, words = (stacks.load(name), session.posargs) if name else _asked(session, verb)
        call(session, verb, stack, words)

    session_of_verb.__doc__ = f"{summary.format(name)} ({stacks.title(name)})" if name else summary.format("a stack")
    _session(f"{name}-{verb}" if name else verb, *((name, verb) if name else ()), python=False)(session_of_verb)


for _verb in VERBS:
    for _name in ("", *stacks.names()):
        _add(_verb, _name)


def _add_tool(name: str, summary: str, *words: str, groups: Sequence[str] = (), tags: Sequence[str] = ()) -> None:
    """Register what needs no stack: under nox's own Python, or where these groups are installed."""

    def session_of_tool(session: nox.Session) -> None:
        if groups:
            _install(session, *groups)
        _call(session, "python" if groups else sys.executable, *words, *session.posargs)

    session_of_tool.__doc__ = summary
    _session(name, *tags, **({} if groups else {"python": False}))(session_of_tool)


for _row in _ROWS["tool"]:
    _add_tool(_row["name"], _row["summary"], *_row["words"], groups=_row.get("groups", ()), tags=_row.get("tags", ()))


def _add_tests(name: str, marker: str, summary: str) -> None:
    """Register our own tests that carry a marker; they run in the cpu stack's environment and start uv, nox and asv."""

    def session_of_tests(session: nox.Session) -> None:
        python = environments.prepare(stacks.load(stacks.DEVELOPMENT), session.log)
        path = os.pathsep.join((str(environments.find_uv(session.log).parent), os.environ.get("PATH", os.defpath)))
        env = {"STACKPROOF_NOX": sys.executable, "STACKPROOF_ASV": str(environments.prepare_asv(session.log))}
        words = ["-p", "no:benchmark", "-n", "2" if name == "tests" else "0", "-m", marker]
        _call(session, str(python), "pytest", *words, *session.posargs, PATH=path, **env)

    session_of_tests.__doc__ = summary
    _session(name, *(() if name == "tests" else ("long",)), python=False)(session_of_tests)


for _row in _ROWS["test"]:
    _add_tests(_row["name"], _row["marker"], _row["summary"])


@_session("gate-tests", "long")
def gate_tests(session: nox.Session) -> None:
    """Test the gate where its statistics are, with live sides in the cpu stack's environment, each fault planted."""
    side = environments.prepare(stacks.load(stacks.DEVELOPMENT), session.log)
    _install(session, "judges", "others", "test")
    tools = sorted({str(one.parent) for one in (ROOT / "tests" / "tools").glob("*/test_*.py")})
    verbs = [f"tests/commands/test_{name}.py" for name in ("gate", "gate_command")]
    words = session.posargs or ["tests/extras/bisect", "tests/gate", "tests/extras/nights/night", *tools, *verbs]
    _call(session, "python", "pytest", "-p", "no:benchmark", *words, STACKPROOF_SIDE=str(side))


@_session("site-tests", "long")
def site_tests(session: nox.Session) -> None:
    """Test the site in a real browser: the system's Chromium, which STACKPROOF_CHROMIUM may name."""
    _install(session, "product", "nights", "test", "browser")
    _call(
        session, "python", "pytest", "-p", "no:benchmark", "-m", "browser", "tests/extras/nights/site", *session.posargs
    )


@_session("lint")
def lint(session: nox.Session) -> None:
    """Check style, types, layers, workflows, images, links of pages, and that what is generated is fresh."""
    stack_python = environments.prepare(stacks.load(stacks.DEVELOPMENT), session.log)  # mypy and known issues ask it
    _install(session, "lint")
    _call(session, "python", "tools.lint", str(stack_python))

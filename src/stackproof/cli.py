"""The command line: one verb, its exit code, and an end without tracebacks whatever happens."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NoReturn

from stackproof import __version__
from stackproof.base import advice, files, processes
from stackproof.base.errors import Refusal, distance, suggestion
from stackproof.base.outlet import ended, outlets, reminded
from stackproof.base.text import indented, plain
from stackproof.commands import arguments, development, doctor, gate, history, init, plugins, suites
from stackproof.commands.arguments import EPILOG
from stackproof.project import projects
from stackproof.stack import stacks

_INTERRUPTED = 130
_DEAF_S = 10.0
_LOUD = ("asv", "pytest", "ranks", "watch")
"""Verbs whose programs write to the terminal themselves; `--project DIR` may stand before one."""
_SLIPS = 2
"""Letters by which a flag may be misspelt and still be recognised."""


def main(words: Sequence[str] | None = None) -> int:
    """Run one verb and return its exit code; a refusal is one sentence on stderr, a traceback our bug."""
    # Python would end in a prompt, and in code 1.
    if words is None and sys.flags.inspect and os.environ.pop("PYTHONINSPECT", ""):
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606 - no shell
    _print_anything()
    _listen()
    names = sys.argv[1:] if words is None else words
    with outlets() as out:
        try:
            with nullcontext() if set(_LOUD) & set(names[:3]) else reminded():
                code = ended(_call(names), out)
        except SystemExit as left:  # argparse, after help or a bad word
            if isinstance(left.code, str):  # of a module that we import
                print(f"stackproof: {plain(left.code)}", file=sys.stderr)  # noqa: T201
            left.code = ended(left.code if isinstance(left.code, int) else int(left.code is not None), out)
            raise
    if str(code) in os.environ.get(processes.ANSWERS, "").split():
        print(f"stackproof: exit code {code} is an answer, and fails no session", file=sys.stderr)  # noqa: T201
    if code == _INTERRUPTED:
        for number in processes.ENDINGS:  # a late one must not kill Python as it shuts down
            signal.signal(number, signal.SIG_IGN)
    return code


def _call(words: Sequence[str]) -> int:
    try:
        _require_folder()
        projects.choose(_project(words))  # what verbs offer depends on it
        options = _parser().parse_args(words, argparse.Namespace(typed=words))
        arguments.require_company(options)
        arguments.require_apart(options)
        with advice.typing(words):
            code: int = options.run(options)
    except Refusal as refusal:
        print(f"stackproof: {indented(str(refusal))}", file=sys.stderr)  # noqa: T201
        return refusal.exit_code
    except KeyboardInterrupt:
        print("stackproof: interrupted", file=sys.stderr)  # noqa: T201
        return _INTERRUPTED
    except Exception as error:
        refused = files.disk_refusal(error) if isinstance(error, OSError) else None
        if (refused := refused or advice.unloadable(error)) is None:
            raise
        print(f"stackproof: {indented(str(refused))}", file=sys.stderr)  # noqa: T201
        return refused.exit_code
    return code


def _require_folder() -> None:
    try:
        Path.cwd()
    except FileNotFoundError:
        raise Refusal("the current folder is gone; change to one that exists") from None


def _project(words: Sequence[str]) -> str | None:
    """Return what `--project` names, wherever it stands; `init` makes a project and asks for none."""
    if words and words[0] == "init":
        return ""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--project", nargs="?")  # the verb itself says that it names nothing
    own = words[: words.index("--")] if "--" in words else words  # what stands behind it is somebody else's command
    named: str | None = parser.parse_known_args(own)[0].project
    return named


class _Parser(argparse.ArgumentParser):
    """Says what is wrong with the words without what a terminal would obey."""

    def parse_known_args(self, *words: Any, **options: Any) -> tuple[Any, list[str]]:
        """Let the verb itself refuse what it does not know, with what may have been meant; argparse lets the program do it."""
        value, left = super().parse_known_args(*words, **options)
        if left:
            self.error(f"unrecognized arguments: {' '.join(left)}{self._meant(left[0])}")
        return value, left

    def _meant(self, word: str) -> str:
        if word.startswith("-"):
            flag = word.partition("=")[0]
            near = [action for action in self._option_string_actions if distance(flag, action, _SLIPS) <= _SLIPS]
            return suggestion(flag, near)
        named = "--stack" in self._option_string_actions and word in stacks.names()
        return f" (did you mean '--stack {word}'?)" if named else ""

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Refuse a word that is none of those there are, with what may have been meant, which may be a step of a verb."""
        if action.choices is None or value in action.choices:
            return
        verbs = action.choices if isinstance(action, argparse._SubParsersAction) else {}
        steps = [f"{verb} {value}" for verb, parser in verbs.items() if value in _steps(parser)]
        near = f" (did you mean '{steps[0]}'?)" if steps else suggestion(value, action.choices)
        raise argparse.ArgumentError(action, f"invalid choice: '{value}'{near}; there are: {', '.join(action.choices)}")

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {plain(message)}; `{self.prog} --help` says what there is\n")


def _steps(parser: argparse.ArgumentParser) -> set[str]:
    return {name for each in parser._actions if isinstance(each, argparse._SubParsersAction) for name in each.choices}


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="stackproof", description="Proves an accelerator stack.", epilog=EPILOG, allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"stackproof {__version__}")
    arguments.add_project(parser)
    added = parser.add_subparsers(title="verbs", metavar="VERB", required=True)
    for module in (suites, doctor, history, init, gate, development, plugins):
        module.add(added)
    added._choices_actions.sort(key=lambda verb: str(verb.help).startswith("(dev)"))
    return parser


def _print_anything() -> None:
    """A terminal that cannot show a character gets its escape, not a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _listen() -> None:
    """Treat SIGTERM (nox, CI), SIGHUP (a closed terminal) and warnings of batch systems like Ctrl-C: nothing runs on, the record is kept.

    A second one, from an impatient hand, must not break off just that; it is heard again after a while.
    What is ignored, as under nohup, stays so.
    """
    heard: list[float] = []

    def interrupt(number: int, frame: object) -> None:  # noqa: ARG001
        if heard and time.monotonic() - heard[-1] < _DEAF_S:
            return
        heard.append(time.monotonic())
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
    warned = (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU)
    for number in (signal.SIGINT, *warned):
        if signal.getsignal(number) in (signal.default_int_handler, signal.SIG_DFL):
            signal.signal(number, interrupt)

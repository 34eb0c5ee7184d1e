"""What the verbs share: how one is added to the command line, the kinds of values that it takes, and what `--locked` does."""

from __future__ import annotations

import argparse
import itertools
import math
import os
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from stackproof.base import files, places
from stackproof.base.errors import Refusal
from stackproof.project import projects
from stackproof.stack import stacks

if TYPE_CHECKING:
    from stackproof.record.writer import Outputs

    Verbs = argparse._SubParsersAction[argparse.ArgumentParser]

Verb = Callable[[argparse.Namespace], int]


EPILOG = """exit codes: 0 passed, 1 a check failed, 2 bad arguments or a bad file,
3 the stack is not available on this host, 4 the environment is not its lock, 5 something hung,
6 inconclusive, 130 interrupted"""


def add(verbs: Verbs, name: str, help_: str, run: Verb, *flags: str) -> argparse.ArgumentParser:
    """Add a verb to the parser of the command line, with these of the flags that verbs share; its `run` returns the exit code."""
    verb = verbs.add_parser(name, help=help_, description=help_, epilog=EPILOG, allow_abbrev=False)
    verb.set_defaults(run=run)
    add_project(verb)
    add_shared(verb, *flags)
    return verb


def add_project(parser: argparse.ArgumentParser) -> None:
    """Add which project's workloads, stacks, suites and benchmarks stand beside ours; it is read before all else."""
    help_ = "a folder with stackproof.toml, whose workloads, stacks and suites stand beside ours (default: the nearest upward)"
    parser.add_argument("--project", metavar="DIR", default=argparse.SUPPRESS, help=help_)


LOCKED = "--locked"
RECORD = ("--json", "--results")
"""Flags of where a record goes."""
REPORTS = ("--markdown", "--json", "--junit", "--results")
"""And of all that may be made of it."""


def add_shared(verb: argparse.ArgumentParser, *flags: str, **changed: Any) -> None:
    """Add flags that several verbs have, as the table has them; what is `changed` is changed of each."""
    for flag in flags:
        verb.add_argument(flag, **{**_shared()[flag], **changed})


def _stack(text: str) -> str:
    if not text.strip():
        raise argparse.ArgumentTypeError(f"{text!r} names no stack; name one of: {', '.join(stacks.names())}")
    return text


def word(text: str) -> str:
    """Read a word that names something; an empty one is what becomes of a variable that CI has not set."""
    if not text.strip():
        raise argparse.ArgumentTypeError("is empty: name something, or leave it out")
    return text


def command(typed: str) -> list[str]:
    """Read a command that will run without a shell."""
    from stackproof.jobs.launch import needs_shell

    try:
        if words := shlex.split(typed):
            if shell := needs_shell(typed):
                raise argparse.ArgumentTypeError(f"has '{shell}', which only a shell acts on; write \"sh -c '...'\"")
            if shutil.which(words[0]) is None:
                raise argparse.ArgumentTypeError(
                    f"{words[0]!r} is no program of PATH, nor a file that may be run (chmod +x)"
                )
            return words
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{typed!r} cannot be split into words ({error})") from error
    raise argparse.ArgumentTypeError("names no command; write one such as './issue.sh cuda'")


def _shared() -> dict[str, dict[str, Any]]:
    one_of = f"one of: {', '.join(stacks.names())}"
    return {
        "--stack": {"metavar": "NAME", "type": _stack, "action": Once, "help": one_of},
        LOCKED: {"action": "store_true", "help": "build the environment of the stack's lock, and go on in it"},
        "--rehearsed": {"action": "store_true", "help": "on the CPU, with upstream builds of the stack's versions"},
        "--unpinned": {
            "nargs": "?", "type": Path, "const": Path(sys.executable), "metavar": "PYTHON",
            "help": "in an environment that is not ours, such as a vendor's container (default: this interpreter's)",
        },
        "--device": {"default": "", "action": Once, "names": "a device", "help": "such as xpu:1 (default: the first)"},
        "--only": {"action": "append", "type": word, "default": [], "metavar": "SUBJECT", "help": "only this subject; may be repeated"},
        "--minutes": {"type": minutes, "default": 10.0, "help": "begin nothing more after so long"},
        "--deadline-scale": {
            "type": positive, "default": 1.0, "metavar": "X", "help": "multiply every deadline, for slow hosts",
        },
        "--json": {"type": file, "metavar": "FILE", "help": "write the record there too"},
        "--junit": {"type": file, "metavar": "FILE", "help": "write JUnit XML there"},
        "--markdown": {
            "type": file, "metavar": "FILE", "help": "write a comment for a pull request, or a job's summary, there",
        },
        "--results": {"type": folder, "metavar": "DIR", "help": "where records are kept (default: results/local)"},
    }  # fmt: skip


def add_named_stacks(verb: argparse.ArgumentParser, *, several: bool = False) -> None:
    """Add which stack is read or written, as a word or, as of the verbs that run one, by the flag."""
    known = f"one of: {', '.join(stacks.names())}"
    either = verb.add_mutually_exclusive_group(required=True)
    either.add_argument("names", nargs="*" if several else "?", default=argparse.SUPPRESS, metavar="NAME", help=known)
    either.add_argument(
        "--stack", dest="names", action="append" if several else "store", metavar="NAME", help="the same, as a flag"
    )


def add_list(verb: argparse._ActionsContainer, flag: str, metavar: str, help_: str) -> None:
    """Add an option that may be repeated."""
    verb.add_argument(flag, type=word, action="append", default=[], metavar=metavar, help=help_.replace("%", "%%"))


def add_needs(verb: argparse.ArgumentParser, flags: Sequence[str], *others: str) -> None:
    """Let each of these flags be refused where none of the others is typed, without which it would be taken and do nothing."""
    verb.set_defaults(needs={**(verb.get_default("needs") or {}), **dict.fromkeys(flags, others)})


def add_alone(verb: argparse.ArgumentParser, flag: str, what: str, *company: str) -> None:
    """Let a flag that does `what` be refused beside any flag but these, which it would ignore, and those that nox adds."""
    allowed = {flag, *company, "--stack", "--locked", "--project"}
    verb.set_defaults(alone={**(verb.get_default("alone") or {}), flag: (what, allowed)})


def require_company(options: argparse.Namespace) -> None:
    """Refuse a flag that stands without the one that it says something about, or beside one that ignores it."""
    typed = {word.partition("=")[0] for word in itertools.takewhile(lambda word: word != "--", options.typed)}
    for flag, others in getattr(options, "needs", {}).items():
        if flag in typed and not typed.intersection(others):
            raise Refusal(f"{flag} says nothing without {' or '.join(others)}; add that, or leave {flag} out")
    flags = [word for word in typed if word.startswith("--")]
    for flag, (what, allowed) in getattr(options, "alone", {}).items():
        if flag in typed and (ignored := next((word for word in flags if word not in allowed), "")):
            raise Refusal(f"{flag} {what}; leave out {ignored}")


_WRITTEN = ("json", "junit", "markdown")
_READ_WORDS = ("logs", "good", "bad")
"""Words that may name a file; any other word is none, although one may be called so."""


def outputs(options: argparse.Namespace) -> Outputs:
    """Return where a record and what is made of it go, of the flags that the verb has."""
    from stackproof.record.store import LOCAL
    from stackproof.record.writer import Outputs

    return Outputs(options.results or LOCAL, *(getattr(options, name, None) for name in _WRITTEN))


def require_apart(options: argparse.Namespace) -> None:
    """Refuse to write over a file that another flag or word names to be read, or that lies in a folder of logs."""
    named = dict[Path, str]()
    written = [(name, path) for name in _WRITTEN if isinstance(path := getattr(options, name, None), Path)]
    for name, path in written:
        if (other := named.setdefault(path.resolve(), name)) != name:
            raise Refusal(f"--{other} and --{name} both name {path}; give each a file of its own")
        if _is_evidence(path, name):
            raise Refusal(f"--{name} {path}: holds the record of a run, which would be lost; name a file of its own")
    there = {path: flag for path, flag in named.items() if path.exists()}
    for name, read in _read(options) if there else ():
        place = read.resolve()
        if path := next((path for path in there if path == place or (name == "logs" and place in path.parents)), None):
            raise Refusal(f"--{there[path]} {path}: is in {read}, which is read; name a file of its own")


def _is_evidence(path: Path, name: str) -> bool:
    """Whether a file is a run's record that no such flag has written: `--json` writes one too, but never beside the logs of its run."""
    row = files.try_read_json(path) if path.is_file() else None
    if not isinstance(row, dict) or not str(row.get("schema", "")).startswith("stackproof-record"):
        return False
    logs = row.get("logs") or []
    return name != "json" or any((path.parent / str(log)).is_file() for log in logs)


def _read(options: argparse.Namespace) -> Iterator[tuple[str, Path]]:
    for name, value in vars(options).items():
        for word in value if isinstance(value, list) else [value]:
            if (isinstance(word, Path) and name not in _WRITTEN) or (word and name in _READ_WORDS):
                yield name, Path(word)


class Once(argparse.Action):
    """A flag that is given once and names something; an empty word is what becomes of a variable that CI has not set.

    `names`: what it names, or nothing where the verb refuses an empty one itself; `kind`: a word, or a path.
    """

    def __init__(self, *words: Any, names: str = "", kind: type[str | Path] = str, **options: Any) -> None:
        super().__init__(*words, **options)
        self._names, self._kind = names, kind

    def __call__(self, _: object, options: argparse.Namespace, value: Any, flag: str | None = None) -> None:  # noqa: ARG002 - argparse gives it
        """Keep what is given (ArgumentError: it is empty, or not the first)."""
        if value == "" and self._names:
            raise argparse.ArgumentError(self, f"is empty: name {self._names}, or leave it out")
        if getattr(options, self.dest) != self.default:
            raise argparse.ArgumentError(self, "is given twice, and only one can be meant; give it once")
        setattr(options, self.dest, self._kind(value))


def _number(what: str, low: float, high: float, whole: bool = False) -> Callable[[str], Any]:
    """Return what reads a number from `low` to `high`; `what` it must be is said of any other."""

    def read(text: str) -> float:
        try:
            value: float = int(text) if whole else float(text)
        except ValueError:
            value = math.nan
        if not low <= value <= high or (whole and not text.isdecimal()):
            raise argparse.ArgumentTypeError(f"{text!r} must be {what}")
        return value

    return read


_LEAST_MINUTES, _MOST_MINUTES = 0.01, 1440
_MOST_SEED = (1 << 32) - 1
seconds = _number("a number of seconds from 1 to 86400", 1, 86400)
positive = _number("a number above 0 and below 1000", sys.float_info.min, math.nextafter(1000, 0))
minutes = _number(f"a number of minutes from {_LEAST_MINUTES} to {_MOST_MINUTES}", _LEAST_MINUTES, _MOST_MINUTES)
seed = _number(f"a whole number from 0 to {_MOST_SEED}", 0, _MOST_SEED, whole=True)
count = _number("a whole number from 1 to 64", 1, 64, whole=True)


def file(text: str) -> Path:
    """Read the name of a file to be written, which is refused before minutes are spent if it cannot be."""
    why = files.why_unwritable(Path(text)) if text and text != "-" else ""
    if not text or why:
        raise argparse.ArgumentTypeError(f"{text!r} {why or 'names no file'}; name a file that can be written")
    return Path(text)


def folder(text: str) -> Path:
    """Read the name of a folder to write to; it need not be there yet."""
    path = Path(text)
    why = "is a file, not a folder" if path.is_file() else files.why_no_folder(path)
    if not text.strip() or why:
        raise argparse.ArgumentTypeError(f"{text!r} {why or 'names no folder'}; name a folder to write to")
    return path


def place(text: str) -> Path:
    """Read the name of a file or a folder to be read; an empty word, as of a variable that is not set, is not the folder one stands in."""
    if not text.strip():
        raise argparse.ArgumentTypeError(f"{text!r} names nothing; name a file or a folder")
    if "://" in text:
        raise argparse.ArgumentTypeError(
            f"{text!r} is an address, not a place on this host; fetch it, and name the file or folder"
        )
    return Path(text)


def again(chosen: Sequence[stacks.Stack], words: Sequence[str]) -> NoReturn:
    """Become the same command in the environment of the first of these stacks, with all of them built.

    Raises:
        StackUnavailableError: the host lacks what the stack needs; nothing was downloaded.
        Refusal: the environment cannot be built.
    """
    become(prepared(chosen), "stackproof", *(word for word in words if word != LOCKED))


def prepared(chosen: Sequence[stacks.Stack]) -> str:
    """Build the environments of these stacks, and return the interpreter of the first."""
    from stackproof.stack import environments, hosts  # need packages that a bare Python lacks

    python, *_ = [str(environments.prepare(hosts.require(stack), _say)) for stack in chosen]
    if behind := projects.carry():
        _say(
            f"the environment of a lock holds no package besides, so {', '.join(behind)} and its workloads take no part; "
            f"a project's do ({places.page('your-project.md')}), or run without {LOCKED} where the package is installed"
        )
    return python


def become(python: str, *words: str) -> NoReturn:
    """Go on as a module in an interpreter: it is this process that goes on, so that signals and exit code are its own."""
    sys.stderr.flush()
    os.execv(python, [python, "-m", *words])  # noqa: S606 - no shell


def _say(sentence: str) -> None:
    print(f"stackproof: {sentence}", file=sys.stderr)  # noqa: T201

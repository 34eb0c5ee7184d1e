"""Verbs: the only place that parses arguments or prints."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from . import __version__, hosts, stacks, stages
from .errors import Refusal
from .gating import flags

Verb = Callable[[argparse.Namespace], int]

_INTERRUPTED = 130
_DEAF_S = 10.0
_EPILOG = """exit codes: 0 passed, 1 a check failed, 2 bad arguments or a bad file,
3 the stack is not available on this host, 4 the environment is not its lock, 5 something hung,
6 inconclusive, 130 interrupted"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb and return its exit code; a refusal is one sentence on stderr, a traceback our bug."""
    _print_anything()
    _listen()
    code = _call(_parser().parse_args(arguments))
    if code == _INTERRUPTED:
        for number in (signal.SIGINT, signal.SIGTERM):  # a late one must not kill Python as it shuts down
            signal.signal(number, signal.SIG_IGN)
    return code


def _call(options: argparse.Namespace) -> int:
    try:
        code: int = options.run(options)
        sys.stdout.flush()
    except Refusal as refusal:
        print(f"stackproof: {refusal}", file=sys.stderr)  # noqa: T201
        return refusal.exit_code
    except KeyboardInterrupt:
        print("stackproof: interrupted", file=sys.stderr)  # noqa: T201
        return _INTERRUPTED
    except BrokenPipeError:  # `| head` has seen enough; nothing more can be printed, also not at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="stackproof", description="Proves an accelerator stack.", epilog=_EPILOG, allow_abbrev=False
    )
    parser.add_argument("--version", action="version", version=f"stackproof {__version__}")
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=True)
    _add_run(
        verbs,
        "smoke",
        "is the stack alive: devices, operators, real workloads, two-rank DDP, indicative rates",
        _run,
    )
    _add_suites(
        _add_run(verbs, "verify", "does the stack compute right: every suite, or those named", _run),
        default=stages.of_verb("verify"),
    )
    _add_suites(
        _add_run(
            verbs,
            "ddp",
            "do ranks work together: bring-up, exact collectives, DDP convergence, failures that end",
            _run,
        ),
        default=stages.of_verb("ddp"),
    )
    _add_suites(
        _add_run(
            verbs,
            "rehearse",
            "a run on the CPU with upstream builds of the stack's versions; says nothing of the card",
            _rehearse,
        ),
        default=("smoke",),
    )
    gate = verbs.add_parser(
        "gate",
        help="is the head worse than the base: two variants side by side, interleaved",
        epilog=_EPILOG,
        allow_abbrev=False,
    )
    flags.add_arguments(gate)
    doctor = verbs.add_parser(
        "doctor", help="which stacks this host has and why; never changes anything", epilog=_EPILOG
    )
    doctor.add_argument("--stack", help="look at one stack only")
    doctor.set_defaults(run=_doctor)
    lock = verbs.add_parser("lock", help="re-pin stacks from their requirements.in with uv", epilog=_EPILOG)
    lock.add_argument("names", nargs="+", metavar="NAME", help="stacks to re-pin")
    lock.add_argument(
        "--upgrade",
        action="store_true",
        help="move existing pins to the newest versions that the ranges allow",
    )
    lock.set_defaults(run=_lock)
    return parser


def _add_run(
    verbs: argparse._SubParsersAction[argparse.ArgumentParser], name: str, help_: str, run: Verb
) -> argparse.ArgumentParser:
    verb = verbs.add_parser(name, help=help_, description=help_, epilog=_EPILOG, allow_abbrev=False)
    verb.add_argument("--stack", metavar="NAME", help=f"one of: {', '.join(stacks.names())}")
    verb.add_argument(
        "--device", default="", help="the device of all checks that use one, such as xpu:1 (default: the first)"
    )
    verb.add_argument(
        "--preset",
        default="tiny",
        choices=["tiny", "full"],
        help="of the rates: tiny takes seconds on two cores, full is the users' own configuration",
    )
    verb.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="CHECK",
        help="run only this check (a name or a pattern with *); may be repeated",
    )
    verb.add_argument("--json", type=_file, metavar="FILE", help="write the record there too")
    verb.add_argument("--junit", type=_file, metavar="FILE", help="write JUnit XML there")
    verb.add_argument(
        "--results", type=Path, metavar="DIR", help="where records and logs are kept (default: results/local)"
    )
    verb.add_argument(
        "--deadline-scale",
        type=_positive,
        default=1.0,
        metavar="X",
        help="multiply every check's deadline, for slow hosts",
    )
    verb.add_argument(
        "--continue", dest="resume", action="store_true", help="go on with the last run of this verb, which was stopped"
    )
    verb.add_argument("--shuffle", type=int, metavar="SEED", help="shuffle the checks of each file by this seed")
    verb.add_argument("--replay", type=Path, metavar="FILE", help="show this record, from any machine, and run nothing")
    verb.set_defaults(run=run, verb=name, suites=None, otherwise=("smoke",))
    return verb


def _add_suites(verb: argparse.ArgumentParser, default: tuple[str, ...]) -> None:
    verb.add_argument(
        "--suite",
        dest="suites",
        action="append",
        choices=stacks.suites(),
        help=f"run this suite; may be repeated (default: {', '.join(default)})",
    )
    verb.set_defaults(otherwise=default)


def _rehearse(options: argparse.Namespace) -> int:
    return _run(options, rehearsed=True)


def _run(options: argparse.Namespace, rehearsed: bool = False) -> int:
    if options.replay:
        return _replay(options.replay)
    if not options.stack:
        raise Refusal(f"which stack? add --stack with one of: {', '.join(stacks.names())}")
    stack = stacks.load(options.stack)
    return _conduct(options, stack.rehearse() if rehearsed else stack)


def _replay(path: Path) -> int:
    from . import records, summary

    record = records.read(path)
    summary.show(record, path)
    return record.verdict.exit_code


def _conduct(options: argparse.Namespace, stack: stacks.Stack) -> int:
    from . import console, runs, summary
    from .verify import Plan

    _check_device(options.device, stack)
    chosen = tuple(options.suites or options.otherwise)
    only, scale = tuple(options.only), options.deadline_scale
    plan = Plan(options.verb, stack, chosen, options.device, options.preset, only, scale, options.shuffle)
    outputs = runs.Outputs(options.results or runs.LOCAL, options.json, options.junit)
    with console.Terminal().watching(f"{plan.verb} {stack.label}: {stack.title}") as terminal:
        record, where = runs.conduct(plan, outputs, terminal, options.resume)
    summary.show(record, where)
    return record.verdict.exit_code


def _check_device(text: str, stack: stacks.Stack) -> None:
    """Refuse a bad device string at once; a host or a torch that is not right has its own sentence later."""
    if not text or not hosts.inspect(stack).present:
        return
    try:
        from .device import parse
    except (ImportError, OSError):
        return
    parse(text, stack.device)


def _doctor(options: argparse.Namespace) -> int:
    from . import doctor

    for line in doctor.report([stacks.load(options.stack).name] if options.stack else stacks.names()):
        print(line)  # noqa: T201
    return 0


def _lock(options: argparse.Namespace) -> int:
    from . import environments, locking

    chosen = [stacks.load(name) for name in options.names]
    uv = environments.find_uv()
    for stack in chosen:
        for path in locking.lock(stack, uv, upgrade=options.upgrade):
            print(f"locked {path}")  # noqa: T201
    return 0


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1000:
        raise argparse.ArgumentTypeError(f"{text!r} must be a number above 0 and below 1000")
    return value


def _file(text: str) -> Path:
    if not text or Path(text).is_dir():
        raise argparse.ArgumentTypeError(f"{text!r} must be a file, not a folder")
    return Path(text)


def _print_anything() -> None:
    """A terminal that cannot show a character gets its escape, not a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _listen() -> None:
    """Treat SIGTERM (nox, CI) like Ctrl-C: nothing is left running and the record is written.

    A second one, from an impatient hand, must not break off just that; it is heard again after a while.
    Where Ctrl-C is ignored, as under nohup, it stays so.
    """
    heard: list[float] = []

    def interrupt(number: int, frame: object) -> None:  # noqa: ARG001
        if heard and time.monotonic() - heard[-1] < _DEAF_S:
            return
        heard.append(time.monotonic())
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, interrupt)

"""Verbs: the only place that parses arguments or prints."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from . import __version__, hosts, stacks, stages
from .errors import Refusal

if TYPE_CHECKING:
    from .records import Record

_PROFILES = "what is measured and how closely, by fixtures/benchmarks.toml: fast (default), regular or full"

Verb = Callable[[argparse.Namespace], int]
Look = Callable[["Record"], None]

_ALL = "all"
_INTERRUPTED = 130
# What pyproject.toml asks for, and a vendor's bare container may lack.
_NEEDED = ("fastjsonschema", "packaging", "pytest", "rich", "tomli")
_STDOUT = Path("-")
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
    except ModuleNotFoundError as missing:
        if missing.name not in _NEEDED:
            raise
        remedy = f"run `{sys.executable} -m pip install {missing.name}`"
        print(f"stackproof: the Python package '{missing.name}' is not installed here; {remedy}", file=sys.stderr)  # noqa: T201
        return Refusal.exit_code
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
    ddp = _add_run(
        verbs,
        "ddp",
        "do ranks work together: bring-up, exact collectives, DDP convergence, failures that end",
        _run,
    )
    _add_suites(ddp, default=stages.of_verb("ddp"))
    _add_bench(verbs)
    rehearse = _add_run(
        verbs,
        "rehearse",
        "a run on the CPU with upstream builds of the stack's versions; says nothing of the card",
        _rehearse,
    )
    _add_suites(rehearse, default=("smoke",))
    for verb in (ddp, rehearse):
        verb.add_argument(
            "--export-goldens",
            action="store_true",
            help="keep the loss curves of this run that agree with float64 as the stack's goldens (fixtures/goldens/)",
        )
    _add_ranks(verbs)
    _add_doctor(verbs)
    _add_triage(verbs)
    lock = verbs.add_parser("lock", help="re-pin stacks from their requirements.in with uv", epilog=_EPILOG)
    lock.add_argument("names", nargs="+", metavar="NAME", help="stacks to re-pin")
    lock.add_argument(
        "--upgrade",
        action="store_true",
        help="move existing pins to the newest versions that the ranges allow",
    )
    lock.set_defaults(run=_lock)
    from .drill import verb as drill
    from .history import verbs as history

    history.add(verbs, _EPILOG)
    drill.add(verbs, _EPILOG)
    return parser


def _add_ranks(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    help_ = (
        "be one rank of a group that torchrun, srun or mpirun started, on any number of hosts; rank 0 writes the record"
    )
    verb = verbs.add_parser("ranks", help=help_, description=help_, epilog=_EPILOG, allow_abbrev=False)
    verb.add_argument("--stack", metavar="NAME", required=True, help=f"one of: {', '.join(stacks.names())}")
    verb.add_argument(
        "--rehearse", action="store_true", help="on the CPU, with upstream builds of the stack's versions"
    )
    verb.add_argument(
        "--folder",
        type=Path,
        required=True,
        metavar="DIR",
        help="logs and the record; best on a disk that all hosts share",
    )
    verb.add_argument(
        "--program", metavar="MODULE:FUNCTION", help="what every rank runs (default: bring-up, collectives, DDP)"
    )
    verb.add_argument(
        "--rendezvous",
        default="",
        metavar="URL",
        help="where the ranks meet: file:///FOLDER or tcp://HOST:PORT (default: MASTER_ADDR and MASTER_PORT)",
    )
    verb.add_argument(
        "--run", dest="run_name", default="", metavar="NAME", help="names this run in a folder of rendezvous"
    )
    verb.add_argument(
        "--deadline", type=_seconds, default=300.0, metavar="S", help="when all ranks are ended (default: 300)"
    )
    verb.add_argument(
        "--oversubscribe", action="store_true", help="let ranks share cards over the stack's other backend, and say so"
    )
    verb.add_argument(
        "--no-preflight", dest="preflight", action="store_false", help="form the group also where it cannot work"
    )
    verb.set_defaults(run=_ranks)


def _add_doctor(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    help_ = "is this box what it claims to be: stacks, host, cards, environments, variables; changes nothing"
    doctor = verbs.add_parser("doctor", help=help_, description=help_, epilog=_EPILOG, allow_abbrev=False)
    doctor.add_argument("--stack", metavar="NAME", help="look at one stack only, and take what it lacks for a problem")
    doctor.add_argument(
        "--json",
        nargs="?",
        const=_STDOUT,
        type=_file,
        metavar="FILE",
        help="write one JSON object there; without FILE, instead of text",
    )
    doctor.add_argument(
        "--report", action="store_true", help="print a block for an issue, without names, addresses and home folders"
    )
    doctor.set_defaults(run=_doctor)


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
    verb.add_argument(
        "--no-preflight",
        dest="preflight",
        action="store_false",
        help="start ranks also where the preflight says that they will hang, crash or be another group than was asked for",
    )
    verb.add_argument("--replay", type=Path, metavar="FILE", help="show this record, from any machine, and run nothing")
    verb.set_defaults(run=run, verb=name, suites=None, otherwise=("smoke",), dataset=None, export_goldens=False)
    return verb


def _add_suites(verb: argparse.ArgumentParser, default: tuple[str, ...]) -> None:
    verb.add_argument(
        "--suite",
        dest="suites",
        action="append",
        choices=(*stacks.suites(), _ALL),
        help=f"run this suite; may be repeated; '{_ALL}' runs every one (default: {', '.join(default)})",
    )
    verb.add_argument(
        "--dataset",
        type=_file,
        metavar="FILE",
        help="look through this training set too (JSON or JSON Lines; suite data)",
    )
    verb.set_defaults(otherwise=default)


def _add_triage(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    help_ = "what is wrong with a run, from its logs: root cause first; proves or refutes claims about it"
    verb = verbs.add_parser("triage", help=help_, description=help_, epilog=_EPILOG, allow_abbrev=False)
    verb.add_argument("logs", nargs="+", metavar="LOG", help="files (also gzip), folders, or - for standard input")
    verb.add_argument(
        "--expect",
        action="append",
        default=[],
        metavar="NAME",
        help="prove a claim about the run, such as efa or rdma; may be repeated (an unknown name lists all)",
    )
    verb.add_argument("--together", action="store_true", help="all logs are of one run, whatever their names")
    verb.add_argument("--stack", default="unknown", metavar="NAME", help="the stack that the record is filed under")
    verb.add_argument("--json", type=_file, metavar="FILE", help="write the record there")
    verb.set_defaults(run=_triage)


def _triage(options: argparse.Namespace) -> int:
    from .triage import running

    logs, expected = tuple(options.logs), tuple(options.expect)
    return running.triage(running.Question(logs, expected, options.together, options.json, options.stack))


def _add_bench(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add what measures: the same run, with a profile in place of a preset, and checks chosen by subject."""
    bench = "how fast is the stack: every figure of work that was verified in the same run"
    agree = "do our figures agree with other people's tools, measured side by side"
    for name, help_ in (("bench", bench), ("agree", agree)):
        verb = _add_run(verbs, name, help_, _bench)
        _add_suites(verb, default=stages.of_verb(name))
        verb.add_argument("--profile", default="fast", metavar="NAME", help=_PROFILES)
        verb.add_argument(
            "--allow-foreign", action="store_true", help="measure although other processes use the card, and label it"
        )
        verb.add_argument("--rehearsed", action="store_true", help="measure the stack's rehearsal, on the CPU")
        verb.add_argument("--plots", type=Path, metavar="DIR", help="draw PNG and SVG files there (needs matplotlib)")
        verb.add_argument("--page", type=_file, metavar="FILE", help="write the comparisons there as Markdown")
        verb.set_defaults(preset="")


def _bench(options: argparse.Namespace) -> int:
    from .measuring import profile

    chosen = profile(options.profile)
    options.preset = options.preset or chosen.preset
    options.only = [one if "::" in one else f"*[[]{one}]" for one in options.only]
    options.told = {"profile": chosen.name, **({"allow_foreign": "yes"} if options.allow_foreign else {})}
    return _run(options, rehearsed=options.rehearsed, look=_looking(options.plots, options.page))


def _looking(folder: Path | None, page: Path | None) -> Look:
    """Return what draws and writes a record for people, after refusing what could not be drawn."""
    from . import plots

    if folder:
        plots.require()

    def look(record: Record) -> None:
        for path in plots.draw(record, folder) if folder else ():
            print(f"drawn: {path}")  # noqa: T201
        if page:
            _write_page(record, page)

    return look


def _write_page(record: Record, path: Path) -> None:
    from .agreement.pages import markdown
    from .records import write_atomically

    try:
        write_atomically(path, markdown(record))
    except OSError as error:
        raise Refusal(f"{path}: cannot be written ({error.strerror}); choose another file with --page") from error


def _rehearse(options: argparse.Namespace) -> int:
    return _run(options, rehearsed=True)


def _run(options: argparse.Namespace, rehearsed: bool = False, look: Look | None = None) -> int:
    if options.replay:
        return _replay(options.replay, look)
    if not options.stack:
        raise Refusal(f"which stack? add --stack with one of: {', '.join(stacks.names())}")
    stack = stacks.load(options.stack)
    return _conduct(options, stack.rehearse() if rehearsed else stack, look)


def _ranks(options: argparse.Namespace) -> int:
    from . import summary
    from .distributed import joining

    stack = stacks.load(options.stack)
    wanted = joining.Wanted(
        stack=stack.rehearse() if options.rehearse else stack,
        folder=options.folder.absolute(),
        program=options.program or joining.PROVE,
        deadline_s=options.deadline,
        rendezvous=options.rendezvous,
        run=options.run_name,
        checked=options.preflight,
        oversubscribe=options.oversubscribe,
    )
    outcome = joining.take_part(wanted)
    if outcome.record and outcome.path:
        summary.show(outcome.record, outcome.path)
    if outcome.refused:
        raise Refusal(outcome.reason)
    if outcome.reason and not outcome.record:
        print(f"stackproof: {outcome.reason}", file=sys.stderr)  # noqa: T201
    return outcome.verdict.exit_code


def _replay(path: Path, look: Look | None) -> int:
    from . import records, summary

    record = records.read(path)
    summary.show(record, path)
    if look:
        look(record)
    return record.verdict.exit_code


def _conduct(options: argparse.Namespace, stack: stacks.Stack, look: Look | None) -> int:
    from . import console, runs, summary
    from .verify import Plan

    _check_device(options.device, stack)
    everything = stages.of_verb("verify") + stages.of_verb("ddp")
    chosen = everything if _ALL in (options.suites or ()) else tuple(options.suites or options.otherwise)
    plan = Plan(
        verb=options.verb,
        stack=stack,
        suites=chosen,
        device=options.device,
        preset=options.preset,
        only=tuple(options.only),
        deadline_scale=options.deadline_scale,
        shuffle=options.shuffle,
        dataset=_dataset(options.dataset, chosen),
        preflight=options.preflight,
        options=options.told if "told" in options else {},
    )
    outputs = runs.Outputs(options.results or runs.LOCAL, options.json, options.junit)
    with console.Terminal().watching(f"{plan.verb} {stack.label}: {stack.title}") as terminal:
        record, where = runs.conduct(plan, outputs, terminal, options.resume)
    summary.show(record, where)
    if options.export_goldens:
        _export_goldens(record, where.parent)
    if look:
        look(record)
    return record.verdict.exit_code


def _dataset(path: Path | None, chosen: tuple[str, ...]) -> str:
    """Return the training set's full path, or refuse one that cannot be read or that nothing would read."""
    if path is None:
        return ""
    if "data" not in chosen:
        raise Refusal(f"--dataset {path}: only the suite 'data' reads it; add --suite data")
    try:
        path.open("rb").close()
    except OSError as error:
        raise Refusal(
            f"--dataset {path}: cannot be read ({error.strerror}); name a file of JSON or JSON Lines"
        ) from error
    return str(path.resolve())


def _export_goldens(record: Record, run: Path) -> None:
    from .distributed import goldens
    from .records import Verdict

    passed = [check.id for check in record.checks if check.verdict is Verdict.PASSED]
    kept = goldens.collect(run, [name.partition("curve[")[2][:-1] for name in passed if "::curve[" in name])
    if not kept:
        raise Refusal("no golden was written: no loss curve of this run agreed with float64; run the suite convergence")
    for path in kept:
        print(f"kept {path}")  # noqa: T201


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

    machine = doctor.Machine()
    found = doctor.examine(options.stack, machine)
    if options.json not in (None, _STDOUT):
        _write(options.json, doctor.as_json(found))
    if options.json == _STDOUT:
        print(doctor.as_json(found))  # noqa: T201
    elif options.report:
        print(doctor.for_an_issue(found, machine))  # noqa: T201
    else:
        colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ
        for line in doctor.terminal(found, shutil.get_terminal_size((150, 24)).columns, colour):
            print(line)  # noqa: T201
    if found.broken:
        raise found.broken
    return found.exit_code


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(f"{text}\n", encoding="utf-8")
    except OSError as error:
        raise Refusal(f"{path}: cannot be written ({error.strerror}); name another file") from error


def _lock(options: argparse.Namespace) -> int:
    from . import environments, locking

    chosen = [stacks.load(name) for name in options.names]
    uv = environments.find_uv()
    for stack in chosen:
        for path in locking.lock(stack, uv, upgrade=options.upgrade):
            print(f"locked {path}")  # noqa: T201
    return 0


def _seconds(text: str) -> float:
    if not text.replace(".", "", 1).isdecimal() or not 1 <= float(text) <= 86400:
        raise argparse.ArgumentTypeError(f"{text!r} must be a number of seconds from 1 to 86400")
    return float(text)


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

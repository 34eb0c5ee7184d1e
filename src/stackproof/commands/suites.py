"""From the options of a run to its exit code: what is refused at once, the run, and what is done with its record.

The verbs that run suites: `smoke`, `verify`, `ddp`, `bench` and `rehearse`.
"""

from __future__ import annotations

import argparse
import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

from stackproof.base import files
from stackproof.base.errors import Refusal
from stackproof.commands import arguments, locked
from stackproof.runner import suites
from stackproof.stack import hosts, stacks

if TYPE_CHECKING:
    from stackproof.commands.arguments import Verb, Verbs
    from stackproof.record.records import Record

ALL = "all"
READER = "verify"
"""The verb that shows a record of any verb."""
_LARGEST_DATASET = 1 << 50
_PATTERN = set("*?[:")
"""What tells a pattern or a check from the name of a subject."""


def run(options: argparse.Namespace, rehearsed: bool = False) -> int:
    """Run what the options ask for, or show a record in its place; return the exit code."""
    if options.replay:
        return _replay(options)
    if not options.stack:
        raise Refusal(f"which stack? add --stack with one of: {', '.join(stacks.names())}")
    stack = stacks.load(options.stack)
    stack = stack.rehearse() if rehearsed else stack
    return locked.again([stack], options.given) if options.locked else _conduct(options, stack)


def _replay(options: argparse.Namespace) -> int:
    from stackproof.record import console, reading, writer

    path: Path = options.replay
    record = reading.read_verified(path)
    if options.verb not in (record.verb, READER):
        raise Refusal(f"{path}: is a record of `{record.verb}`, not of `{options.verb}`; `{READER} --replay` shows any")
    if options.stack not in (None, record.stack):
        raise Refusal(
            f"{path}: is of stack '{record.stack}', not of '{options.stack}'; leave out --stack to read it anywhere"
        )
    console.show(record, path)
    writer.write_asked(
        record, writer.Outputs(json=options.json, junit=options.junit, markdown=options.markdown), console.markdown
    )
    return record.verdict.exit_code


def _conduct(options: argparse.Namespace, stack: stacks.Stack) -> int:
    from stackproof.record import console, writer
    from stackproof.runner import runs
    from stackproof.runner.request import Request

    _check_device(options.device, stack)
    everything = suites.of_verb("verify") + suites.of_verb("ddp")
    chosen = everything if ALL in (options.suites or ()) else tuple(options.suites or options.otherwise)
    request = Request(
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
        deep=options.deep,
        options=options.told if "told" in options else {},
    )
    outputs = writer.Outputs(options.results or writer.LOCAL, options.json, options.junit, options.markdown)
    with console.Terminal().watching(f"{request.verb} {stack.label}: {stack.title}") as terminal:
        record, where = runs.conduct(request, outputs, terminal, options.resume)
    console.show(record, where)
    if options.export_goldens:
        _export_goldens(record, where.parent)
    return record.verdict.exit_code


def _dataset(path: Path | None, chosen: tuple[str, ...]) -> str:
    """Return the training set's full path, or refuse one that cannot be read or that nothing would read."""
    if path is None:
        return ""
    if "data" not in chosen:
        raise Refusal(f"--dataset {path}: only the suite 'data' reads it; add --suite data")
    if why := files.why_unreadable(path, _LARGEST_DATASET):
        raise Refusal(f"--dataset {path}: {why}; name a file of JSON or JSON Lines")
    return str(path.resolve())


def _export_goldens(record: Record, run: Path) -> None:
    from stackproof.ddp import goldens
    from stackproof.record.records import Verdict

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
        from stackproof.device.devices import parse
    except (ImportError, OSError):
        return
    parse(text, stack.device)


_PROFILES = "what is measured and how closely: fast (default), regular or full"


def add(verbs: Verbs) -> None:
    """Add them to the parser of the command line."""
    _add_run(
        verbs,
        "smoke",
        "is the stack alive: devices, operators, real workloads, two-rank DDP, indicative rates",
        run,
    )
    verify = _add_run(verbs, "verify", "does the stack compute right: every suite, or those named", run)
    _add_suites(verify, default=suites.of_verb("verify"))
    _add_bench(verbs)
    _add_ranked(verbs)


def _add_ranked(verbs: Verbs) -> None:
    """Add what also trains ranks, and so may keep their curves."""
    ddp = "do ranks work together: bring-up, exact collectives, DDP convergence, failures that end"
    rehearse = "a run on the CPU with upstream builds of the stack's versions; says nothing of the card"
    wanted: tuple[tuple[str, str, Verb, tuple[str, ...]], ...] = (
        ("ddp", ddp, run, suites.of_verb("ddp")),
        ("rehearse", rehearse, _rehearse, ("smoke",)),
    )
    for name, help_, called, default in wanted:
        verb = _add_run(verbs, name, help_, called)
        _add_suites(verb, default)
        verb.add_argument(
            "--export-goldens",
            action="store_true",
            help="keep the loss curves of this run that agree with float64 as the stack's goldens (data/goldens/)",
        )


def _add_run(verbs: Verbs, name: str, help_: str, called: Verb) -> argparse.ArgumentParser:
    verb = arguments.add(verbs, name, help_, called)
    arguments.add_stack(verb)
    verb.add_argument(
        locked.FLAG, action="store_true", help="build the stack's environment from its lock, and run in it"
    )
    verb.add_argument(
        "--device", default="", help="the device of all checks that use one, such as xpu:1 (default: the first)"
    )
    verb.add_argument(
        "--preset",
        default="tiny",
        choices=["tiny", "full"],
        help="of the rates: tiny takes seconds on two cores, full is the users' own configuration",
    )
    only = "run only this check (a name or a pattern with *); may be repeated"
    arguments.add_list(verb, "--only", "CHECK", only)
    arguments.add_markdown(verb)
    arguments.add_outputs(verb)
    arguments.add_deadline_scale(verb)
    verb.add_argument(
        "--continue", dest="resume", action="store_true", help="go on with the last run of this verb, which was stopped"
    )
    verb.add_argument(
        "--shuffle", type=arguments.seed, metavar="SEED", help="shuffle the checks of each file by this seed"
    )
    verb.add_argument(
        "--no-preflight",
        dest="preflight",
        action="store_false",
        help="start ranks also where the preflight says that they will hang, crash or be another group than was asked for",
    )
    verb.add_argument("--deep", action="store_true", help="hash every file of the environment again before the run")
    verb.add_argument("--replay", type=Path, metavar="FILE", help="show this record, from any machine, and run nothing")
    verb.set_defaults(verb=name, suites=None, otherwise=("smoke",), dataset=None, export_goldens=False)
    return verb


def _add_suites(verb: argparse.ArgumentParser, default: tuple[str, ...]) -> None:
    verb.add_argument(
        "--suite",
        dest="suites",
        action="append",
        choices=(*stacks.suites(), ALL),
        help=f"run this suite; may be repeated; '{ALL}' runs every one (default: {', '.join(default)})",
    )
    verb.add_argument(
        "--dataset",
        type=Path,
        metavar="FILE",
        help="look through this training set too (JSON or JSON Lines; suite data)",
    )
    verb.set_defaults(otherwise=default)


def _add_bench(verbs: Verbs) -> None:
    """Add what measures: the same run, with a profile in place of a preset, and checks chosen by subject."""
    bench = "how fast is the stack: every figure of work that was verified in the same run"
    verb = _add_run(verbs, "bench", bench, _bench)
    _add_suites(verb, default=suites.of_verb("bench"))
    verb.add_argument("--profile", default="fast", metavar="NAME", help=_PROFILES)
    verb.add_argument(
        "--allow-foreign", action="store_true", help="measure although other processes use the card, and label it"
    )
    verb.add_argument("--rehearsed", action="store_true", help="measure the stack's rehearsal, on the CPU")
    verb.set_defaults(preset="")


def _bench(options: argparse.Namespace) -> int:
    from stackproof.bench.subjects import profile

    chosen = profile(options.profile)
    _require_subjects(options)
    options.preset = options.preset or chosen.preset
    options.only = [one if "::" in one else f"*[[]{one}]" for one in options.only]
    options.told = {"profile": chosen.name, **({"allow_foreign": "yes"} if options.allow_foreign else {})}
    return run(options, rehearsed=options.rehearsed)


def _require_subjects(options: argparse.Namespace) -> None:
    """Refuse a name that is no subject's; a project is asked for its workloads, where they can be built, if it is in none of its files."""
    from stackproof.bench.subjects import require_named, unheard
    from stackproof.runner import vetting
    from stackproof.runner.process import variables_of

    named = [one for one in options.only if not set(one) & _PATTERN]
    require_named(named)
    if not options.stack or options.locked or options.replay or not importlib.util.find_spec("torch"):
        return  # with --locked the same words come again in the environment of the stack
    if unheard(named) and (found := vetting.vet(environment=variables_of(stacks.load(options.stack)))):
        require_named(named, offered=found.workloads.keys())


def _rehearse(options: argparse.Namespace) -> int:
    return run(options, rehearsed=True)

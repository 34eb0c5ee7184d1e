"""The verbs that run suites, and `ranks`, one rank of a group that somebody else started: what is refused at once, the run, its record."""

from __future__ import annotations

import argparse
import fnmatch
import importlib.util
import os
import re
import sys
import time
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from stackproof.base import files
from stackproof.base.errors import Refusal
from stackproof.base.text import OF_SUBJECT, indented, plain
from stackproof.commands import arguments
from stackproof.device.names import require_of
from stackproof.runner import suites
from stackproof.stack import hosts, stacks

if TYPE_CHECKING:
    from stackproof.record.writer import Outputs
    from stackproof.runner.request import Request

ALL = "all"
READER = "verify"
"""The verb that shows a record of any verb."""
_LARGEST_DATASET = 1 << 50
_MOST_NAMED = 4
_PATTERN = set("*?[:")
"""What tells a pattern or a check from the name of a subject."""


def add(verbs: arguments.Verbs) -> None:
    """Add them to the parser of the command line."""
    smoke = "is the stack alive: devices, operators, real workloads, two-rank DDP, indicative rates"
    _add_run(verbs, "smoke", smoke, _run)
    verify = _add_run(verbs, "verify", "does the stack compute right: every suite, or those named", _run)
    _add_suites(verify, suites.of_verb("verify"))
    bench = "how fast is the stack: every figure of work that was verified in the same run"
    verb = _add_run(verbs, "bench", bench, _bench)
    _add_suites(verb, suites.of_verb("bench"))
    profiles = "what is measured and how closely: fast (default), regular or full"
    verb.add_argument("--profile", default="fast", metavar="NAME", help=profiles)
    foreign = "measure although other processes use the card, and label it"
    verb.add_argument("--allow-foreign", action="store_true", help=foreign)
    arguments.add_shared(verb, "--rehearsed")
    verb.set_defaults(preset="")
    ddp = "do ranks work together: bring-up, exact collectives, DDP convergence, failures that end"
    _add_suites(_add_run(verbs, "ddp", ddp, _run), suites.of_verb("ddp"))
    explore = "do relations of operators hold at points that no run has had; a failure comes as code and as a row of known issues"
    verb = _add_run(verbs, "explore", explore, _run)
    arguments.add_shared(verb, "--minutes", default=30.0)
    help_ = "begin with this seed, and count up by the minute (default: another every time)"
    verb.add_argument("--seed", type=arguments.seed, metavar="SEED", help=help_)
    verb.add_argument(
        "--case", default="", metavar="TEXT", help="ask only judges and operators with this in JUDGE-OPERATOR"
    )
    verb.set_defaults(otherwise=("explore",))
    upstream = "do PyTorch's own tests pass on the device: those of a source tree of the version that is here"
    verb = _add_run(verbs, "upstream", upstream, _upstream)
    help_ = "the source tree of PyTorch, of the stack's version; nothing of it is kept"
    verb.add_argument("--source", type=arguments.place, metavar="FOLDER", help=help_)
    help_ = "which of its files test_*.py, as patterns in one word (default: 'test_ops* test_foreach test_torch')"
    verb.add_argument("--files", default="test_ops* test_foreach test_torch", metavar="NAMES", help=help_)
    verb.set_defaults(otherwise=("upstream",))
    rehearse = "a run on the CPU with upstream builds of the stack's versions; says nothing of the card"
    verb = _add_run(verbs, "rehearse", rehearse, _run)
    _add_suites(verb, ("smoke",))
    verb.set_defaults(rehearsed=True)
    _add_ranks(verbs)


def _add_run(verbs: arguments.Verbs, name: str, help_: str, called: arguments.Verb) -> argparse.ArgumentParser:
    flags = ("--stack", "--locked", "--device", *arguments.REPORTS, "--deadline-scale")
    verb = arguments.add(verbs, name, help_, called, *flags)
    arguments.add_list(verb, "--only", "CHECK", "run only this check (a name or a pattern with *); may be repeated")
    presets = "of the rates: tiny takes seconds on two cores, full is the users' own configuration"
    verb.add_argument("--preset", default="tiny", choices=["tiny", "full"], help=presets)
    resume = "go on with the last run of this verb, which was stopped"
    verb.add_argument("--continue", dest="resume", action="store_true", help=resume)
    preflight = (
        "start ranks also where the preflight says that they will hang, crash or be another group than was asked for"
    )
    verb.add_argument("--no-preflight", dest="preflight", action="store_false", help=preflight)
    verb.add_argument("--deep", action="store_true", help="hash every file of the environment again before the run")
    verb.add_argument("--verbose", action="store_true", help="print the slowest checks too")
    replay = "show this record, from any machine, and run nothing"
    verb.add_argument("--replay", type=arguments.place, metavar="FILE", help=replay)
    beside = (*arguments.REPORTS, "--verbose", "--deadline-scale")  # no answer depends on --results and the last
    arguments.add_alone(verb, "--replay", "shows a record and runs nothing", *beside)
    usual: dict[str, object] = {
        "suites": None, "otherwise": ("smoke",), "dataset": None, "explain": None, "rehearsed": False, "profile": "",
    }  # fmt: skip
    verb.set_defaults(verb=name, **usual)
    return verb


def _add_suites(verb: argparse.ArgumentParser, default: tuple[str, ...]) -> None:
    help_ = f"run this suite; may be repeated; '{ALL}' runs every one (default: {', '.join(default)})"
    verb.add_argument("--suite", dest="suites", action="append", choices=(*stacks.suites(), ALL), help=help_)
    help_ = "say what each check of this suite covers, and run nothing"
    verb.add_argument("--explain", choices=stacks.suites(), metavar="SUITE", help=help_)
    arguments.add_alone(verb, "--explain", "says what checks cover and runs nothing")
    help_ = "look through this training set too (JSON or JSON Lines; suite data)"
    verb.add_argument("--dataset", type=arguments.place, metavar="FILE", help=help_)
    verb.set_defaults(otherwise=default)


def _run(options: argparse.Namespace) -> int:
    if options.stack:
        stacks.load(options.stack)
    if options.explain:
        print("\n".join(suites.explained(options.explain)).lstrip())  # noqa: T201
        return 0
    outputs = arguments.outputs(options)
    if options.replay:
        return _replay(options, outputs)
    if not options.stack:
        raise Refusal(f"which stack? add --stack with one of: {', '.join(stacks.names())}")
    stack = stacks.load(options.stack, rehearsed=options.rehearsed)
    _require_tables(options, stack)
    if options.locked:
        return arguments.again([stack], options.typed)
    return _conduct(_request(options, stack), outputs, options.resume, options.verbose)


def _require_tables(options: argparse.Namespace, stack: stacks.Stack) -> None:
    """Refuse what is wrong in a flag or a table before an environment is built or proved: that takes up to a minute."""
    from stackproof.project import projects
    from stackproof.stack import capabilities, findings, known_issues, manifest, variables

    mine = {name for name, family in variables.families().items() if stack.backend in family.read_by}
    for finding in findings.examine({**os.environ, **stack.process_environment()}, mine):
        if finding.level is variables.Level.PROBLEM:
            raise Refusal(finding.refusal)
    known_issues.load(stack)
    manifest.load(stack)
    capabilities.require_known(stack)
    if (project := projects.current()) and project.expected:
        manifest.read(project.expected, stack)
    if named := [only for only in options.only if not options.profile or "::" in only]:
        chosen = _chosen(options)
        theirs = suites.defined(project.suites) if project and project.suites else ()
        known = [name for name in suites.defined() if name.partition("/")[0] in chosen]
        for only in named:
            _require_check(only, (*known, *theirs), chosen)


def _require_check(only: str, known: Sequence[str], chosen: Sequence[str]) -> None:
    """Refuse a name or a pattern that can be no check's, whatever parameters it has where it is collected."""
    from stackproof.base.errors import suggestion

    if not any(_may_match(check, only) for check in known):
        of = ", ".join(chosen[:_MOST_NAMED]) + (", ..." if len(chosen) > _MOST_NAMED else "")
        near = suggestion(only.partition("[")[0], suites.defined())
        raise Refusal(
            f"--only '{only}' names no check of {of}{near}; `verify --explain SUITE` lists them, and patterns may hold *"
        )


def _may_match(name: str, pattern: str) -> bool:
    """Whether a pattern may match a check of this name, with whatever parameters in brackets behind it."""
    cuts = [
        at for at in range(len(pattern) + 1) if pattern[at : at + 1] in ("", "*", "?", "[") or pattern[at - 1] == "*"
    ]
    return any(fnmatch.fnmatchcase(name, pattern[:at]) for at in cuts)


def _chosen(options: argparse.Namespace) -> tuple[str, ...]:
    everything = suites.of_verb("verify") + suites.of_verb("ddp")
    return everything if ALL in (options.suites or ()) else tuple(options.suites or options.otherwise)


def _bench(options: argparse.Namespace) -> int:
    from stackproof.bench.subjects import profile

    profile(options.profile)
    _require_subjects(tuple(options.only))
    return _run(options)


def _upstream(options: argparse.Namespace) -> int:
    """Refuse a source tree that is none, or of another version than the torch that is here, whose tests would say nothing."""
    if not options.replay:
        if options.source is None:
            raise Refusal(
                "whose tests? add --source with a source tree of PyTorch, such as an unpacked release of its sources"
            )
        version = options.source / "version.txt"
        if not version.is_file() or not (options.source / "test").is_dir():
            raise Refusal(
                f"--source {options.source}: is no source tree of PyTorch; it has version.txt and a folder test"
            )
        theirs = version.read_text(encoding="utf-8", errors="replace").strip()
        here = "" if options.locked or not importlib.util.find_spec("torch") else metadata.version("torch")
        if here and _release(theirs) != _release(here):
            raise Refusal(
                f"--source {options.source}: has the tests of {theirs}, and torch here is {here}; name its own sources"
            )
    return _run(options)


def _release(version: str) -> str:
    """Return the numbers of a version, without what says who built it, and when."""
    return ".".join(re.findall(r"\d+", version)[:3])


def _require_subjects(only: tuple[str, ...]) -> None:
    """Refuse a name that can be no subject's; what a project's workloads are called is known only where they are built."""
    from stackproof.base.errors import suggestion
    from stackproof.bench.subjects import names_of_subjects, require_named
    from stackproof.project import projects

    require_named([word for word in only if not set(word) & _PATTERN])
    for pattern in only:
        known = projects.current() or fnmatch.filter(names_of_subjects(), pattern)
        if "::" not in pattern and set(pattern) & set("*?") and not known:
            near = suggestion(pattern.strip("*?"), names_of_subjects()) or "; write a name such as gemm-float32"
            raise Refusal(f"--only '{pattern}' matches no subject{near}")


def _replay(options: argparse.Namespace, outputs: Outputs) -> int:
    from stackproof.record import console, reading, writer

    path, verb, stack = options.replay, options.verb, options.stack
    record = reading.read_verified(path)
    if verb not in (record.verb, READER):
        raise Refusal(f"{path}: is a record of `{record.verb}`, not of `{verb}`; `{READER} --replay` shows any")
    if stack not in (None, record.stack):
        raise Refusal(f"{path}: is of stack '{record.stack}', not of '{stack}'; leave out --stack to read it anywhere")
    console.show(record, path, verbose=options.verbose)
    if text := reading.weakness(record, path.parent):
        print(f"stackproof: {plain(f'{path}: {text}')}", file=sys.stderr)  # noqa: T201
    writer.write_asked(record, outputs, console.markdown)
    return record.verdict.exit_code


def _request(options: argparse.Namespace, stack: stacks.Stack) -> Request:
    """Return what is asked of the run; where a profile is, checks are named by subject and it has its own preset."""
    from stackproof.bench.subjects import profile
    from stackproof.runner.request import Request

    if options.device and hosts.inspect(stack).present:  # else the run says what the host lacks
        require_of(options.device, stack.device)  # torch is asked for it once the environment is proved
    chosen, preset = _chosen(options), options.preset
    only = tuple(text if "[[]" in text else text.replace("[", "[[]") for text in options.only)
    if options.profile:
        only = tuple(text if "::" in text or "/" in text else f"{OF_SUBJECT}{text}]" for text in only)
        preset = preset or profile(options.profile).preset
    return Request(
        options.verb, stack, chosen, options.device, preset, only, options.deadline_scale,
        _dataset(options.dataset, chosen), options.preflight, _more(options), options.deep,
    )  # fmt: skip


def _more(options: argparse.Namespace) -> dict[str, str]:
    """Return what one verb alone asks; the seed of an exploration is drawn where none is given, and the record has it."""
    if options.verb == "explore":
        seed = time.time_ns() // 1_000_000_000 % 1_000_000_000 if options.seed is None else options.seed
        return {"minutes": str(options.minutes), "seed": str(seed), "case": options.case}
    if options.verb == "upstream":
        return {"source": str(options.source.resolve()), "files": options.files}
    foreign = {"allow_foreign": "yes"} if options.profile and options.allow_foreign else {}
    return {"profile": options.profile, **foreign} if options.profile else {}


def _conduct(request: Request, outputs: Outputs, resume: bool, verbose: bool) -> int:
    from stackproof.record import console
    from stackproof.runner import runs

    with console.Terminal().watching(f"{request.verb} {request.stack.label}: {request.stack.title}") as terminal:
        record, where = runs.conduct(request, outputs, terminal, resume)
    console.show(record, where, verbose=verbose)
    causes = [str(text) for check in record.checks for name, text in check.figures.items() if name.startswith("cause ")]
    for cause in dict.fromkeys(causes):
        print(f"\n{'=' * 79}\n{plain(cause)}")  # noqa: T201
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


def _add_ranks(verbs: arguments.Verbs) -> None:
    help_ = (
        "be one rank of a group that torchrun, srun or mpirun started, on any number of hosts; rank 0 writes the record"
    )
    verb = arguments.add(verbs, "ranks", help_, _ranks)
    arguments.add_shared(verb, "--stack", required=True)
    help_ = "on the CPU, with upstream builds of the stack's versions"
    verb.add_argument("--rehearse", action="store_true", help=help_)
    help_ = "logs and the record; best on a disk that all hosts share"
    verb.add_argument("--folder", type=arguments.folder, required=True, metavar="DIR", help=help_)
    help_ = "what every rank runs (default: bring-up, collectives, DDP)"
    verb.add_argument("--program", metavar="MODULE:FUNCTION", help=help_)
    help_ = "where the ranks meet: file:///FOLDER or tcp://HOST:PORT (default: MASTER_ADDR and MASTER_PORT)"
    verb.add_argument("--rendezvous", default="", metavar="URL", help=help_)
    help_ = "names this run in a folder of rendezvous"
    verb.add_argument("--run", dest="run_name", default="", metavar="NAME", help=help_)
    arguments.add_needs(verb, ["--run"], "--rendezvous")
    help_ = "when all ranks are ended (default: 300)"
    verb.add_argument("--deadline", type=arguments.seconds, default=300.0, metavar="S", help=help_)
    help_ = "let ranks share cards over the stack's other backend, and say so"
    verb.add_argument("--oversubscribe", action="store_true", help=help_)
    help_ = "form the group also where it cannot work"
    verb.add_argument("--no-preflight", dest="preflight", action="store_false", help=help_)


def _ranks(options: argparse.Namespace) -> int:
    from stackproof.ranks import join
    from stackproof.ranks.launchers import Spec
    from stackproof.record import console

    stack = stacks.load(options.stack, rehearsed=options.rehearse)
    if options.program and not re.fullmatch(r"\w+(\.\w+)*:\w+", options.program):
        raise Refusal(f"--program '{options.program}': is no MODULE:FUNCTION, such as 'mine.training:main'")
    spec = Spec(
        options.program or join.PROVE, stack.name, stack.rehearsed, stack.backend, (), {}, options.folder.absolute(),
        options.deadline, checked=options.preflight, oversubscribe=options.oversubscribe,
    )  # fmt: skip
    outcome = join.take_part(stack, spec, options.rendezvous, options.run_name)
    if outcome.record and outcome.path:
        console.show(outcome.record, outcome.path)
    if outcome.refused:
        raise Refusal(outcome.reason)
    if outcome.reason and not outcome.record:
        print(f"stackproof: {indented(outcome.reason)}", file=sys.stderr)  # noqa: T201
    return outcome.verdict.exit_code

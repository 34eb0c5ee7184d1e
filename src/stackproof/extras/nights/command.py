"""The verbs of nights: `night`, which a runner calls for a stack; `history`, what was measured and what stepped; `site`, all as pages."""

from __future__ import annotations

import argparse
import importlib.util
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from stackproof.api.base import Refusal, advice, files, text
from stackproof.api.command import arguments
from stackproof.api.stack import hosts, stacks
from stackproof.extras.nights import STAGES

if TYPE_CHECKING:
    from stackproof.api.record import writer
    from stackproof.extras.nights.night.request import Ledger, NightRequest

_MOST_DAYS = 3650


def _require_installed(verb: str, session: str, *names: str) -> None:
    for name in names:
        if importlib.util.find_spec(name) is None:
            raise Refusal(f"`{verb}` needs {name}, which is not installed here; {advice.missing(name, session)}")


def _add_results(verb: argparse.ArgumentParser) -> None:
    help_ = "read records there (may be repeated)"
    verb.add_argument("--results", type=arguments.place, action="append", default=[], metavar="DIR", help=help_)


def _require_folders(results: list[Path]) -> None:
    for folder in results:
        if not folder.is_dir():
            raise Refusal(f"--results {folder}: {files.why_no_such_folder(folder)}; name a folder of records")


def add_history(verbs: arguments.Verbs) -> None:
    help_ = "what was measured, as rates: now, before, and which change made a difference; which figures stepped in the nights, and why"
    verb = arguments.add(verbs, "history", help_, _history)
    arguments.add_shared(verb, "--stack", help="only this stack")
    _add_results(verb)


def _history(options: argparse.Namespace) -> int:
    _require_installed("history", "history", "numpy", "rich")
    from stackproof.api.pages import console
    from stackproof.api.record import outline, store
    from stackproof.api.runs import timeline
    from stackproof.extras.nights import rates
    from stackproof.extras.nights.drift import findings

    if options.stack:
        stacks.load(options.stack)
    _require_folders(options.results)
    tops = options.results or store.folders()
    drift = findings.read_drift(tops, options.stack or "")
    loaded = store.read(store.files(tops), aside=not options.results)
    histories = rates.histories(timeline.entries(loaded.records))
    chosen = [history for history in histories if options.stack in (None, history.place.stack)]
    steps = findings.parts(drift) if drift.places else ()
    problems = [outline.TextLine(outline.Span(line, "bold red")) for line in (*drift.problems, *loaded.problems)]
    outline.show([*steps, *rates.parts(chosen, options.stack or "NAME"), *problems], console.plain_console())
    return drift.exit_code if drift.places else 0


def add_night(verbs: arguments.Verbs) -> None:
    help_ = (
        "a runner's night: doctor, smoke, verify, today's state measured beside the anchor, steps found and confirmed"
    )
    verb = arguments.add(verbs, "night", help_, _night)
    arguments.add_shared(verb, "--stack", required=True)
    help_ = (
        "freeze this checkout's commit as the new anchor of the stack, write that into its file, and measure nothing"
    )
    verb.add_argument("--anchor", choices=["new"], help=help_)
    arguments.add_alone(verb, "--anchor", "measures nothing", "--unpinned")
    help_ = (
        "hand this command what has changed since the nights before, as JSON on its standard input; no shell is used"
    )
    verb.add_argument("--notify", metavar="'WORDS'", type=arguments.command, help=help_)
    help_ = f"leave out {', '.join(STAGES)}"
    verb.add_argument("--without", action="append", default=[], choices=STAGES, metavar="STAGE", help=help_)
    help_ = "which subjects: fast, regular or full (default: the gate's)"
    verb.add_argument("--profile", default="", metavar="NAME", help=help_)
    arguments.add_list(verb, "--only", "SUBJECT", "measure only this subject; may be repeated")
    arguments.add_shared(verb, "--device")
    help_ = "in an environment that is not ours, such as a vendor's container; the anchor's wheels are not frozen then"
    arguments.add_shared(verb, "--unpinned", help=help_)
    arguments.add_shared(verb, "--markdown", *arguments.RECORD)
    help_ = "where the site goes (default: results/site)"
    verb.add_argument("--site", type=arguments.folder, metavar="DIR", help=help_)
    arguments.add_shared(verb, "--deadline-scale")


def _night(options: argparse.Namespace) -> int:
    from stackproof.api.gate import plan, variants
    from stackproof.api.runs import bench_subjects

    stack = stacks.load(options.stack)
    bench_subjects.require_named(options.only)
    if not set(STAGES).difference(options.without, ("scan", "confirm")) and not options.anchor:
        raise Refusal(
            "--without leaves no stage out of which a verdict could come; leave one in, such as doctor "
            "(scan and confirm go by what measure has measured)"
        )
    of_stages = {
        "--site": ("site", options.site),
        "--only": ("measure", options.only),
        "--profile": ("measure", options.profile),
    }
    for flag, (stage, named) in of_stages.items():
        if stage in options.without and named:
            raise Refusal(f"--without {stage} leaves out what {flag} is for; name one of them")
    options.profile = bench_subjects.profile(options.profile or plan.load().profile(stack.device)).name
    if options.unpinned:
        variants.require_interpreter(options.unpinned)
    needed = ("numpy", "scipy") if "site" in options.without else ("numpy", "scipy", "jinja2")
    _require_installed("night", f"{stack.name}-night", *needed)
    if not options.anchor:
        return _run_night(options, stack)
    from stackproof.extras.nights.night import request

    request.require_ours(stack)
    print(request.renew(stack))  # noqa: T201
    return 0


def _run_night(options: argparse.Namespace, stack: stacks.Stack) -> int:
    from stackproof.api.pages import console
    from stackproof.api.record import Verdict, writer
    from stackproof.extras.nights.night import night, request

    asked = _request(options, stack)
    hosts.require(stack)
    outputs = writer.Outputs(asked.results, options.json, None, options.markdown)
    outputs.prepare()
    _require_early(asked)
    ledger = _ledger(asked, outputs)
    verdict = night.run_stages(request.NightRun(asked, ledger))
    where = ledger.close(verdict, outputs, console.markdown)
    console.show(ledger.record, where)
    if options.notify and verdict is not Verdict.INTERRUPTED:
        print(text.plain(night.notify(options.notify, ledger.record, where, asked.results)))  # noqa: T201
    return verdict.exit_code


def _require_early(asked: NightRequest) -> None:
    """Refuse what would otherwise be found out after hours: a site that cannot be written, a device that is not there."""
    from stackproof.api.environment import environments, require_in
    from stackproof.extras.nights.site import build

    if "site" not in asked.without:
        build.require_folder(asked.site)
    if asked.device:
        require_in(asked.unpinned or environments.prepare(asked.stack), asked.stack, asked.device)


def _request(options: argparse.Namespace, stack: stacks.Stack) -> NightRequest:
    from stackproof.api.record import store
    from stackproof.extras.nights.night import request

    request.require_ours(stack)
    results = (options.results or store.LOCAL).absolute()
    unpinned = options.unpinned.absolute() if options.unpinned else None
    return request.NightRequest(
        stack, results, request.load_anchor(stack), request.load_plan(), options.profile, tuple(options.only), options.device,
        tuple(options.without), unpinned, options.deadline_scale, (options.site or results.parent / "site").absolute(),
    )  # fmt: skip


def _ledger(asked: NightRequest, outputs: writer.Outputs) -> Ledger:
    """Begin a night, with all that is known of it before anything runs."""
    from stackproof.api.environment import lockfile
    from stackproof.api.stack import provenance
    from stackproof.extras.nights.drift.series import ANCHOR
    from stackproof.extras.nights.night import request

    stack, began = asked.stack, time.monotonic()
    lock = "unpinned" if asked.unpinned else lockfile.own(stack).digest
    facts = {**provenance.host_facts(stack), **asked.facts(), ANCHOR: asked.anchor}
    facts |= {"lock": lock, "pinned": not asked.unpinned}

    def say(sentence: str) -> None:
        print(text.plain(f"[{time.monotonic() - began:5.0f} s] {sentence}", lines=False), flush=True)  # noqa: T201

    return request.opened(stack.name, facts, outputs, say)


def add_site(verbs: arguments.Verbs) -> None:
    help_ = "what every record proves and what changed since, as one folder of pages that open from a disk or any web server"
    verb = arguments.add(verbs, "site", help_, _site)
    verb.add_argument("out", type=arguments.folder, metavar="OUT", help="the folder to write: new, empty, or a site")
    _add_results(verb)
    help_ = "for how many days a record proves anything (default: 14)"
    verb.add_argument("--days", type=_days, default=14, metavar="N", help=help_)


def _days(typed: str) -> int:
    if not (typed.isascii() and typed.isdecimal()) or not 1 <= int(typed) <= _MOST_DAYS:
        raise argparse.ArgumentTypeError(f"{typed!r} must be a whole number of days from 1 to {_MOST_DAYS}")
    return int(typed)


def _site(options: argparse.Namespace) -> int:
    _require_installed("site", "site", "numpy", "jinja2")
    from stackproof.api.runs import suites
    from stackproof.extras.nights.site import build, stack_status

    _require_folders(options.results)
    order = build.SiteOrder(
        tuple(options.results) or stack_status.tops(), stacks.names(), stacks.suites(), datetime.now(timezone.utc).date(),
        options.days, stacks.doubles(), suites.of_verb("verify"),
    )  # fmt: skip
    site = build.build(options.out, order)
    for line in (site.sentence, *(f"problem: {problem}" for problem in site.problems), str(options.out / "index.html")):
        print(text.plain(line, lines=False))  # noqa: T201
    return 0

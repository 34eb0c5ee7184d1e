"""The verb `night`: what a runner calls every night for a stack, and what makes its anchor anew."""

from __future__ import annotations

import argparse
import importlib.util
import shlex
from typing import TYPE_CHECKING

from stackproof.api.base import Refusal, advice
from stackproof.api.command import arguments
from stackproof.api.stack import hosts, stacks

if TYPE_CHECKING:
    from stackproof.api.command import Verbs
    from stackproof.api.record import writer
    from stackproof.extras.nights.night.request import Ledger, NightRequest

_NEEDED = ("numpy", "scipy")
STAGES = ("doctor", "smoke", "verify", "measure", "scan", "confirm", "site")


def add(verbs: Verbs) -> None:
    """Add it to the parser of the command line."""
    help_ = (
        "a runner's night: doctor, smoke, verify, today's state measured beside the anchor, steps found and confirmed"
    )
    verb = arguments.add(verbs, "night", help_, _run)
    arguments.add_shared(verb, "--stack", required=True)
    verb.add_argument(
        "--anchor",
        choices=["new"],
        help="freeze this checkout's commit as the new anchor of the stack, write that into its file, and measure nothing",
    )
    verb.add_argument(
        "--continue", dest="resume", action="store_true", help="go on with the last night, which was stopped"
    )
    help_ = (
        "hand this command what has changed since the nights before, as JSON on its standard input; no shell is used"
    )
    verb.add_argument("--notify", metavar="'WORDS'", type=_words, help=help_)
    _add_amount(verb)
    arguments.add_shared(verb, "--markdown", *arguments.RECORD)
    verb.add_argument(
        "--site", type=arguments.folder, metavar="DIR", help="where the site goes (default: results/site)"
    )
    arguments.add_shared(verb, "--deadline-scale")


def _words(text: str) -> list[str]:
    try:
        if words := shlex.split(text):
            return words
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} cannot be split into words ({error})") from error
    raise argparse.ArgumentTypeError("names no command; write one such as './issue.sh cuda'")


def _add_amount(verb: argparse.ArgumentParser) -> None:
    verb.add_argument(
        "--without",
        action="append",
        default=[],
        choices=STAGES,
        metavar="STAGE",
        help=f"leave out {', '.join(STAGES)}",
    )
    verb.add_argument(
        "--profile", default="", metavar="NAME", help="which subjects: fast, regular or full (default: the gate's)"
    )
    arguments.add_list(verb, "--only", "SUBJECT", "measure only this subject; may be repeated")
    verb.add_argument("--device", default="", help="such as xpu:1 (default: the first)")
    arguments.add_shared(
        verb,
        "--unpinned",
        help="in an environment that is not ours, such as a vendor's container; the anchor's wheels are not frozen then",
    )


def _run(options: argparse.Namespace) -> int:
    from stackproof.api.gate import plan, variants
    from stackproof.api.runs import bench_subjects

    stack = stacks.load(options.stack)
    if options.resume:
        _recall(options)
    options.profile = bench_subjects.profile(options.profile or plan.load().profile(stack.device)).name
    bench_subjects.require_named(options.only)
    if options.unpinned:
        variants.require_interpreter(options.unpinned)
    for name in (*_NEEDED, *([] if "site" in options.without else ["jinja2"])):
        if importlib.util.find_spec(name) is None:
            missing = advice.missing(name, f"{stack.name}-night")
            raise Refusal(f"`night` looks at nights and shows them with {name}, which is not installed here; {missing}")
    return _renew(options, stack) if options.anchor else _run_night(options, stack)


def _recall(options: argparse.Namespace) -> None:
    """Take what was asked of the night that was stopped wherever nothing else is asked now; what differs is refused later."""
    from stackproof.api.record import reading, resume, store
    from stackproof.extras.nights.drift.series import VERB
    from stackproof.extras.nights.night import request

    path = resume.newest((options.results or store.LOCAL).absolute(), VERB, options.stack)
    facts = reading.read(path).provenance
    for name, known in request.flags_of(facts).items():
        if not getattr(options, name):
            setattr(options, name, known)
    if facts.get("pinned") is False and not options.unpinned:
        raise Refusal(f"{path} ran unpinned; name its interpreter again, `night --continue --unpinned PYTHON`")


def _renew(options: argparse.Namespace, stack: stacks.Stack) -> int:
    from datetime import datetime, timezone

    from stackproof.api.record import store
    from stackproof.extras.nights.drift.series import VERB, nights
    from stackproof.extras.nights.night import request

    request.require_ours(stack)
    tops = [options.results] if options.results else store.folders()
    known, _ = nights(store.dated(store.read(store.files(tops, (VERB,)))))
    print(request.renew(stack, known, datetime.now(timezone.utc).date()))  # noqa: T201
    return 0


def _run_night(options: argparse.Namespace, stack: stacks.Stack) -> int:
    from stackproof.api.base import text
    from stackproof.api.pages import console
    from stackproof.api.record import records, writer
    from stackproof.extras.nights.night import night, request

    asked = _request(options, stack)
    if not (found := hosts.inspect(stack)).present:
        raise found.refusal()
    outputs = writer.Outputs(asked.results, options.json, None, options.markdown)
    outputs.prepare()
    _require_early(asked)
    ledger = _ledger(options, asked, outputs)
    verdict = night.run_stages(request.NightRun(asked, ledger))
    where = ledger.close(verdict, outputs, console.markdown)
    console.show(ledger.record, where)
    if options.notify and verdict is not records.Verdict.INTERRUPTED:  # that one goes on
        print(text.plain(night.notify(options.notify, ledger.record, where, asked.results)))  # noqa: T201
    return verdict.exit_code


def _require_early(asked: NightRequest) -> None:
    """Refuse what would otherwise be found out after hours: a site that cannot be written, a device that is not there."""
    from stackproof.api.environment import environments, require_in, require_of
    from stackproof.extras.nights.site import build

    if "site" not in asked.without:
        build.require_folder(asked.site)
    if asked.device:
        require_of(asked.device, asked.stack.device)
        require_in(asked.unpinned or environments.prepare(asked.stack), asked.stack, asked.device)


def _request(options: argparse.Namespace, stack: stacks.Stack) -> NightRequest:
    from stackproof.api.record import store
    from stackproof.extras.nights.night import request

    request.require_ours(stack)
    results = (options.results or store.LOCAL).absolute()
    unpinned = options.unpinned.absolute() if options.unpinned else None
    return request.NightRequest(
        stack, results, request.load_anchors(stack), request.load_plan(), options.profile, tuple(options.only), options.device,
        tuple(options.without), unpinned, options.deadline_scale, (options.site or results.parent / "site").absolute(),
    )  # fmt: skip


def _ledger(options: argparse.Namespace, asked: NightRequest, outputs: writer.Outputs) -> Ledger:
    """Begin a night or take the last one up, with all that is known of it before anything runs."""
    import time

    from stackproof.api.base import text
    from stackproof.api.environment import lockfile
    from stackproof.api.stack import provenance
    from stackproof.extras.nights.night import measure, request

    stack, began = asked.stack, time.monotonic()
    lock = "unpinned" if asked.unpinned else lockfile.read(stack.lock).digest
    facts = {**provenance.host_facts(stack), **asked.facts(), **measure.anchor_facts(measure.frozen(asked))}
    facts |= {"lock": lock, "pinned": not asked.unpinned}

    def say(sentence: str) -> None:
        print(text.plain(f"[{time.monotonic() - began:5.0f} s] {sentence}", lines=False), flush=True)  # noqa: T201

    begin = request.resumed if options.resume else request.opened
    return begin(stack.name, facts, outputs, say)

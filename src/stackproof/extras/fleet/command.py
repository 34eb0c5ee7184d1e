"""The verb `fleet`: many hosts do the same work, and the odd one out is found and named."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import time

from stackproof.api.base import Refusal, advice, files, suggestion, text
from stackproof.api.command import arguments
from stackproof.api.stack import hosts, stacks

_HELP = "many hosts: plan a sweep, let each host leave a record, judge them all, or put hosts side by side in a table"
_SCHEDULERS = ("SLURMD_NODENAME", "NODE_NAME")
"""Where a scheduler says which host this is."""


def add(verbs: arguments.Verbs) -> None:
    verb = arguments.add(verbs, "fleet", _HELP, _which)
    steps = verb.add_subparsers(title="steps", metavar="STEP")
    for step in (_add_plan, _add_card, _add_judge, _add_nodes):
        step(steps)


def _which(options: argparse.Namespace) -> int:  # noqa: ARG001
    raise Refusal(
        "which step? `stackproof fleet plan`, `card`, `judge` or `nodes`; `stackproof fleet --help` says more"
    )


def _say(sentence: str) -> None:
    print(text.plain(sentence, lines=False), flush=True)  # noqa: T201


def _add_plan(steps: arguments.Verbs) -> None:
    help_ = "say which hosts are swept, and write that into a folder that they share; no host is asked yet"
    step = arguments.add(steps, "plan", help_, _plan)
    help_ = "a new folder on a disk that all hosts share"
    step.add_argument("folder", type=arguments.folder, metavar="FOLDER", help=help_)
    arguments.add_shared(step, "--stack", required=True)
    step.add_argument(
        "--hosts", metavar="LIST", required=True, help="who, as schedulers write it: 'node[01-16],login1'"
    )
    step.add_argument("--profile", choices=("tiny", "full"), help="how much (default: tiny on a CPU, else full)")
    help_ = "leave this out on every host: doctor, smoke, a subject or a kernel of the replay; may be repeated"
    step.add_argument("--without", action="append", default=[], metavar="PART", help=help_)


def _plan(options: argparse.Namespace) -> int:
    from stackproof.extras.fleet import plan

    stack, folder = stacks.load(options.stack), options.folder.absolute()
    profile, hosts = options.profile or plan.usual(stack.device), plan.expanded(options.hosts)
    made = plan.make(stack.name, profile, hosts, without=options.without)
    path = made.keep(folder)
    card = ["stackproof", "fleet", "card", str(folder), "--locked"]
    slurm = shlex.join(["sbatch", "--nodelist=HOST", "--exclusive", "--wrap", shlex.join(card)])
    _say(f"{text.counted(len(made.hosts), 'host')}, profile {profile}: {path}")
    _say(f"next, once on each host: {shlex.join([*card, '--host', 'HOST'])}")
    _say(f"or, under Slurm, for each HOST: {slurm}")
    _say(f"then, at any time: {advice.step(stack.name, 'fleet', 'judge', str(folder))}")
    return 0


def _add_card(steps: arguments.Verbs) -> None:
    help_ = "what this host does: doctor, smoke, unlike subjects, all-reduce, the replay; it leaves one record in the folder of the sweep"
    step = arguments.add(steps, "card", help_, _card)
    help_ = "the folder of the sweep, which all hosts share"
    step.add_argument("folder", type=arguments.folder, metavar="FOLDER", help=help_)
    arguments.add_shared(step, "--stack")
    step.add_argument("--host", metavar="NAME", help="who this is (default: as the scheduler says, or the host's name)")
    arguments.add_shared(step, "--locked", help="build the environment of the stack's lock, and go on in it")
    arguments.add_shared(step, "--deadline-scale")


def _card(options: argparse.Namespace) -> int:
    from stackproof.api.record import writer
    from stackproof.api.stack import provenance
    from stackproof.extras.fleet import answers, card, plan

    folder = options.folder
    chosen = plan.load(folder)
    stack = stacks.load(options.stack or chosen.stack)
    if chosen.stack != stack.name:
        why = f"is the sweep of stack '{chosen.stack}', not of '{stack.name}'; name a folder of its own"
        raise Refusal(f"{folder}: {why}")
    host = options.host
    if host is None:
        host = next((os.environ[word] for word in _SCHEDULERS if os.environ.get(word)), "") or provenance.host_name()
    plan.host(host)
    if host not in chosen.hosts:
        why = f"has no host '{host}'{suggestion(host, chosen.hosts)}, and {text.counted(len(chosen.hosts), 'other')}"
        raise Refusal(f"{folder / plan.NAME} {why}; say who this is with --host, as the plan writes it")
    if options.locked and hosts.inspect(stack).present:  # else the record says what this host lacks
        return arguments.again([stack], options.typed)
    order = card.CardOrder(chosen, folder.absolute(), host, options.deadline_scale)
    if card.answered(order):
        _say(f"{host} has answered already: {order.path}; remove that file, and it answers anew")
        return 0
    began = time.monotonic()

    def say(text: str) -> None:
        _say(f"[{time.monotonic() - began:5.0f} s] {text}")

    record = card.HostWork(order, say).take()
    where = writer.keep(record, order.path)
    why = f": {reason}" if (reason := answers.reason(record)) else ""
    _say(f"{host}: {record.verdict.value} in {record.seconds / 60:.1f} minutes{why}; record: {where}")
    return record.verdict.exit_code


def _add_judge(steps: arguments.Verbs) -> None:
    help_ = "say of every host of a sweep whether it is proved, slow, wrong, unlike or not reached, from records alone"
    step = arguments.add(steps, "judge", help_, _judge)
    help_ = "the folder of the sweep, in which hosts have left their records"
    step.add_argument("folder", type=arguments.place, metavar="FOLDER", help=help_)
    step.add_argument("--stack", metavar="NAME", help="for which stack the session was called; records say their own")


def _judge(options: argparse.Namespace) -> int:
    if not options.folder.is_dir():
        why = f"{files.why_no_such_folder(options.folder)}; name the folder of a sweep, which `fleet plan` makes"
        raise Refusal(f"{options.folder}: {why}")
    from stackproof.api.record import outline
    from stackproof.extras.fleet import judge, judgement, plan

    folder = options.folder
    stack = stacks.load(options.stack).name if options.stack else ""
    if stack and (own := plan.load(folder).stack) != stack:
        why = f"the plan of this sweep is of '{own}'; leave --stack out, or name a sweep of '{stack}'"
        raise Refusal(f"--stack {stack}: {why}")
    whole = judge.judge(folder)
    if problem := judge.keep(whole, folder):
        print(text.plain(f"stackproof: {problem}", lines=False), file=sys.stderr)  # noqa: T201
    print(outline.text(judgement.parts(whole, str(folder))))  # noqa: T201
    return whole.exit_code


def _add_nodes(steps: arguments.Verbs) -> None:
    help_ = "one table of hosts from `doctor --json`, records and judgements; 1 if a host is not well, 6 if a file cannot be read"
    step = arguments.add(steps, "nodes", help_, _nodes)
    help_ = "a record, an answer of the doctor, or a folder that holds some (default: where records are kept)"
    step.add_argument("places", nargs="*", type=arguments.place, metavar="PATH", help=help_)
    step.add_argument("--stack", metavar="NAME", help="for which stack the session was called; all are shown")


def _nodes(options: argparse.Namespace) -> int:
    from stackproof.api.record import outline, store
    from stackproof.extras.fleet import nodes

    places = options.places or [folder for folder in store.folders() if folder.is_dir()]
    found, damaged = nodes.gather(places)
    for sentence in damaged:
        print(text.plain(f"stackproof: passed over: {sentence}", lines=False), file=sys.stderr)  # noqa: T201
    if not found:
        where = ", ".join(map(str, places)) or "results/local"
        raise Refusal(f"{where}: no record and no answer of the doctor; `stackproof doctor --json FILE` writes one")
    print(outline.text(nodes.parts(found, len(damaged))))  # noqa: T201
    return 1 if any(answer.wrong for answer in found) else 6 if damaged else 0

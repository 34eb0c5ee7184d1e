"""The step `fleet card`: what this host does in a sweep, and the one record that it leaves."""

from __future__ import annotations

import argparse
import os
import time
from typing import TYPE_CHECKING

from stackproof.api.base import Refusal, plain, suggestion
from stackproof.api.command import arguments, locked
from stackproof.api.stack import stacks

if TYPE_CHECKING:
    from stackproof.api.command import Verbs

_NAMES = ("SLURMD_NODENAME", "NODE_NAME")
"""Where a scheduler says which host this is."""


def add(steps: Verbs) -> None:
    """Add it to the parser of `fleet`."""
    help_ = "what this host does: doctor, smoke, unlike subjects, all-reduce, the replay; it leaves one record in the folder of the sweep"
    step = arguments.add(steps, "card", help_, _run)
    step.add_argument(
        "folder", type=arguments.folder, metavar="FOLDER", help="the folder of the sweep, which all hosts share"
    )
    arguments.add_stack(step)
    step.add_argument("--host", metavar="NAME", help="who this is (default: as the scheduler says, or the host's name)")
    step.add_argument("--again", action="store_true", help="also where this host has answered already")
    step.add_argument(
        locked.FLAG, action="store_true", help="build the environment of the stack's lock, and go on in it"
    )
    arguments.add_deadline_scale(step)


def _run(options: argparse.Namespace) -> int:
    from stackproof.api.stack import host_name
    from stackproof.extras.fleet import plan, rules

    chosen = plan.load(options.folder) if (options.folder / plan.NAME).exists() else None
    name = options.stack or (chosen.stack if chosen else "")
    if not name:
        raise Refusal(
            f"which stack? {options.folder} holds no plan; add --stack with one of: {', '.join(stacks.names())}"
        )
    stack = stacks.load(name)
    if chosen and chosen.stack != stack.name:
        raise Refusal(
            f"{options.folder}: is the sweep of stack '{chosen.stack}', not of '{stack.name}'; name a folder of its own"
        )
    host = options.host
    if host is None:
        host = next((os.environ[one] for one in _NAMES if os.environ.get(one)), "") or host_name()
    rules.host(host)
    if chosen and host not in chosen.hosts:
        raise Refusal(
            f"{options.folder / plan.NAME} has no host '{host}'{suggestion(host, chosen.hosts)}, and {len(chosen.hosts)} others; "
            "say who this is with --host, as the plan writes it"
        )
    if options.locked:
        return locked.again([stack], options.given)
    return _take(options, stack, host, chosen)


def _take(options: argparse.Namespace, stack: stacks.Stack, host: str, chosen: object) -> int:
    from stackproof.extras.fleet import card, shared
    from stackproof.extras.fleet.plan import FleetPlan

    profile, without, plan = (
        (chosen.profile, chosen.without, chosen.id) if isinstance(chosen, FleetPlan) else ("tiny", (), "")
    )
    order = card.CardOrder(stack, options.folder.absolute(), host, profile, without, options.deadline_scale, plan)
    if card.answered(order) and not options.again:
        print(f"{host} has answered already: {order.path}; --again lets it answer anew")  # noqa: T201
        return 0
    began = time.monotonic()

    def say(text: str) -> None:
        print(plain(f"[{time.monotonic() - began:5.0f} s] {text}", lines=False), flush=True)  # noqa: T201

    record = card.HostWork(order, say).take()
    where = shared.keep(record, order.path, say)
    print(f"{host}: {record.verdict.value} in {record.seconds / 60:.1f} minutes; record: {where}")  # noqa: T201
    return record.verdict.exit_code

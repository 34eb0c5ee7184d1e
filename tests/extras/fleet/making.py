"""Hosts of a fleet as records in a folder: alike, but for what a test makes odd."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from stackproof.bench import subjects
from stackproof.extras.fleet import answers, plan
from stackproof.extras.fleet.judgement import FleetJudgement, JudgedHost
from stackproof.extras.fleet.plan import RECORDS, REPLAY, SCHEMA, STEPS, FleetPlan
from stackproof.record import records
from stackproof.record.records import Check, Figure, Measurement, Record, Verdict
from stackproof.stack import stacks

START = datetime.now(timezone.utc).isoformat(timespec="seconds")
SUBJECTS = ("gemm-float32", "attention-forward-float32", "copy-within", "training-yolov8n")
TOGETHER = "all-reduce-4-mib-2-ranks"
KERNELS = (
    "product-float32", "product-bfloat16", "product-float64", "product-float16", "convolution-float32", "convolution-bfloat16",
    "attention-float32", "attention-bfloat16", "exponential-float32",
)  # fmt: skip
LOCK = "ab" * 32
RIGHT = "00000000deadbeef"
PRODUCTS = 1000
"""So many each row of the replay has."""
SAMPLES = 21
ALL = FleetPlan(SCHEMA, "cpu", "tiny", ("n1",), (), "")


@dataclass
class MadeHost:
    """One host; whatever is not named is as everybody's."""

    name: str
    slow: Mapping[str, float] = field(default_factory=dict)
    """By subject, the factor of its seconds."""
    digests: Mapping[str, str] = field(default_factory=dict)
    """By kernel, another digest."""
    odd: int = 0
    facts: Mapping[str, Figure] = field(default_factory=dict)
    verdict: Verdict = Verdict.PASSED
    cards: int = 1
    lacks: tuple[str, ...] = ()
    noise: float = 0.001
    skipped: tuple[str, ...] = ()
    """Steps that it calls skipped."""
    plan: str = ""


def record(host: MadeHost, tasks: FleetPlan = ALL) -> Record:
    """Return what a host leaves that does all of its tasks, but for what is odd about it."""
    rng = random.Random(host.name)
    facts: dict[str, Figure] = {
        "host": host.name, "stack": "cpu", "rehearsed": False, "verified on": "cpu", "cards": host.cards, "devices": host.cards,
        "cpu:0.name": "Some CPU", "torch": "2.15.0", "pinned": True, "lock": LOCK, "files hashed": 9, "driver.nvidia-smi": "550.54",
        "profile": "tiny", "plan": host.plan, **host.facts,
    }  # fmt: skip
    checks, rows = [_step(host, step, tasks) for step in STEPS], list[Measurement]()
    for card in map(str, range(host.cards)):
        names = [*tasks.subjects(), *(tasks.together(host.cards) if card == "0" else ())]
        for name in (one for one in names if one not in host.lacks):
            checks.append(Check(f"subject/{card}::{name}", Verdict.PASSED, f"{name} is right", 1.0, subject=name))
            rows.append(_row(host, rng, card, name))
        for kernel in tasks.kernels():
            checks += [_replay(host, card, kernel, pattern) for pattern in plan.table().patterns]
        checks.append(Check(f"card/{card}", Verdict.PASSED, "as it must be", 1.0))
    return Record("fleet", "cpu", START, 60.0, records.overall(check.verdict for check in checks), facts, checks, rows)


def _step(host: MadeHost, step: str, tasks: FleetPlan) -> Check:
    if step == "doctor" and host.verdict is not Verdict.PASSED:
        return Check(step, host.verdict, "a reason", 1.0)
    skipped = step in (*host.skipped, *tasks.without)
    return Check(step, Verdict.SKIPPED if skipped else Verdict.PASSED, "as it must be", 1.0)


def _replay(host: MadeHost, card: str, kernel: str, pattern: str) -> Check:
    figures: dict[str, Figure] = {
        "card": card, "digest": host.digests.get(kernel, RIGHT), "products": PRODUCTS, "odd": host.odd,
    }  # fmt: skip
    verdict, name = Verdict.FAILED if host.odd else Verdict.PASSED, f"{REPLAY}/{card}::{kernel}[{pattern}]"
    return Check(name, verdict, "as it must be", 1.0, figures, group=REPLAY, subject=kernel, aspect=pattern)


def _row(host: MadeHost, rng: random.Random, card: str, name: str) -> Measurement:
    number, asked = (*SUBJECTS, TOGETHER).index(name), subjects.ours(stacks.load("cpu"))[name]
    seconds = (number + 1) * 0.01 * host.slow.get(name, 1.0) * (1 + rng.gauss(0, host.noise))
    figures: dict[str, Figure] = {"card": card, "settled": True}
    ranks = int(asked.parameters["tiny"].get("ranks", 1))
    return Measurement(
        name, "tiny", asked.dtype, ranks, asked.kind, asked.unit, seconds, [seconds] * SAMPLES, version=asked.version, figures=figures
    )  # fmt: skip


def leave(folder: Path, *hosts: MadeHost) -> None:
    """Let hosts leave their records in the folder of a sweep."""
    (folder / RECORDS).mkdir(parents=True, exist_ok=True)
    made = plan.load(folder) if (folder / plan.NAME).exists() else None
    for host in hosts:
        host.plan = host.plan or (made.id if made else "")
        kept = record(host, made) if made else record(host)
        records.write(kept, answers.record_path(folder, host.name))


def fleet(
    folder: Path,
    count: int,
    *odd: MadeHost,
    silent: tuple[str, ...] = (),
    without: tuple[str, ...] = (),
) -> Path:
    """Make a sweep of equal hosts n01, n02, ... besides odd ones, with its plan; silent ones are in the plan alone."""
    equal = [MadeHost(f"n{number:02}") for number in range(1, count + 1)]
    named = [host.name for host in (*equal, *odd)]
    plan.make("cpu", "tiny", [*named, *silent], seed=1, without=without).keep(folder)
    leave(folder, *equal, *odd)
    return folder


def edit(folder: Path, host: str, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the record that a host has left, as JSON."""
    path = answers.record_path(folder, host)
    found = json.loads(path.read_text())
    change(found)
    path.write_text(json.dumps(found), encoding="utf-8")


def of(found: FleetJudgement, host: str) -> JudgedHost:
    """Return the word on one host."""
    return next(one for one in found.hosts if one.host == host)

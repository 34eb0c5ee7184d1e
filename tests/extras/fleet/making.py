"""Hosts of a fleet as records in a folder: alike, but for what a test makes odd."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path

from stackproof.extras.fleet import answers, demanded, plan
from stackproof.extras.fleet.demanded import CheckTerms, FigureTerms
from stackproof.extras.fleet.rules import BLOCK, FIRST
from stackproof.extras.fleet.wanted import PlanWants
from stackproof.record import records
from stackproof.record.records import Check, Figure, Measurement, Record, Verdict

START = datetime.now(timezone.utc).isoformat(timespec="seconds")
SUBJECTS = ("gemm-float32", "attention-forward-float32", "copy-within", "training-yolov8n")
TOGETHER = "all-reduce-4-mib-2-ranks"
KERNELS = (
    "product-float32", "product-bfloat16", "product-float64", "product-float16", "convolution-float32", "convolution-bfloat16",
    "attention-float32", "attention-bfloat16", "exponential-float32",
)  # fmt: skip
LOCK = "ab" * 32
RIGHT = "00000000deadbeef"
BLOCKS = 20
"""So many blocks each row of the replay has."""
SAMPLES = 21
ALL = PlanWants("cpu", "tiny")


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
    began: str = START
    plan: str = ""


def record(host: MadeHost, wants: PlanWants = ALL) -> Record:
    """Return what a host leaves that does all that is wanted, but for what is odd about it."""
    rng = random.Random(host.name)
    facts: dict[str, Figure] = {
        "host": host.name, "stack": "cpu", "rehearsed": False, "verified on": "cpu", "cards": host.cards, "devices": host.cards,
        "cpu:0.name": "Some CPU", "torch": "2.15.0", "pinned": True, "lock": LOCK, "files hashed": 9, "driver.nvidia-smi": "550.54",
        "profile": "tiny", "plan": host.plan, **host.facts,
    }  # fmt: skip
    terms = demanded.demand(wants, host.cards)
    checks = [_check(host, id_, one) for id_, one in terms.checks.items() if one.words[1] not in host.lacks]
    for card in map(str, range(host.cards)):
        _sum_up(checks, card)
    rows = [_row(host, rng, card, one) for (card, name), one in terms.figures.items() if name not in host.lacks]
    verdict = records.overall(check.verdict for check in checks)
    return Record("fleet", "cpu", host.began, 60.0, verdict, facts, checks, rows)


def _check(host: MadeHost, id_: str, terms: CheckTerms) -> Check:
    figures: dict[str, Figure] = {"card": terms.card} if terms.card else {}
    group, subject, aspect = terms.words
    verdict, reason = terms.verdict, f"{subject} is right" if subject else "as it must be"
    if id_ == "doctor" and host.verdict is not Verdict.PASSED:
        verdict, reason = host.verdict, "a reason"
    if id_ == "smoke" and verdict is Verdict.PASSED:
        figures["exit code"] = 0
    if terms.batch:
        products = terms.batch * (FIRST + BLOCK * BLOCKS)
        figures |= {"digest": host.digests.get(subject, RIGHT), "products": products}
        figures |= {"odd": host.odd, "odd cold": host.odd, "odd hot": 0}
        verdict = Verdict.FAILED if host.odd else Verdict.PASSED
    if id_ in host.skipped:
        verdict = Verdict.SKIPPED
    return Check(id_, verdict, reason, 1.0, figures, group=group, subject=subject, aspect=aspect)


def _sum_up(checks: list[Check], card: str) -> None:
    rows = [one for one in checks if one.group == demanded.REPLAY and one.figures["card"] == card]
    for one in checks:
        if one.id == demanded.coverage_id(card):
            one.figures |= {"products": sum(int(row.figures["products"]) for row in rows)}
            one.figures |= {
                "odd": sum(int(row.figures["odd"]) for row in rows),
                "kernels": len({row.subject for row in rows}),
            }
            one.verdict = records.overall(row.verdict for row in rows)


def _row(host: MadeHost, rng: random.Random, card: str, terms: FigureTerms) -> Measurement:
    name, words = str(terms.words["workload"]), dict(terms.words)
    number = (*SUBJECTS, TOGETHER).index(name)
    seconds = (number + 1) * 0.01 * host.slow.get(name, 1.0) * (1 + rng.gauss(0, host.noise))
    figures: dict[str, Figure] = {
        "low": seconds, "high": seconds, "noise": 0.0, "samples": SAMPLES, "verified": f"{name} is right", "settled": True,
        "card": card, **terms.amounts, **{one.figure: one.least for one in terms.shown},
    }  # fmt: skip
    return Measurement(**words, value=seconds, samples=[seconds] * SAMPLES, figures=figures)  # type: ignore[arg-type]


def leave(folder: Path, *hosts: MadeHost) -> None:
    """Let hosts leave their records in the folder of a sweep."""
    (folder / answers.RECORDS).mkdir(parents=True, exist_ok=True)
    made = plan.load(folder) if (folder / plan.NAME).exists() else None
    for host in hosts:
        host.plan = host.plan or (made.id if made else "")
        kept = record(host, made.wants) if made else record(host)
        records.write(kept, answers.record_path(folder, host.name))


def fleet(
    folder: Path,
    count: int,
    *odd: MadeHost,
    silent: tuple[str, ...] = (),
    without: tuple[str, ...] = (),
    cards: int = 0,
) -> Path:
    """Make a sweep of equal hosts n01, n02, ... besides odd ones, with its plan; silent ones are in the plan alone."""
    equal = [MadeHost(f"n{number:02}") for number in range(1, count + 1)]
    named = [host.name for host in (*equal, *odd)]
    plan.make("sweep", "cpu", "tiny", [*named, *silent], seed=1, without=without, cards=cards).keep(folder)
    leave(folder, *equal, *odd)
    return folder

"""Hosts of a fleet as records in a folder: alike, but for what a test makes odd."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path

from stackproof.fleet import answers, plan
from stackproof.record import records
from stackproof.record.records import Check, Figure, Measurement, Record, Verdict

START = datetime.now(timezone.utc).isoformat(timespec="seconds")
SUBJECTS = ("gemm-float32", "attention-forward-float32", "copy-within", "copy-to-device-pinned", "training-yolov8n")
TOGETHER = "all-reduce-4-mib-2-ranks"
KERNELS = (
    "product-float32", "product-bfloat16", "product-float64", "product-float16", "convolution-float32", "convolution-bfloat16",
    "attention-float32", "attention-bfloat16", "exponential-float32",
)  # fmt: skip
PATTERNS = ("normal", "powers", "ones", "cancelling")
RIGHT = "00000000deadbeef"


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


def record(host: MadeHost) -> Record:
    """Return what a host leaves."""
    rng = random.Random(host.name)
    facts: dict[str, Figure] = {
        "host": host.name, "stack": "cpu", "rehearsed": False, "verified on": "cpu", "devices": host.cards, "cpu:0.name": "Some CPU",
        "torch": "2.15.0", "lock": "abc", "driver.nvidia-smi": "550.54", "profile": "tiny", "plan": host.plan, **host.facts,
    }  # fmt: skip
    checks = [
        Check("doctor", host.verdict, "a reason", 0.1),
        *(Check(name, Verdict.PASSED, "as it must be", 0.1) for name in ("environment", "smoke")),
    ]
    for check in checks:
        check.verdict = Verdict.SKIPPED if check.id in host.skipped else check.verdict
    rows = []
    for card in map(str, range(host.cards)):
        checks += [_replay(host, card, kernel, pattern) for kernel in KERNELS for pattern in PATTERNS]
        for number, subject in enumerate((*SUBJECTS, TOGETHER) if card == "0" else SUBJECTS):
            if subject not in host.lacks:
                seconds = (number + 1) * 0.01 * host.slow.get(subject, 1.0) * (1 + rng.gauss(0, host.noise))
                rows.append(
                    Measurement(
                        subject, "tiny", "float32", 1, "time", "s/GB", seconds, [seconds], version="1", figures={"card": card}
                    )
                )  # fmt: skip
    verdict = records.overall(check.verdict for check in checks)
    return Record("fleet", "cpu", host.began, 60.0, verdict, facts, checks, rows)


def _replay(host: MadeHost, card: str, kernel: str, pattern: str) -> Check:
    digest = host.digests.get(kernel, RIGHT)
    figures: dict[str, Figure] = {"card": card, "digest": digest, "products": 1000, "odd": host.odd}
    verdict = Verdict.FAILED if host.odd else Verdict.PASSED
    name = f"replay/{card}::{kernel}[{pattern}]"
    return Check(name, verdict, "replayed", 1.0, figures, group=answers.REPLAY, subject=kernel, aspect=pattern)


def leave(folder: Path, *hosts: MadeHost) -> None:
    """Let hosts leave their records in the folder of a sweep."""
    (folder / answers.RECORDS).mkdir(parents=True, exist_ok=True)
    id_ = plan.load(folder).id if (folder / plan.NAME).exists() else ""
    for host in hosts:
        host.plan = host.plan or id_
        records.write(record(host), answers.record_path(folder, host.name))


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

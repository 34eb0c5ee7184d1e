"""Hosts of a fleet as records in a folder: alike, but for what a test makes odd."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from stackproof.fleet import answers, plan
from stackproof.record import records
from stackproof.record.records import Check, Figure, Measurement, Record, Verdict

START = "2026-03-04T05:06:07+00:00"
SUBJECTS = ("gemm-float32", "attention", "copy-within", "copy-to-device", "training-yolov8n")
KERNELS = ("product-float32", "product-bfloat16")
PATTERNS = ("normal", "powers")
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


def record(host: MadeHost) -> Record:
    """Return what a host leaves."""
    rng = random.Random(host.name)
    facts: dict[str, Figure] = {
        "host": host.name, "stack": "cpu", "rehearsed": False, "verified on": "cpu", "devices": host.cards, "cpu:0.name": "Some CPU",
        "torch": "2.15.0", "lock": "abc", "driver.nvidia-smi": "550.54", **host.facts,
    }  # fmt: skip
    checks = [Check("doctor", host.verdict, "a reason", 0.1)]
    rows = []
    for card in map(str, range(host.cards)):
        checks += [_replay(host, card, kernel, pattern) for kernel in KERNELS for pattern in PATTERNS]
        for number, subject in enumerate(SUBJECTS):
            if subject not in host.lacks:
                seconds = (number + 1) * 0.01 * host.slow.get(subject, 1.0) * (1 + rng.gauss(0, host.noise))
                rows.append(
                    Measurement(
                        subject, "tiny", "float32", 1, "time", "s/GB", seconds, [seconds], version="1", figures={"card": card}
                    )
                )  # fmt: skip
    verdict = records.overall(check.verdict for check in checks)
    return Record("fleet", "cpu", START, 60.0, verdict, facts, checks, rows)


def _replay(host: MadeHost, card: str, kernel: str, pattern: str) -> Check:
    digest = host.digests.get(kernel, RIGHT)
    figures: dict[str, Figure] = {"card": card, "digest": digest, "products": 1000, "odd": host.odd}
    verdict = Verdict.FAILED if host.odd else Verdict.PASSED
    name = f"replay/{card}::{kernel}[{pattern}]"
    return Check(name, verdict, "replayed", 1.0, figures, group=answers.REPLAY, subject=kernel, aspect=pattern)


def leave(folder: Path, *hosts: MadeHost) -> None:
    """Let hosts leave their records in the folder of a sweep."""
    (folder / answers.RECORDS).mkdir(parents=True, exist_ok=True)
    for host in hosts:
        records.write(record(host), answers.record_path(folder, host.name))


def fleet(folder: Path, count: int, *odd: MadeHost, silent: tuple[str, ...] = ()) -> Path:
    """Make a sweep of equal hosts n01, n02, ... besides odd ones, with its plan; silent ones are in the plan alone."""
    equal = [MadeHost(f"n{number:02}") for number in range(1, count + 1)]
    named = [host.name for host in (*equal, *odd)]
    plan.make("sweep", "cpu", "tiny", [*named, *silent], seed=1).keep(folder)
    leave(folder, *equal, *odd)
    return folder

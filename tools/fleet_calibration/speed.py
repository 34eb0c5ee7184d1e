"""How long judging takes, and how much memory: records of many hosts on a disk, judged by the verb in a process of its own."""

from __future__ import annotations

import random
import resource
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from stackproof.base.statistics import median_interval
from stackproof.extras.fleet import answers, demanded, plan, rules
from stackproof.extras.fleet.demanded import CheckTerms, FigureTerms
from stackproof.extras.fleet.plan import FleetPlan
from stackproof.record import records
from stackproof.record.records import Check, Figure, Measurement, Record, Verdict

_STACK, _PROFILE = "cpu", "tiny"
_BLOCKS = 20
"""Of each row of the replay."""


@dataclass(frozen=True)
class Speed:
    """What judging so many records took."""

    hosts: int
    mib_each: float
    seconds: float
    mib: float


def measured(hosts: int, folder: Path) -> Speed:
    """Write the records of so many hosts, and judge them; seconds of one core, which a busy host does not change much."""
    names = [f"n{number:05}" for number in range(hosts)]
    made = plan.make("speed", _STACK, _PROFILE, names)
    made.keep(folder)
    for name in names:
        records.write(_record(name, made), answers.record_path(folder, name))
    command = [sys.executable, "-m", "stackproof", "fleet", "judge", str(folder), "--json", str(folder / "out.json")]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    took = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    peak = after.ru_maxrss / 1024
    size = answers.record_path(folder, names[0]).stat().st_size / (1 << 20)
    return Speed(hosts, size, took, peak)


def _record(name: str, made: FleetPlan) -> Record:
    """Return a record of the length of a real one: fifty facts, five subjects of twenty samples, and all rows of the replay."""
    dice, terms = random.Random(name), demanded.demand(made.wants, 1)
    facts: dict[str, Figure] = {f"package.some-{number}": "1.2.3" for number in range(40)}
    facts |= {
        "host": name, "stack": _STACK, "rehearsed": False, "verified on": "cpu", "cards": 1, "devices": 1, "cpu:0.name": "Some CPU",
        "pinned": True, "lock": "0" * 64, "files hashed": 27636, "plan": made.id, "profile": made.profile,
    }  # fmt: skip
    checks = [_check(id_, one) for id_, one in terms.checks.items()]
    rows = [_row(one, dice) for one in terms.figures.values()]
    whole = next(check for check in checks if check.id == demanded.coverage_id("0"))
    replays = [check for check in checks if check.group]
    whole.figures |= {"products": sum(int(check.figures["products"]) for check in replays), "odd": 0}
    whole.figures["kernels"] = len({check.subject for check in replays})
    return Record("fleet", _STACK, made.made, 60.0, Verdict.PASSED, facts, checks, rows)


def _check(id_: str, terms: CheckTerms) -> Check:
    group, subject, aspect = terms.words
    figures: dict[str, Figure] = {"card": terms.card} if terms.card else {}
    if id_ == "smoke":
        figures["exit code"] = 0
    if terms.batch:
        products = terms.batch * (rules.FIRST + _BLOCKS * rules.BLOCK)
        figures |= {"digest": "00000000deadbeef", "products": products, "odd": 0, "odd cold": 0, "odd hot": 0}
    return Check(id_, terms.verdict, "as it must be", 1.0, figures, group=group, subject=subject, aspect=aspect)


def _row(terms: FigureTerms, dice: random.Random) -> Measurement:
    samples = [1 + dice.gauss(0, 0.004) for _ in range(21)]
    known = median_interval(samples)
    figures: dict[str, Figure] = {
        "low": known.low, "high": known.high, "noise": known.relative, "samples": len(samples), "verified": "as it must be",
        "settled": True, "card": "0", **terms.amounts, **{one.figure: one.least for one in terms.shown},
    }  # fmt: skip
    return Measurement(**terms.words, value=known.median, samples=samples, figures=figures)  # type: ignore[arg-type]


def told(speed: Speed) -> str:
    """Return it in a sentence."""
    size = f"{speed.hosts:,} records of {1024 * speed.mib_each:.0f} KiB each"
    return f"{size} are judged in {speed.seconds:.1f} s of one core and {speed.mib:.0f} MiB."

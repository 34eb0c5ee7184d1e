"""How long judging takes, and how much memory: records of many hosts on a disk, judged by the verb in a process of its own."""

from __future__ import annotations

import random
import resource
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from stackproof.fleet import answers, plan, wanted
from stackproof.fleet.plan import FleetPlan
from stackproof.record import records
from stackproof.record.records import Check, Figure, Measurement, Record, Verdict

_STACK, _PROFILE = "cpu", "tiny"


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
    dice = random.Random(name)
    facts: dict[str, Figure] = {f"package.some-{number}": "1.2.3" for number in range(40)}
    facts |= {
        "host": name,
        "stack": _STACK,
        "rehearsed": False,
        "verified on": "cpu",
        "devices": 1,
        "cpu:0.name": "Some CPU",
    }
    facts |= {"plan": made.id, "profile": made.profile}
    checks = [Check(what, Verdict.PASSED, "as it must be", 1.0, {}) for what in wanted.STEPS]
    for row in sorted(row for rows in wanted.rows_of(_STACK).values() for row in rows):
        kernel, pattern = row.split()
        figures: dict[str, Figure] = {"card": "0", "digest": "00000000deadbeef", "products": 4000, "odd": 0}
        checks.append(
            Check(row, Verdict.PASSED, "4000 products", 1.0, figures, group="replay", subject=kernel, aspect=pattern)
        )
    subjects = (*wanted.subjects_of(_STACK, _PROFILE), *wanted.together_of(_STACK, _PROFILE, 1))
    rows = [_row(subject, "1", "s/TFLOP", dice) for subject in subjects]
    return Record("fleet", _STACK, made.made, 60.0, Verdict.PASSED, facts, checks, rows)


def _row(name: str, version: str, unit: str, dice: random.Random) -> Measurement:
    samples = sorted(1 + dice.gauss(0, 0.004) for _ in range(21))
    return Measurement(
        name, "tiny", "float32", 1, "time", unit, samples[10], samples, version=version, figures={"card": "0"}
    )


def told(speed: Speed) -> str:
    """Return it in a sentence."""
    size = f"{speed.hosts:,} records of {1024 * speed.mib_each:.0f} KiB each"
    return f"{size} are judged in {speed.seconds:.1f} s of one core and {speed.mib:.0f} MiB."

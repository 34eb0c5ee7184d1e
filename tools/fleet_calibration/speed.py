"""How long judging takes, and how much memory: records of many hosts on a disk, judged by the verb in a process of its own."""

from __future__ import annotations

import random
import resource
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from stackproof.fleet import answers, plan
from stackproof.record import records
from stackproof.record.records import Check, Figure, Measurement, Record, Verdict
from tools.fleet_calibration.worlds import SUBJECTS

_ROWS = [
    f"product-{dtype} {pattern}"
    for dtype in ("float32", "bfloat16", "float64")
    for pattern in ("normal", "powers", "small")
]


@dataclass(frozen=True)
class Speed:
    """What judging so many records took."""

    hosts: int
    mib_each: float
    seconds: float
    mib: float


def measured(hosts: int, folder: Path) -> Speed:
    """Write the records of so many hosts, judge them once so that files are in memory, and once more with a clock."""
    names = [f"n{number:05}" for number in range(hosts)]
    plan.make("speed", "cpu", "tiny", names).keep(folder)
    for name in names:
        records.write(_record(name), answers.record_path(folder, name))
    command = [sys.executable, "-m", "stackproof", "fleet", "judge", str(folder), "--json", str(folder / "out.json")]
    began = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    took = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    size = answers.record_path(folder, names[0]).stat().st_size / (1 << 20)
    return Speed(hosts, size, took, peak)


def _record(name: str) -> Record:
    """Return a record of the length of a real one: fifty facts, five subjects of twenty samples, nine rows of a replay."""
    dice = random.Random(name)
    facts: dict[str, Figure] = {f"package.some-{number}": "1.2.3" for number in range(40)}
    facts |= {
        "host": name,
        "stack": "cpu",
        "rehearsed": False,
        "verified on": "cpu",
        "devices": 1,
        "cpu:0.name": "Some CPU",
    }
    checks = [Check(f"{what}::all", Verdict.PASSED, "as it must be", 1.0, {}) for what in ("doctor", "smoke")]
    for row in _ROWS:
        kernel, pattern = row.split()
        figures: dict[str, Figure] = {"card": "0", "digest": "00000000deadbeef", "products": 4000, "odd": 0}
        checks.append(
            Check(row, Verdict.PASSED, "4000 products", 1.0, figures, group="replay", subject=kernel, aspect=pattern)
        )
    rows = [_row(key.name, key.version, key.unit, dice) for key in SUBJECTS]
    return Record("fleet", "cpu", "2026-01-01T00:00:00+00:00", 60.0, Verdict.PASSED, facts, checks, rows)


def _row(name: str, version: str, unit: str, dice: random.Random) -> Measurement:
    samples = sorted(1 + dice.gauss(0, 0.004) for _ in range(21))
    return Measurement(
        name, "tiny", "float32", 1, "time", unit, samples[10], samples, version=version, figures={"card": "0"}
    )


def told(speed: Speed) -> str:
    """Return it in a sentence."""
    return f"{speed.hosts:,} records of {1024 * speed.mib_each:.0f} KiB each are judged in {speed.seconds:.1f} s and {speed.mib:.0f} MiB."

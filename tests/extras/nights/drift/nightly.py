"""Makes nights: records of both sides at one place, with steps of the code, the driver or the machine where a test wants them."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

from stackproof.extras.nights.drift import series
from stackproof.extras.nights.drift.findings import PlaceDrift, Suspicion, examine, gate_results
from stackproof.extras.nights.drift.series import FigureKey, Measured, Night, side_row
from stackproof.record.records import Check, Figure, Kind, Record, Verdict, write

BEGAN = datetime(2026, 1, 1, 2, tzinfo=timezone.utc)
KEY = FigureKey("gemm-float32", "tiny", "s/TFLOP", "1")
LAUNCHES = 6
FACTS: dict[str, Figure] = {
    "stack": "cuda", "host": "box", "verified on": "cuda", "machine": "x86_64", "cpus": 16, "devices": 1,
    "cuda:0.name": "NVIDIA L40S", "driver.nvidia-smi": "580.65.06", "lock": "f" * 64, "kernel": "6.8.0",
}  # fmt: skip


@dataclass(frozen=True)
class Story:
    """What happens at one place: a commit a night, and steps (log of the seconds) from a night on.

    `noise`: of each side of a night, `shared`: of both sides alike. `code`, `driver`, `machine`, `lock`: night and size of a step.
    """

    count: int = 60
    seed: int = 1
    noise: float = 0.005
    shared: float = 0.005
    code: tuple[int, float] = (10**6, 0.0)
    driver: tuple[int, float] = (10**6, 0.0)
    machine: tuple[int, float] = (10**6, 0.0)
    lock: tuple[int, float] = (10**6, 0.0)
    facts: dict[str, Figure] = field(default_factory=dict)


def commit(number: int) -> str:
    """Return the commit of a night."""
    return f"{number:04x}" * 10


def record(
    day: int, today: Sequence[float], anchor: Sequence[float], facts: Mapping[str, Figure] | None = None
) -> Record:
    """Return the record of one night; `facts` are added to its provenance."""
    sides = {Measured.TODAY: today, Measured.ANCHOR: anchor}
    rows = [side_row(KEY, side, samples) for side, samples in sides.items() if samples]
    check = Check("night/figures", Verdict.PASSED, "both sides were measured", 1.0)
    provenance = {**FACTS, "commit": commit(day), series.ANCHOR: "a" * 64, **(facts or {})}
    started = (BEGAN + timedelta(days=day)).isoformat(timespec="milliseconds")
    return Record(series.VERB, "cuda", started, 1.0, Verdict.PASSED, provenance, [check], rows)


def told(story: Story) -> list[Record]:
    """Return the records of a story."""
    dice, found = random.Random(story.seed), []
    for day in range(story.count):
        steps = {name: getattr(story, name) for name in ("code", "driver", "machine", "lock")}
        now = {name: size if day >= night else 0.0 for name, (night, size) in steps.items()}
        both = dice.gauss(0, story.shared) + now["driver"] + now["machine"]
        today, anchor = (both + dice.gauss(0, story.noise) for _ in range(2))
        facts: dict[str, Figure] = {}
        if day >= story.driver[0]:
            facts["driver.nvidia-smi"] = "590.10.01"
        if day >= story.lock[0]:
            facts["lock"] = "e" * 64
        one, other = (
            [1e-3 * math.exp(value + dice.gauss(0, 0.001)) for _ in range(LAUNCHES)]
            for value in (today + now["code"] + now["lock"], anchor)
        )
        found.append(record(day, one, other, facts | story.facts))
    return found


def read(records: Sequence[Record]) -> list[Night]:
    """Return the nights of these records."""
    found = [series.night(Path(f"n{number:03}.record.json"), one) for number, one in enumerate(records)]
    assert all(isinstance(one, Night) for one in found), found
    return [one for one in found if isinstance(one, Night)]


def gate(day: int, base: str, head: str, ratio: float, half: float = 0.01, **facts: Figure) -> Record:
    """Return the record of a gate on the evening of a night: head over base, and half the width of its interval."""
    figures: dict[str, Figure] = {"ratio": ratio, "ratio, low": ratio - half, "ratio, high": ratio + half}
    word = Verdict.FAILED if ratio - half > 1 else Verdict.PASSED
    check = Check("gate/gemm-float32::time", word, "seen", 1.0, figures, Kind.CELL, "", "gemm-float32", "time")
    started = (BEGAN + timedelta(days=day, hours=1)).isoformat(timespec="milliseconds")
    return Record("gate", "cuda", started, 1.0, word, {**FACTS, "base": base, "head": head, **facts}, [check], [])


def judged(records: Sequence[Record], gates: Sequence[Record] = ()) -> PlaceDrift:
    """Return what the nights of one place tell."""
    found = read(records)
    return examine(found[0].place, found, gate_results({Path(f"g{number}"): one for number, one in enumerate(gates)}))


def steps(records: Sequence[Record]) -> list[Suspicion]:
    """Return what is suspected, and what no gate can show and has lasted."""
    found = judged(records)
    return [*found.suspicions, *found.confirmed]


def kept(folder: Path, records: Sequence[Record]) -> Path:
    """Write records where a store finds them."""
    for number, one in enumerate(records):
        write(one, folder / f"{number:04}.record.json")
    return folder


def on(day: int, one: Record) -> Record:
    """Return a record of another day."""
    return replace(one, started=(BEGAN + timedelta(days=day)).isoformat(timespec="milliseconds"))

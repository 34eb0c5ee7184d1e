"""A stored record as the base: a gate's or a benchmark's, of an earlier time. Nothing is interleaved, and the verdict says so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from stackproof.base.errors import Refusal
from stackproof.gate.interleave import Launch, Observed
from stackproof.record import reading
from stackproof.record.records import Figure, Measurement, Record

METRIC = "gate"
"""What marks the rows that a gate stores of a side; a benchmark's are named after the kind of work."""
COUNTER = "counter "
_BY_ROW = ("gate", "night")
"""Verbs whose record may be bad by another row than the one that is compared."""


@dataclass(frozen=True)
class Stored:
    """What a record knows of a base."""

    path: Path
    facts: Mapping[str, Figure]
    rows: Mapping[str, Measurement] = field(default_factory=dict)

    def seen(self, subject: str, unit: str, version: str, worth: Mapping[str, float]) -> Observed | None:
        """Return the stored subject in seconds per run of the head's work, or None where it is not comparable.

        `worth`: what one run of the head is, because records keep seconds per unit of work.
        """
        row = self.rows.get(subject)
        if row is None or row.unit != unit:
            return None
        if version != (row.figures.get("subject version", "") if row.metric == METRIC else row.version):
            return None
        amount = 1.0 if unit in ("s", "ratio") else worth[unit.removeprefix("s/")]
        launches = row.samples if row.metric == METRIC else [median(row.samples)]
        counters = {
            name.removeprefix(COUNTER): int(value)
            for name, value in row.figures.items()
            if name.startswith(COUNTER) and isinstance(value, (int, float))
        }
        # the memory of a benchmark's process, which measures many subjects, is another thing
        peak = row.figures.get("peak-memory") if row.metric == METRIC else None
        quantities = {"peak-memory": float(peak)} if isinstance(peak, (int, float)) and peak > 0 else {}
        return Observed(
            [seconds * amount for seconds in launches], dict(worth), quantities=quantities, counters=counters
        )


def load(path: Path, preset: str) -> Stored:
    """Read a record of `gate` or `bench`; one without figures of this preset is refused."""
    record = reading.read_verified(path)
    if record.verdict.exit_code not in (0, 6) and record.verb not in _BY_ROW:
        raise Refusal(
            f"{path}: that run ended as '{record.verdict.value}'; take a record of a run that passed as the base"
        )
    rows = {row.workload: row for row in record.measurements if row.preset == preset and _usable(row)}
    if not rows:
        raise Refusal(
            f"{path}: holds no figures of preset '{preset}' to compare with; it is a record of '{record.verb}', "
            "and one of `gate` or `bench` of the same profile is needed"
        )
    return Stored(path, record.provenance, rows)


def _usable(row: Measurement) -> bool:
    """Of a gate, the head's rows: they are what was accepted; of a benchmark, those with a version, which are not converted."""
    if row.metric == METRIC:
        return row.figures.get("side") == "head"
    return bool(row.version) and row.world_size == 1 and bool(row.samples)


def store(record: Record, launches: list[Launch], subjects: Mapping[str, Mapping[str, str]], preset: str) -> None:
    """Add what each side was seen to do to the record, in seconds per unit of work, one sample a launch."""
    names = dict.fromkeys(name for launch in launches for name in launch.seen if name in subjects)
    for name in names:
        for side in ("base", "head"):
            every = [launch.seen[name][side] for launch in launches if side in launch.seen.get(name, {})]
            if seen := [one for one in every if one.blocks]:
                record.measurements.append(_row(name, side, seen, subjects[name], preset))


def _row(name: str, side: str, seen: list[Observed], subject: Mapping[str, str], preset: str) -> Measurement:
    unit = subject["unit"]
    amount = 1.0 if unit in ("s", "ratio") else seen[0].worth[unit.removeprefix("s/")]
    samples = [median(one.blocks) / amount for one in seen]
    figures: dict[str, Figure] = {"side": side, "subject version": subject["version"], "verified": seen[0].proved}
    figures |= {
        quantity: median([one.quantities[quantity] for one in seen if quantity in one.quantities])
        for quantity in seen[0].quantities
    }
    figures |= {f"{COUNTER}{counter}": count for counter, count in seen[0].counters.items()}
    return Measurement(name, preset, "", 1, METRIC, unit, median(samples), samples, f"gate, {side}", "", figures)

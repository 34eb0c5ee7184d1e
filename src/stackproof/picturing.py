"""Figures of a benchmark in a terminal: rates with their uncertainty, a sparkline of the samples, shares of what is possible."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from .console import plain
from .history import reference
from .records import Measurement, Record
from .units import shown

_BARS = " ▁▂▃▄▅▆▇█"
_PLAIN_BARS = " .:-=+*#@"
_BINS = 10
_TAIL = 0.02
"""The slowest samples are in the last bin together: one hiccup must not flatten all others into the first."""
_WIDTH = 6


def applies(record: Record) -> bool:
    """Whether the record holds figures of the engine, which say how well they are known."""
    return any("noise" in row.figures for row in record.measurements)


def figures(record: Record, console: Console) -> RenderableType:
    """Return the table of all measurements, and below it what limits them."""
    bars = _BARS if console.encoding.lower().startswith("utf") else _PLAIN_BARS
    ceilings, rows = _ceilings(record), _by_subject(record)
    table = Table(title="figures", title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("what", overflow="fold")
    for name in ("ranks", "rate", "±", "fast .. slow", "of peak", "of ceiling", "memory", "reference"):
        shares = name.startswith("of ")
        table.add_column(
            name, justify="right" if name in ("ranks", "rate", "±", "memory") else "left", no_wrap=not shares
        )
    for rows_of_one in rows:
        table.add_row(*(Text(plain(cell)) for cell in _cells(rows_of_one, ceilings, bars)))
    notes = [
        Text(plain(f"  {rows_of_one[0].workload}: {rows_of_one[0].note}"))
        for rows_of_one in rows
        if rows_of_one[0].note
    ]
    return Group(table, *notes, Text()) if notes else table


def _by_subject(record: Record) -> list[list[Measurement]]:
    """Group the rows that are one measurement in several units; the first of each holds the figures."""
    return [list(group) for _, group in groupby(record.measurements, key=lambda row: (row.workload, row.world_size))]


def _ceilings(record: Record) -> dict[tuple[str, str], float]:
    """Return the best matrix product in TFLOP/s of each arithmetic and preset: what this device really reaches."""
    found: dict[tuple[str, str], float] = {}
    for row in record.measurements:
        if row.metric == "gemm" and row.unit == "s/TFLOP" and row.value > 0:
            key = (str(row.figures.get("arithmetic", row.dtype)), row.preset)
            found[key] = max(found.get(key, 0.0), 1 / row.value)
    return found


def _cells(rows: list[Measurement], ceilings: dict[tuple[str, str], float], bars: str) -> list[str]:
    first = rows[0]
    noise, memory = _number(first, "noise"), _number(first, "peak_memory_bytes")
    return [
        first.workload,
        str(first.world_size),
        "\n".join(shown(row.value, row.unit) for row in rows),
        "" if noise is None else f"{noise:.1%}",
        sparkline(first.samples, bars),
        _share(_number(first, "of_peak"), bars),
        _share(_of_ceiling(rows, ceilings), bars),
        "" if not memory else f"{memory / 1e9:.2f} GB",
        _references(rows),
    ]


def _of_ceiling(rows: list[Measurement], ceilings: dict[tuple[str, str], float]) -> float | None:
    """Return the share of the measured ceiling of the same arithmetic; products are the ceiling themselves."""
    first = rows[0]
    ceiling = ceilings.get((str(first.figures.get("arithmetic", "")), first.preset))
    rate = next((1 / row.value for row in rows if row.unit == "s/TFLOP" and row.value > 0), None)
    return rate / ceiling if ceiling and rate and first.metric != "gemm" else None


def _share(share: float | None, bars: str) -> str:
    if share is None:
        return ""
    full, rest = divmod(min(max(share, 0.0), 1.0) * _WIDTH, 1)
    bar = (bars[-1] * int(full) + (bars[int(rest * (len(bars) - 1))] if rest else "")).strip()
    return f"{share:.0%} {bar}" if share >= 0.01 else f"{share:.2g}"


def _references(rows: list[Measurement]) -> str:
    """Return what others measured of the same work, each with its device; nobody verified it."""
    found = (told for row in rows for told in reference.find(row.workload, row.preset, row.unit))
    return "\n".join(dict.fromkeys(f"{shown(told.seconds, told.unit)} ({told.device})" for told in found))


def _number(row: Measurement, name: str) -> float | None:
    value = row.figures.get(name)
    return float(value) if isinstance(value, (int, float)) else None


def sparkline(samples: Sequence[float], bars: str = _BARS) -> str:
    """Return a histogram of the samples in ten characters, fast ones left; nothing where there are too few for a shape."""
    if len(samples) < _BINS:
        return ""
    ordered = sorted(samples)
    low, high = ordered[0], ordered[int(len(ordered) * (1 - _TAIL)) - 1]
    if high <= low:
        return bars[-1]
    counts = [0] * _BINS
    for sample in ordered:
        counts[min(_BINS - 1, int((sample - low) / (high - low) * _BINS))] += 1
    most = max(counts)
    return "".join(bars[-(-count * (len(bars) - 1) // most)] for count in counts)

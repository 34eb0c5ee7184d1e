"""What a device could do at best (`fixtures/peaks.toml`), and what share of it a figure is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache

from .. import ROOT
from ..tables import Table

FILE = ROOT / "fixtures" / "peaks.toml"
_ARITHMETIC = ("float64", "float32", "tf32", "bfloat16", "float16")


@dataclass(frozen=True)
class Peak:
    """A device's published rates: TFLOP/s by arithmetic, GB/s of its memory, and who published them."""

    names: tuple[str, ...]
    source: str
    bandwidth: float
    tflops: Mapping[str, float]


@cache
def peaks() -> tuple[Peak, ...]:
    """Return all devices of the file."""
    with Table.load(FILE) as table:
        return tuple(map(_peak, table.tables("device")))


def find(name: str) -> Peak | None:
    """Return the peak of a device by torch's name of it; None where none is known, and then nothing is guessed."""
    return next((row for row in peaks() if any(fnmatchcase(name, pattern) for pattern in row.names)), None)


def _peak(table: Table) -> Peak:
    with table:
        names, source = table.strings("names"), table.take("source", str)
        bandwidth = table.take("bandwidth", float)
        with table.table("tflops") as rates:
            found = {name: rates.take(name, float, -1.0) for name in _ARITHMETIC}
    return Peak(names, source, bandwidth, {name: rate for name, rate in found.items() if rate > 0})


def utilisation(name: str, arithmetic: str, tflop_per_s: float) -> float | None:
    """Return the share of the device's peak that a rate in TFLOP/s is; None where the peak is not known."""
    peak = find(name)
    limit = peak.tflops.get(arithmetic) if peak else None
    return tflop_per_s / limit if limit else None

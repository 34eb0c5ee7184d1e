"""A measurement as rows of a record: one with all that explains it, and one for each other unit that people read it in."""

from __future__ import annotations

import math

from ..records import Figure, Measurement
from . import peaks
from .sampled import Sampled


def measurements(sampled: Sampled, metric: str, device_name: str) -> list[Measurement]:
    """Return the rows; the first has the subject's own unit, its version, by which histories go, and its figures."""
    if not sampled.samples:
        return []
    first = _row(sampled, metric, sampled.unit)
    first.version, first.figures = sampled.version, figures(sampled, device_name)
    return [first, *(_row(sampled, metric, unit) for unit in _others(sampled))]


def _others(sampled: Sampled) -> list[str]:
    """Return the other units worth a row: steps are of interest where they hold samples."""
    wanted = [unit for unit in sampled.units[1:] if unit != "s/iteration"]
    return [*wanted, *(["s/iteration"] if "sample" in sampled.worth and sampled.unit != "s/iteration" else [])]


def _row(sampled: Sampled, metric: str, unit: str) -> Measurement:
    samples = list(sampled.seconds_per(unit))
    value = sampled.median * samples[0] / sampled.samples[0]
    return Measurement(
        workload=sampled.subject, preset=sampled.preset, dtype=sampled.dtype, world_size=sampled.world_size, metric=metric,
        unit=unit, value=value, samples=samples, note="; ".join(sampled.notes),
    )  # fmt: skip


def figures(sampled: Sampled, device_name: str) -> dict[str, Figure]:
    """Return what explains a measurement, flat."""
    interval = sampled.interval
    found: dict[str, Figure] = {
        "low": interval.low, "high": interval.high, "noise": interval.relative, "samples": len(sampled.samples),
        "verified": sampled.reason, "settled": sampled.settled, "peak_memory_bytes": sampled.peak_memory_bytes,
    }  # fmt: skip
    found |= {f"one run, {thing}": amount for thing, amount in sampled.worth.items()}
    return {**found, **_of_peak(sampled, device_name), **sampled.clocks, **sampled.facts}


def _of_peak(sampled: Sampled, device_name: str) -> dict[str, Figure]:
    """Return the share of the device's published peak, with the peak and its source; nothing where it is not known."""
    found: dict[str, Figure] = {"arithmetic": sampled.arithmetic} if sampled.arithmetic else {}
    peak, per_run = peaks.find(device_name), sampled.per_run
    if peak is None or not math.isfinite(per_run) or sampled.world_size > 1:
        return found
    if share := peaks.utilisation(device_name, sampled.arithmetic, sampled.worth.get("TFLOP", 0.0) / per_run):
        found |= {"of_peak": share, "peak_tflops": peak.tflops[sampled.arithmetic], "peak_source": peak.source}
    if sampled.facts.get("memory") == "device":
        found |= {
            "of_peak": sampled.worth["GB"] / per_run / peak.bandwidth,
            "peak_gb_s": peak.bandwidth,
            "peak_source": peak.source,
        }
    return found

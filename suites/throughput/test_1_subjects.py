"""Figures that can be believed: each subject is verified in this process, and only then timed, to a noise target.

Runs are timed in blocks, and what a block leaves tells whether each of its runs was done, and all of it. Blocks beside the first two
and the last are compared as chance picks them. Not seen: what docs/figures.md names. A rate above the published peak fails.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from stackproof.base.text import shown
from stackproof.bench.engine import measure
from stackproof.bench.rows import OwnBounds, measurements
from stackproof.bench.subjects import Profile, Subject
from stackproof.device.kinds import Device
from stackproof.record.checks import require
from stackproof.record.records import Figure, Measurement
from stackproof.runner.request import Request


@pytest.mark.deadline(900)
def test_measured(
    subject: Subject,
    chosen: Profile,
    device: Device,
    preset: str,
    run_request: Request,
    measured: Callable[[Measurement], None],
    figures: dict[str, Figure],
    bounds: OwnBounds,
) -> None:
    """Verify one run, warm up until its time settles, sample until the median is known, and keep every sample."""
    budget = replace(chosen.budget, allow_foreign=bool(run_request.options.get("allow_foreign")))
    sampled = measure(subject, device, preset, budget)
    require(sampled.verified, f"computes wrong and was not timed: {sampled.reason}")
    require(min(sampled.samples) > 0, "a run took no time: the clock or synchronisation does nothing")
    sampled = bounds.compared(sampled)
    bounds.note(sampled, subject.kind)
    for row in measurements(sampled, subject.kind, device.name()):
        measured(row)
    figures |= {"samples": len(sampled.samples), "noise": sampled.noise, "peak_memory_bytes": sampled.peak_memory_bytes}
    summary = f"{shown(sampled.median, sampled.unit)} to within {sampled.noise:.1%}, {len(sampled.samples)} samples"
    if "watts" in sampled.facts:
        summary += f", {sampled.facts['joules of a run']:.3g} J a run at {sampled.facts['watts']:.0f} W"
    figures["summary"] = f"{summary}; {sampled.reason}"

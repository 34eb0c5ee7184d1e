"""Times single calls as `bench` does: verified, in blocks whose results are checked, by the slope of spans."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from stackproof.base.text import shown
from stackproof.bench import engine
from stackproof.bench.rows import measurements, result
from stackproof.bench.sampling import calibrate
from stackproof.bench.subjects import Subject, profile
from stackproof.device.kinds import Device
from stackproof.probes.spans import Sampler
from stackproof.record.records import Figure, Measurement
from stackproof.runner.request import Request
from stackproof.workloads.work import Work

VERSION = "2"
_MOST_S = 1.0

Timed = Callable[[str, Work], None]


@pytest.fixture
def timed(
    device: Device,
    preset: str,
    run_request: Request,
    measured: Callable[[Measurement], None],
    figures: dict[str, Figure],
) -> Timed:
    """Return a function that times work that is one call and adds the measurement to the record."""
    calibrate(device)
    budget = profile(run_request.options["profile"]).budget
    budget = replace(budget, seconds=min(_MOST_S, budget.seconds))

    def take(name: str, work: Work) -> None:
        fields = engine.timed(work, Sampler(device, work.run, begin=work.begin, most=work.most_runs), budget)
        subject = Subject(f"latency-{name}", VERSION, "latency", "s", "", (), (), {}, run_request.stack)
        sampled = result(subject, preset, **fields)
        for row in measurements(sampled, "latency", device.name()):
            measured(row)
        summary = f"{shown(sampled.median, 's')} to within {sampled.noise:.1%}, {len(sampled.samples)} samples"
        figures["summary"] = f"{summary}; {sampled.reason}"

    return take

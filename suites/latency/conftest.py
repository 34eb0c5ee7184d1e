"""Times with pytest-benchmark, by a timer that waits for the device; its JSON is kept beside the run's logs."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stackproof.base.statistics import median_interval
from stackproof.base.text import shown
from stackproof.bench.sampling import calibrate
from stackproof.bench.subjects import profile
from stackproof.device.kinds import Device
from stackproof.record.records import Figure, Measurement
from stackproof.runner.request import Request

VERSION = "1"
_ROUND_S = 1e-3
_MOST_S = 1.0

Timed = Callable[[str, Callable[[], object]], None]


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Let pytest-benchmark write its JSON into the folder of this run."""
    config.option.benchmark_json = (Path(Request.load().folder) / "benchmark.json").open("wb")


@pytest.fixture(autouse=True)
def synchronising(request: pytest.FixtureRequest, device: Device, run_request: Request) -> None:
    """Time rounds of at least a millisecond with a timer that waits for the device; comes before the fixture `benchmark`."""
    calibrate(device)

    def now() -> float:
        device.synchronize()
        return time.perf_counter()

    seconds = min(_MOST_S, profile(run_request.options["profile"]).budget.seconds)
    request.node.add_marker(
        pytest.mark.benchmark(timer=now, min_time=_ROUND_S, max_time=seconds, min_rounds=20, disable_gc=True)
    )


@pytest.fixture
def timed(
    benchmark: Any,
    preset: str,
    measured: Callable[[Measurement], None],
    figures: dict[str, Figure],
) -> Timed:
    """Return a function that times a call and adds the measurement to the record."""

    def take(name: str, call: Callable[[], object]) -> None:
        benchmark(call)
        samples = [float(sample) for sample in benchmark.stats.as_dict(include_data=True)["stats"]["data"]]
        found = median_interval(samples)
        told: dict[str, Figure] = {
            "low": found.low,
            "high": found.high,
            "noise": found.relative,
            "samples": len(samples),
        }
        row = Measurement(
            f"latency-{name}", preset, "float32", 1, "latency", "s", found.median, samples, "", VERSION, told
        )
        measured(row)
        figures["summary"] = f"{shown(found.median, 's')} to within {found.relative:.1%}, {len(samples)} rounds"

    return take

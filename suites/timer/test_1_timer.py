"""Time is real: the clock runs, work that doubles takes twice as long, synchronising waits, events tell the same."""

from __future__ import annotations

import pytest

from stackproof.device.kinds import Device
from stackproof.probes import clock
from stackproof.record.checks import require
from stackproof.record.records import Figure


@pytest.fixture(scope="module")
def spans(device: Device) -> clock.Spans:
    """Nine turns of k and of 2k matrix products, timed once for all checks."""
    return clock.measure(device, clock.products(device))


@pytest.mark.deadline(30)
def test_clock(figures: dict[str, Figure]) -> None:
    """The fine clock and the kernel's raw counter agree over short sleeps."""
    figures["ratio"] = ratio = clock.clock()
    low, high = clock.RATE
    require(low <= ratio <= high, f"the clock goes {ratio:.3f} s a second; {low} to {high} were expected")
    figures["summary"] = f"{ratio:.4f} s a second"


@pytest.mark.deadline(90)
def test_wall_time_scales(spans: clock.Spans, figures: dict[str, Figure]) -> None:
    """Twice the work takes about twice as long by the wall clock, up to where the result is there."""
    factor = clock.scales(spans, clock.complete, "wall clock")
    figures |= {"factor": factor, "units": spans.units, "launch_s": min(turn.launch for turn in spans.single)}
    figures["summary"] = f"2 x {spans.units} units took {factor:.2f} times as long as {spans.units}"


@pytest.mark.deadline(90)
def test_device_time_scales(spans: clock.Spans, figures: dict[str, Figure]) -> None:
    """Twice the work takes about twice as long by the device's own clock."""
    figures["factor"] = factor = clock.scales(spans, lambda turn: turn.device, "device's clock")
    figures["summary"] = f"2 x {spans.units} units took {factor:.2f} times as long as {spans.units}"


@pytest.mark.deadline(90)
def test_synchronize_waits(spans: clock.Spans, figures: dict[str, Figure]) -> None:
    """When synchronising returns the result is there (docs/users-reports.md A6)."""
    figures["left"] = share = clock.waits(spans)
    figures["summary"] = f"{share:.1%} of the time was left when synchronising returned, {clock.LATE:.0%} allowed"


@pytest.mark.deadline(90)
def test_events_agree(spans: clock.Spans, figures: dict[str, Figure]) -> None:
    """The device's time of the same work is the wall clock's."""
    figures["share"] = share = clock.agrees(spans)
    figures["summary"] = f"the device's time is {share:.3f} of the wall clock's"

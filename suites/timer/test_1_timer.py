"""Time is real: the clock runs, work that doubles takes twice as long, synchronising waits, events tell the same.

Not seen: a counter that the whole kernel reads wrong, and a device's clock over more than two seconds.
"""

from __future__ import annotations

import pytest

from stackproof.device.kinds import Device
from stackproof.probes import clock
from stackproof.record.records import Figure


@pytest.fixture(scope="module")
def spans(device: Device) -> clock.Spans:
    """Nine turns of k and of 2k matrix products, timed once for all checks."""
    return clock.measure(device, clock.products(device))


@pytest.mark.deadline(60)
def test_clock(figures: dict[str, Figure]) -> None:
    """The clock that times everything is the kernel's raw counter over milliseconds and seconds, and so it is for another process."""
    kept = clock.host_clock()
    figures |= {"spans": kept.spans, "seconds": kept.seconds, "off": kept.off}
    figures["summary"] = f"{kept.spans} spans of up to {kept.seconds:.0f} s are the raw counter's to {clock.RATE:.1%}"


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
def test_events_agree(spans: clock.Spans, device: Device, figures: dict[str, Figure]) -> None:
    """The device's time of the same work is the wall clock's; over short and long spans, idle and at work, it is the raw counter's."""
    figures["share"] = share = clock.agrees(spans)
    work = clock.products(device)
    kept = clock.device_clock(device, work, clock.lasting(work, clock.SPAN_S / 2))
    figures |= {"spans": kept.spans, "seconds": kept.seconds, "off": kept.off, "tick_s": clock.tick(device)}
    figures["short spans"] = clock.adds_up(device)
    figures["summary"] = (
        f"the device's time is {share:.3f} of the wall clock's; {kept.spans} spans of up to {kept.seconds:.1f} s are the "
        f"raw counter's to {clock.DEVICE_RATE:.1%}, in ticks of {figures['tick_s']:.1g} s; short ones add up"
    )

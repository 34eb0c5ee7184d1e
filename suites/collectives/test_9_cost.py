"""What communication costs a data-parallel step: milliseconds and share, by steps with and without it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from stackproof.collectives.timing import quartiles, split
from stackproof.device import devices
from stackproof.ranks.launch import arrange
from stackproof.record.checks import require
from stackproof.record.records import Figure, Measurement
from stackproof.stack.stacks import Stack
from stackproof.workloads.catalogue import taking_part
from suites.common import SEED, possible
from suites.ranks import Launches

WORKLOADS = taking_part("exchange")
_WORLD = 2
_ROUNDS = 8
_DEADLINE_S = 240.0
# Of the time of all-reduces after the step, measured alone, so much must show.
_SHOWS = 0.4


@pytest.mark.deadline(300)
@pytest.mark.parametrize("name", WORKLOADS)
def test_exposed(
    name: str,
    stack: Stack,
    preset: str,
    launches: Launches,
    measured: Callable[[Measurement], None],
    figures: dict[str, Figure],
) -> None:
    """Time steps with and without the all-reduce in turn; added all-reduces of known time must show."""
    possible(name)
    arguments = {"workload": name, "preset": preset, "seed": SEED, "rounds": _ROUNDS}
    arrangement = arrange(stack, devices.visible(stack.device), _WORLD)
    group = launches("stackproof.collectives.timing:cost", arrangement, arguments, _DEADLINE_S)
    on, off = ({rank["digests"][mode] for rank in group.ranks} for mode in ("on", "off"))
    require(len(on) == 1, "with the all-reduce, the ranks' gradients differ")
    require(len(off) == _WORLD, "without the all-reduce, the ranks' gradients are the same: it was not off")
    times = split(group.ranks)
    for kind, samples in times.items():
        figures[f"{kind}, ms"] = " ".join(f"{value * 1e3:.2f}" for value in quartiles(samples))
    for kind, metric in (("on", "step"), ("off", "step without communication")):
        value, note = quartiles(times[kind])[0], group.arrangement.note
        what = f"{metric} {group.arrangement.backend}"
        measured(
            Measurement(name, preset, group.ranks[0]["dtype"], _WORLD, what, "s/iteration", value, times[kind], note)
        )
    ballast, shown = quartiles(times["ballast"])[0], quartiles(times["shown"])[0]
    require(ballast > 0, "an all-reduce took no time: the device's clock or its synchronisation does nothing")
    require(
        shown >= _SHOWS * ballast,
        f"all-reduces of {ballast * 1e3:.1f} ms made the step {shown * 1e3:.1f} ms longer: communication is not timed",
    )
    step, (exposed, low, high) = quartiles(times["on"])[0], quartiles(times["exposed"])
    figures |= {"exposed, share": exposed / step}
    figures["summary"] = (
        f"{exposed * 1e3:.1f} ms of a {step * 1e3:.1f} ms step are exposed communication ({exposed / step:.0%}; quartiles "
        f"{low * 1e3:.1f} to {high * 1e3:.1f} ms) over {group.arrangement.backend}, {_WORLD} ranks{group.note}"
    )

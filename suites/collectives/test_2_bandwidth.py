"""Bandwidth by size, of buffers that were right before and after they were timed; indicative where ranks share cores or a card."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from typing import Any

import pytest

from stackproof.base import places
from stackproof.collectives.report import World, worlds
from stackproof.collectives.table import Row
from stackproof.collectives.timing import TRANSFERS, per_gb, sizes, words
from stackproof.device import devices
from stackproof.device.devices import HOST
from stackproof.device.kinds import Device
from stackproof.record.checks import require
from stackproof.record.records import Figure, Measurement
from stackproof.stack import capabilities
from stackproof.stack.stacks import Stack
from stackproof.workloads.collectives import bus_factor
from suites.ranks import Group, Launches

_DEADLINE_S = 240.0
# 4000 times the bytes, or more, take longer than this, unless the clock measured only that the call returned.
_LONGER = 1.5


def _world(stack: Stack, backend: str) -> World:
    """Return as many ranks as there are cards; two where they share one."""
    found = worlds(stack, backend, devices.visible(stack.device))
    return found[-1] if len(set(found[-1].arrangement.cards)) > 1 else found[0]


def _run(stack: Stack, device: Device, launches: Launches, backend: str, preset: str) -> tuple[World, Group]:
    world = _world(stack, backend)
    if world.size == 1:
        capabilities.withhold("a-card-each", f"one rank of {backend} sends nothing to anybody")
    offered = [name for name, transfer in TRANSFERS.items() if world.lack(Row.of(f"{transfer.row}-float32")) is None]
    # A card's link moves what `tiny` has for the CPU faster than its host can ask for the next.
    reach = preset if device == HOST else "full"
    arguments = {"transfers": offered, "sizes": sizes(reach)}
    program = "stackproof.collectives.timing:bandwidth"
    return world, launches(program, world.arrangement, arguments, _DEADLINE_S)


def _slowest(group: Group, name: str, number: int) -> list[float]:
    """Return the seconds of one call in each span, on the rank that took longest."""
    spans = zip(*(rank["transfers"][name][number]["seconds"] for rank in group.ranks), strict=True)
    return [max(seconds) for seconds in spans]


@pytest.mark.needs("collectives/exact::agrees[{backend}-{exact}-float32]")
@pytest.mark.deadline(300)
@pytest.mark.parametrize(
    ("name", "exact"), [(name, transfer.row) for name, transfer in TRANSFERS.items()], ids=list(TRANSFERS)
)
def test_rates(
    backend: str,
    name: str,
    exact: str,
    stack: Stack,
    device: Device,
    preset: str,
    launches: Launches,
    measured: Callable[[Measurement], None],
    figures: dict[str, Figure],
) -> None:
    """Seconds per GB at every size; every span's result is what plain arithmetic says, and time grows with size."""
    world, group = _run(stack, device, launches, backend, preset)
    figures["verified by"] = f"collectives/exact::agrees[{backend}-{exact}-float32]"
    rows: list[dict[str, Any]] = group.ranks[0]["transfers"][name]
    refused = rows[0].get("refused", "")
    require(
        not refused,
        f"{backend} refused {name}: {refused}; what it does not offer needs a row of {places.table('collectives.toml')}",
    )
    for number, row in enumerate(rows):
        bad = [rank["transfers"][name][number]["wrong"] for rank in group.ranks]
        require(
            not any(bad), f"{name} of {words(row['size'])}: {max(bad)} numbers are wrong after timing ({world.label})"
        )
        _measure(name, row, _slowest(group, name, number), world, preset, measured, figures)
    first, last = (median(_slowest(group, name, number)) for number in (0, -1))
    require(first > 0, f"{name} took no time: the device's clock or its synchronisation does nothing")
    require(
        last > _LONGER * first,
        f"{words(rows[-1]['size'])} of {name} take {last / first:.2f} times as long as {words(rows[0]['size'])}: not the work was timed",
    )
    busbw = rows[-1]["bytes"] * bus_factor(name, world.size) / last / 1e9
    figures["summary"] = (
        f"{busbw:.2f} GB/s busbw at {words(rows[-1]['size'])}, {first * 1e6:.0f} us at {words(rows[0]['size'])}, {world.label}"
    )


def _measure(
    name: str,
    row: dict[str, Any],
    seconds: list[float],
    world: World,
    preset: str,
    measured: Callable[[Measurement], None],
    figures: dict[str, Figure],
) -> None:
    """Add one size to the record, as seconds per GB of busbw; of the all-reduce algbw too, which differs by the bus factor."""
    size, note = words(row["size"]), world.arrangement.note
    factors = {"algbw": 1.0, "busbw": bus_factor(name, world.size)}
    for kind, factor in list(factors.items())[name != "all_reduce" :]:
        samples = per_gb(seconds, row["bytes"], factor)
        metric = f"{kind} {size} {world.arrangement.backend}"
        measured(Measurement(name, preset, "float32", world.size, metric, "s/GB", median(samples), samples, note))
    figures[f"{size}, us"] = median(seconds) * 1e6

"""How often is a host of a fleet drained for nothing, and what is found: `nox -s fleet-calibration`.

Draws fleets with heavy-tailed noise, plants hosts that are slow in one kind of work, and lets the product's own court and duels judge
them beside other rules on the same sweeps. A laboratory: the product never imports it.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from stackproof.commands import arguments
from tools.fleet_calibration import small, speed, sweeping
from tools.fleet_calibration.speed import Speed
from tools.fleet_calibration.sweeping import Swept
from tools.fleet_calibration.worlds import FleetWorld
from tools.gate_calibration.calibrate import Share
from tools.gate_calibration.page import put

SEED = 5
SIZES = (64, 1000, 10000)


def main(words: Sequence[str] | None = None) -> int:
    """Calibrate, print the tables, and write them into a page."""
    options = _options(words)
    swept = []
    for number, size in enumerate(options.sizes or SIZES):
        began = time.monotonic()
        swept.append(sweeping.sweep(FleetWorld(size), options.sweeps, SEED + number))
        print(f"{size} hosts: {options.sweeps} sweeps in {time.monotonic() - began:.0f} s", flush=True)  # noqa: T201
    with tempfile.TemporaryDirectory(prefix="stackproof-fleet-") as folder:
        took = speed.measured(options.records, Path(folder))
    text = f"{tables(swept, took)}\n\n{small.table(5 * options.sweeps, SEED)}"
    print(text)  # noqa: T201
    if options.page:
        put(options.page, text)
    return 0


def tables(swept: Sequence[Swept], took: Speed) -> str:
    """Return what goes onto the page."""
    heads = [f"{one.world.count:,} hosts" for one in swept]
    lines = [f"| rule | {' | '.join(heads)} |", f"|---|{'---|' * len(heads)}"]
    for name in swept[0].tallies:
        cells = [_cell(one, name) for one in swept]
        lines.append(f"| {f'**{name}**' if name == sweeping.OURS else name} | {' | '.join(cells)} |")
    sweeps = swept[0].tallies[sweeping.OURS].sweeps
    duels = ", ".join(f"{one.duels / sweeps:.1f} of {one.turns / max(one.duels, 1):.0f} turns" for one in swept)
    return "\n".join([*lines, "", f"{sweeps} sweeps of each size. Duels a sweep, by size: {duels}. {speed.told(took)}"])


def _cell(swept: Swept, name: str) -> str:
    tally = swept.tallies[name]
    share = Share(tally.found, tally.planted)
    low, high = share.interval
    return f"{tally.false} false, {100 * tally.found / tally.planted:.0f} % [{100 * low:.0f}, {100 * high:.0f}] found"


def _options(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="fleet-calibration", description=__doc__)
    parser.add_argument("--sweeps", type=_several, default=200, metavar="N", help="sweeps of each size (default: 200)")
    parser.add_argument(
        "--records", type=_several, default=10000, metavar="N", help="records that are judged (default: 10000)"
    )
    parser.add_argument(
        "--sizes", type=_several, nargs="*", metavar="N", help="hosts of the worlds (default: 64 1000 10000)"
    )
    parser.add_argument(
        "--page", type=arguments.file, metavar="FILE", help="write the tables between the marks of this page"
    )
    return parser.parse_args(words)


def _several(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 100000:
        raise argparse.ArgumentTypeError(f"{text!r} must be a whole number from 1 to 100000")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())

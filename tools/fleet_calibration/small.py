"""Small groups of healthy hosts: in how many sweeps anybody is called slow by the records alone, and what the group is called."""

from __future__ import annotations

from collections import Counter

import numpy as np

from stackproof.extras.fleet.judge import FleetCourt
from stackproof.extras.fleet.judgement import Standing
from tools.fleet_calibration import worlds
from tools.fleet_calibration.worlds import FleetWorld

SIZES = (3, 4, 6, 8, 12, 20)
SPREADS = (0.004, 0.01, 0.02)


def table(sweeps: int, seed: int) -> str:
    """Return a row for each size: sweeps of healthy hosts in which one is called slow; then suspected, and in which all is proved."""
    heads = [f"hosts differ by {100 * spread:.1f} %" for spread in SPREADS]
    said = "in how many sweeps anybody is called slow by the records alone, suspected, or undecided."
    lines = [f"**Small groups** of healthy hosts only, of the same noise: {said}", ""]
    lines += [f"| healthy hosts | {' | '.join(heads)} |", f"|---|{'---|' * len(heads)}"]
    for size in SIZES:
        cells = [_cell(FleetWorld(size, hosts=spread, slow=0.0), sweeps, seed + size) for spread in SPREADS]
        lines.append(f"| {size} | {' | '.join(cells)} |")
    return "\n".join([*lines, "", f"{sweeps} sweeps each."])


def _cell(world: FleetWorld, sweeps: int, seed: int) -> str:
    dice, seen = np.random.default_rng(seed), Counter[str]()
    for _ in range(sweeps):
        words = FleetCourt("world", worlds.answers(worlds.made(world, dice)), (), {}).judge().counts
        seen["slow"] += Standing.SLOW in words
        seen["suspected"] += Standing.SUSPECTED in words
        seen["undecided"] += Standing.UNDECIDED in words
    shares = [f"{100 * seen[word] / sweeps:.1f} % {word}" for word in ("slow", "suspected", "undecided")]
    return ", ".join(shares)

"""How often do nights alarm for nothing, what do they find, and is the cause right: `nox -s drift-calibration`.

Plants steps in synthetic series and in series drawn from real launches, looks at them night by night as the product does, and lets
other detectors look at the same nights. A laboratory: the product never imports it.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from stackproof.base.errors import Refusal
from stackproof.commands import arguments
from stackproof.extras.nights.drift.rules import rules
from stackproof.extras.nights.drift.scan import scan
from tools.drift_calibration import causes, page, worlds
from tools.drift_calibration.rivals import RIVALS, Otava
from tools.drift_calibration.watching import Rival, Watched, alarms, watch, within
from tools.drift_calibration.worlds import World

SEED = 11
BEFORE, AFTER, START = 90, 30, 20
SIZES = (0.01, 0.02, 0.03, 0.05)
RAMP = 20
_RIVAL_SIZES = (0.02, 0.05)
_RIVAL_NIGHTS = 110


@dataclass(frozen=True)
class Effort:
    """How much is looked at: series and nights of each world, series of the slow rivals, steps of each class of causes."""

    rows: int
    nights: int
    rivals: int
    causes: int


SMALL, WHOLE = Effort(120, 200, 8, 40), Effort(800, 300, 40, 300)


@dataclass
class Quiet:
    """What was told of a quiet world; `rivals`: alarms and series-nights by name."""

    world: str
    nights: int
    seen: Watched
    rivals: dict[str, tuple[int, int]] = field(default_factory=dict)


@dataclass
class Step:
    """What was found of one planted step; `rivals`: nights until found, and series, by name."""

    world: str
    size: float
    ramp: int
    series: int
    suspected: list[int]
    told: list[int]
    rivals: dict[str, tuple[list[int], int]] = field(default_factory=dict)


def quiet(world: World, rivals: dict[str, Rival], rows: int, dice: np.random.Generator) -> Quiet:
    """Watch a world in which nothing happens."""
    shape = world.quiet.shape
    seen = watch(world, np.zeros(shape), START, dice)
    found = Quiet(world.name, shape[0] * (shape[1] - START), seen)
    cut = world.quiet[:rows, :_RIVAL_NIGHTS]
    for name, rival in rivals.items():
        told = alarms(rival, cut, START)
        found.rivals[name] = (sum(map(len, told)), cut.shape[0] * (cut.shape[1] - START))
    return found


def stepped(
    world: World, size: float, rivals: dict[str, Rival], rows: int, dice: np.random.Generator, ramp: int = 0
) -> Step:
    """Plant a step on night 90 and watch thirty more."""
    planted = worlds.truth(world.quiet.shape, size, BEFORE, ramp)
    seen = watch(world, planted, BEFORE, dice)
    found = Step(world.name, size, ramp, len(planted), within(seen.suspected, BEFORE), within(seen.told, BEFORE))
    if size in _RIVAL_SIZES and not ramp:
        cut = (world.quiet + planted)[:rows]
        for name, rival in rivals.items():
            found.rivals[name] = (within(alarms(rival, cut, BEFORE), BEFORE), rows)
    return found


def speed(dice: np.random.Generator) -> float:
    """Return the seconds of a processor that tonight's look at 10,000 series of 300 nights takes."""
    values = dice.normal(0, 0.01, (10_000, 300))
    began = time.process_time()
    scan(values, rules().scan)
    return time.process_time() - began


def run(effort: Effort, otava: Path | None) -> page.Results:
    """Measure all of it; the same seed gives the same series."""
    dice = np.random.default_rng(SEED)
    child = Otava(otava) if otava else None
    rivals: dict[str, Rival] = {**({"Otava 0.8": child} if child else {}), **RIVALS}
    makers = [(worlds.synthetic, name) for name in worlds.SYNTHETIC] + [(worlds.real, name) for name in worlds.REAL]
    quiets, steps = list[Quiet](), list[Step]()
    for maker, name in makers:
        _say(f"{name}: nothing happens")
        quiets.append(quiet(maker(name, effort.rows, effort.nights, dice), rivals, effort.rivals, dice))
        for size in SIZES:
            _say(f"{name}: a step of {size:.0%}")
            steps.append(stepped(maker(name, effort.rows, BEFORE + AFTER, dice), size, rivals, effort.rivals, dice))
    _say("white: a ramp")
    steps.append(stepped(worlds.synthetic("white", effort.rows, BEFORE + AFTER, dice), 0.03, rivals, 0, dice, RAMP))
    _say("causes")
    blamed = {
        (cause, size): [causes.blamed(cause, size, 60, dice) for _ in range(effort.causes)]
        for cause in causes.PLANTED
        for size in (0.03, 0.05)
    }
    if child:
        child.end()
    return page.Results(quiets, steps, blamed, speed(dice))


def main(words: Sequence[str] | None = None) -> int:
    """Read the flags and run; a refusal is one sentence."""
    parser = argparse.ArgumentParser(prog="python -m tools.drift_calibration", description=__doc__, allow_abbrev=False)
    parser.add_argument(
        "--whole", action="store_true", help="many more series, ten minutes or so of a core; a minute or two without"
    )
    parser.add_argument("--otava", type=Path, metavar="PYTHON", help="the interpreter of an environment that has Otava")
    parser.add_argument(
        "--page", type=arguments.file, metavar="FILE", help="put tables and figure there (docs/drift.md)"
    )
    options = parser.parse_args(words)
    try:
        missing = [name for name in ("asv", "scipy", "matplotlib") if importlib.util.find_spec(name) is None]
        if missing:
            raise Refusal(f"{', '.join(missing)} are not installed here; use `nox -s drift-calibration`")
        results = run(WHOLE if options.whole else SMALL, options.otava)
    except Refusal as refusal:
        print(f"drift-calibration: {refusal}", file=sys.stderr)  # noqa: T201
        return refusal.exit_code
    text = page.tables(results)
    if options.page:
        page.put(options.page, text)
        page.draw(results, options.page.parent / "figures" / "drift-found.svg")
    print(text)  # noqa: T201
    return 0


def _say(text: str) -> None:
    print(f"[{time.process_time():5.0f} s] {text}", file=sys.stderr)  # noqa: T201


if __name__ == "__main__":
    sys.exit(main())

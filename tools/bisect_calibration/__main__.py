"""How often does `bisect` name what was planted, and what do others say of the same machine: `nox -s bisect-calibration`.

A simulation: the search, the statistics and the confirmation are the product's, runs are drawn. A laboratory: the product never imports it.
"""

from __future__ import annotations

import argparse
import importlib.util
import random
import sys
import time
from collections.abc import Callable, Sequence
from statistics import median

from stackproof.base.errors import Refusal
from stackproof.commands import arguments
from stackproof.extras.bisect.evidence import SetWord
from stackproof.extras.bisect.splits import Splitting, ddmin
from tools.bisect_calibration import page
from tools.bisect_calibration.methods import METHODS
from tools.bisect_calibration.worlds import CASES, Case, Method
from tools.gate_calibration.page import put

SEED = 21
FEW, MANY = 200, 1000
SIZES, MEETING = (12, 40, 92), (1, 2, 3)


def tried(case: Case, method: Method, trials: int) -> page.Row:
    """Search so many times; the same seeds plant the same changes for every method."""
    told, right = [], []
    for number in range(trials):
        dice = random.Random(SEED + number)
        planted = case.plant(dice)
        told.append(method(planted, case.machine(dice)))
        right.append(told[-1].blamed == planted.culprits)
    return page.Row(told, right)


def asked_sets(count: int, culprits: int, search: str, trials: int) -> float:
    """Return how many sets a search asks for, median."""
    return median(_asked(count, culprits, search, random.Random(SEED + number)) for number in range(trials))


def _asked(count: int, culprits: int, search: str, dice: random.Random) -> int:
    units = [str(unit) for unit in range(count)]
    planted = frozenset(dice.sample(units, culprits))
    asked = [0]

    def test(chosen: frozenset[str]) -> SetWord:
        asked[0] += 1
        return SetWord.BAD if planted <= chosen else SetWord.GOOD

    splitting = Splitting(units, test)
    if search == "splits":
        splitting.blame()
    else:
        ddmin(units, splitting.ask)
    return asked[0]


def run(trials: int, say: Callable[[str], None]) -> page.Results:
    """Search every case by every method."""
    rows: dict[Case, dict[str, page.Row]] = {}
    for case in CASES:
        say(case.name)
        rows[case] = {name: tried(case, method, trials) for name, method in METHODS.items()}
    say("tests of exact sets")
    counted = {
        (count, culprits): {
            name: asked_sets(count, culprits, search, trials)
            for name, search in (("ours", "splits"), ("ddmin", "ddmin"))
        }
        for count in SIZES
        for culprits in MEETING
    }
    return page.Results(rows, counted, trials)


def main(words: Sequence[str] | None = None) -> int:
    """Read the flags and run; a refusal is one sentence."""
    parser = argparse.ArgumentParser(prog="python -m tools.bisect_calibration", description=__doc__, allow_abbrev=False)
    parser.add_argument("--whole", action="store_true", help=f"{MANY} trials of each case; {FEW} without")
    parser.add_argument("--page", type=arguments.file, metavar="FILE", help="put the tables there (docs/bisect.md)")
    options = parser.parse_args(words)
    try:
        if importlib.util.find_spec("scipy") is None or importlib.util.find_spec("git_bayesect") is None:
            raise Refusal("scipy and git-bayesect are not both installed here; use `nox -s bisect-calibration`")
        results = run(MANY if options.whole else FEW, _say)
        if options.page:
            put(options.page, page.tables(results))
    except Refusal as refusal:
        print(f"bisect-calibration: {refusal}", file=sys.stderr)  # noqa: T201
        return refusal.exit_code
    print(page.tables(results))  # noqa: T201
    return 0


def _say(text: str) -> None:
    print(f"[{time.process_time():5.0f} s] {text}", file=sys.stderr)  # noqa: T201


if __name__ == "__main__":
    sys.exit(main())

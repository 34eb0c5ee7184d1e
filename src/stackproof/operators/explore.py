"""New points for the engine until time is up, `python -m stackproof.operators.explore --minutes 30`: what no row knows, each cause once.

What is found is printed as code that can be pasted and as a row for `data/relations.toml`; the seed makes a session again.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from stackproof.device import devices
from stackproof.operators import engine
from stackproof.operators.compare import word
from stackproof.operators.database import preserved

_ROW = """
[[known]]
judge = "{judge}"
operators = ["{name}"]
says = "{says}"
dtypes = ["{dtype}"]
link = "https://..."
reason = "..."
expires = ...
"""


@dataclass(frozen=True)
class Discovery:
    """A relation that does not hold and that no row knows: how to see it again, and the row that would excuse it."""

    seed: int
    judge: str
    name: str
    sentence: str
    code: str
    row: str


def discoveries(seed: int, minutes: float, device: str = "") -> Iterator[Discovery]:
    """Yield what is found until the minutes are over; a judge's same complaint about the same operator comes once."""
    end, place = (
        time.monotonic() + 60 * minutes,
        devices.parse(device, device.partition(":")[0]) if device else devices.HOST,
    )
    cases, seen = engine.cases(), set()
    with preserved(place.torch), place.current():
        while time.monotonic() < end:
            random.Random(seed).shuffle(cases)
            for judge, name in cases:
                if time.monotonic() > end:
                    return
                for point, relation, wrong in engine.faults(judge, name, place.torch, seed):
                    cause = (judge, name, relation.says.rstrip("0123456789"))
                    if cause in seen or any(row.covers(judge, point, relation, wrong) for row in engine.known()):
                        continue
                    seen.add(cause)
                    row = _ROW.format(judge=judge, name=name, says=relation.says, dtype=word(point.dtype))
                    sentence = f"{name} in {word(point.dtype)}, {relation.says}: {wrong}"
                    yield Discovery(seed, judge, name, sentence, relation.simplified().program(point.path), row)
            seed += 1


def main(words: list[str]) -> int:
    """Explore, print and perhaps keep what is found; 1 if anything is."""
    parser = argparse.ArgumentParser(prog="explore", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000_000)
    parser.add_argument("--device", default="", help="such as cuda:0; the host's CPU without it")
    parser.add_argument("--json", type=Path, help="keep each discovery there, one a line")
    asked = parser.parse_args(words)
    sys.stdout.write(f"seed {asked.seed}\n")
    count = 0
    for found in discoveries(asked.seed, asked.minutes, asked.device):
        count += 1
        sys.stdout.write(f"\n{'=' * 79}\n{found.sentence} (seed {found.seed})\n\n{found.code}{found.row}")
        if asked.json:
            with asked.json.open("a", encoding="utf-8") as file:
                file.write(json.dumps(vars(found)) + "\n")
    sys.stdout.write(f"\n{count} discoveries\n")
    return int(count > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

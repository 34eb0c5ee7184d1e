"""Plays of a duel's sides: each sleeps for as long as it says, but for what a test lets it do instead."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from stackproof.extras.fleet import duel, plan, report, rules, sweep
from stackproof.extras.fleet.launcher import Launcher
from stackproof.extras.fleet.rules import DuelRules
from stackproof.record.records import Record

from .making import RIGHT

PRODUCTS = 9
_SIDE = """
import json, os, sys, time
host = sys.argv[sys.argv.index("--host") + 1]
part = json.load(open({parts!r})).get(host, {{}})
print("Welcome to " + host)
if "first" in part:
    print(part["first"], flush=True)
print(json.dumps({{"facts": {{"torch": part.get("torch", "2.15")}}}}), flush=True)
taken = 0
for line in sys.stdin:
    asked = json.loads(line)
    turn, runs = {{"turn": asked["turn"]}}, asked.get("runs", 1)
    told = {{"seconds": 0.0005 * part.get("slow", 1.0), "proved": "", "worth": {{}}}}
    if asked["ask"] in ("warm", "block"):
        time.sleep(runs * told["seconds"] * part.get("really", 1.0))
    if asked["ask"] == "replay":
        told = {{"digest": part.get("digest", {right!r}), "products": asked["products"], "odd": part.get("odd", 0)}}
    taken += asked["ask"] == part.get("at")
    if asked["ask"] == part.get("at") and taken > part.get("after", 0):
        do = part["do"]
        if do == "exit":
            print("out of memory", file=sys.stderr, flush=True)
            os._exit(3)
        if do == "kill":
            os.kill(os.getpid(), 9)
        if do == "hang":
            time.sleep(3600)
        if do == "twice":
            print(json.dumps({{**told, **turn}}), flush=True)
        if do == "huge":
            sys.stdout.write("x" * (3 << 20))
        if isinstance(do, dict):
            told |= do
            turn = {{**turn, **{{name: value for name, value in do.items() if name == "turn"}}}}
        elif do.startswith("raw "):
            print(do[4:], flush=True)
            continue
    print(json.dumps({{**told, **turn}}), flush=True)
"""
Part = Mapping[str, object]


@dataclass(frozen=True)
class Play:
    """The parts that hosts play, and the rules of their duels."""

    folder: Path
    launcher: Launcher
    terms: DuelRules

    def fought(self, sweep_: Path) -> list[Record]:
        """Fight every challenge of a sweep."""
        found, made, records = sweep.judged(sweep_), plan.load(sweep_), list[Record]()
        for challenge in duel.challenges(found, made.hosts, report.open_suspects(found)):
            said = duel.Duel(challenge, self.launcher, sweep_, lambda _: None, made.id, self.terms).fight()
            records.append(said)
            duel.keep(said, sweep_)
        return records


def play(
    folder: Path,
    parts: Mapping[str, Part] | None = None,
    *,
    scale: float = 1.0,
    clocks: float = 9.0,
    worked: float = 0.0,
    start: float = 20.0,
) -> Play:
    """Return what starts plays of sides in place of the verb; hosts that have no part are healthy."""
    path, told = folder / "python", folder / "parts.json"
    told.write_text(json.dumps(parts or {}), encoding="utf-8")
    path.write_text(f"#!{sys.executable} -S\n{_SIDE.format(parts=str(told), right=RIGHT)}", encoding="utf-8")
    path.chmod(0o755)
    launcher = Launcher.of("env AT={host}", str(path), "cpu", "tiny", scale, start)
    terms = dataclasses.replace(rules.load().duel, block=0.002, products=PRODUCTS, clocks=clocks, worked=worked)
    return Play(folder, launcher, terms)

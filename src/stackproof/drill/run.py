"""One run of a public verb at a site: the command, its end, and what it said of each check."""

from __future__ import annotations

import os
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stackproof import ROOT
from stackproof.base import files, processes
from stackproof.base.errors import Refusal
from stackproof.base.places import FIRED
from stackproof.drill.inject import Site
from stackproof.drill.table import Call
from stackproof.record import reading
from stackproof.record.records import Check, Verdict

_PRELUDE = "from stackproof.drill.planted import *  # what a row's code may call\n"
_LOOK_S = 0.05
THIS_PYTHON = sys.executable
FLAGS = {
    "doctor": ("stack", "json"), "triage": ("json",), "admit": (),
    "gate": ("stack", "json", "results", "deadline-scale"),
}  # fmt: skip
"""What each verb that runs no suite takes besides its own arguments."""
_OF_RUNS = ("stack", "suite", "only", "json", "results", "deadline-scale")
REFUSAL = "refusal"
"""The check that stands for a verb that refused: its one sentence is the reason."""


@dataclass
class DrilledRun:
    command: list[str]
    exit_code: int | None
    """None: it was ended at its deadline."""
    checks: dict[str, Check]
    fired: int
    """In so many processes."""
    seconds: float
    log: Path
    last: list[str] = field(default_factory=list)
    notes: dict[str, str] = field(default_factory=dict)
    """Of measurements, by workload."""

    @property
    def words(self) -> str:
        """The verb and its flags; the interpreter and the folders are of this run alone."""
        own = {"--json", "--results", "--deadline-scale"}
        words = self.command[3:]
        return " ".join(word for n, word in enumerate(words) if not {word, words[n - 1]} & own)


def run(
    call: Call, only: tuple[str, ...], site: Site, deadline_s: float, stop: threading.Event | None = None
) -> DrilledRun:
    """Run the verb at the site and read what it left; whatever it started is gone afterwards.

    `stop`: somebody has interrupted the drill; the run is ended as at its deadline.
    """
    planted = site.folder / "planted"
    planted.mkdir()
    site.signs.mkdir()
    (planted / "sitecustomize.py").write_text(f"{_PRELUDE}{site.code}", encoding="utf-8")
    out = site.folder / "record.json"
    command = [str(site.python), "-m", "stackproof", *_words(call, only, site, out)]
    log, began = site.folder / "output.log", time.monotonic()
    code = _supervise(command, site, log, deadline_s, stop or threading.Event())
    seconds = time.monotonic() - began
    checks, notes = _recorded(out)
    checks |= _refused(log, code)
    count = sum(sign.stat().st_size > 0 for sign in site.signs.iterdir())
    return DrilledRun(command, code, checks, count, seconds, log, processes.last_lines(log, 3), notes)


def _words(call: Call, only: tuple[str, ...], site: Site, out: Path) -> list[str]:
    takes = FLAGS.get(call.verb, _OF_RUNS)
    values = {
        "stack": [call.stack] if call.stack else [], "suite": list(call.suites), "only": [name.replace("[", "[[]") for name in only],
        "json": [str(out)], "results": [str(site.folder / "results")], "deadline-scale": [f"{call.scale:g}"],
    }  # fmt: skip
    flags = [word for flag in takes for value in values[flag] for word in (f"--{flag}", value)]
    return [call.verb, *flags, *(word.format(**site.words) for word in call.arguments)]


def _supervise(command: list[str], site: Site, log: Path, deadline_s: float, stop: threading.Event) -> int | None:
    """Return the exit code, or None after the deadline."""
    inherited = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    others = [path for path in inherited if Path(path) not in (ROOT, ROOT / "src")]  # a run in a copy imports the copy
    paths = [site.folder / "planted", site.root / "src", *others]
    environment = {**site.variables, "PYTHONPATH": os.pathsep.join(map(str, paths)), FIRED: str(site.signs)}
    mark, until = processes.new_mark(), time.monotonic() + deadline_s
    with log.open("wb") as output:
        child = processes.start(command, output, environment, mark, cwd=str(site.folder))
    try:
        while child.poll() is None and time.monotonic() < until and not stop.is_set():
            time.sleep(_LOOK_S)
        return child.poll()
    finally:
        processes.end_tree(mark, child)


def _recorded(path: Path) -> tuple[dict[str, Check], dict[str, str]]:
    """Return what a record, or a doctor's report, says of each check, and what limits its measurements; nothing if there is none."""
    if not path.exists():
        return {}, {}
    report: dict[str, Any] = files.read_json(path)
    if "findings" not in report:
        record = reading.read(path)
        return {row.id: row for row in record.checks}, {row.workload: row.note for row in record.measurements}
    seen = {}
    areas: dict[str, list[dict[str, str]]] = {}  # one check for each; problems are what is red
    for row in report["findings"]:
        areas.setdefault(row["area"], []).append(row)
    for area, rows in areas.items():
        bad = [row["sentence"] for row in rows if row["level"] == "problem"]
        reason = " | ".join(bad or (row["sentence"] for row in rows))
        name = f"doctor/{area}"
        seen[name] = Check(name, Verdict.FAILED if bad else Verdict.PASSED, reason, 0.0)
    return seen, {}


def _refused(log: Path, code: int | None) -> dict[str, Check]:
    """Return the refusal of a verb that wrote no record, from its one sentence."""
    lines = [line for line in processes.last_lines(log) if line.startswith("stackproof: ")]
    if not code or not lines:
        return {}
    return {REFUSAL: Check(REFUSAL, Verdict.FAILED, lines[-1].removeprefix("stackproof: "), 0.0)}


def only_of(call: Call, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the checks to ask for: those of suites; what stands for a whole run cannot be chosen."""
    if call.whole:
        return ()
    chosen = tuple(dict.fromkeys(name for name in (*names, *call.only) if "::" in name))
    if call.suites and not chosen:
        raise Refusal(f"{call.verb} of {', '.join(call.suites)}: no check is named; name one, or say `whole = true`")
    return chosen

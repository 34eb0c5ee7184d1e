"""Makes stores that sites are built of: nights with steps and gates that judged them, runs of suites, and hostile names."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import date, datetime, timedelta, timezone
from html.parser import HTMLParser
from pathlib import Path

from stackproof.extras.nights.drift.series import FigureKey, Measured, side_row
from stackproof.extras.nights.site import build
from stackproof.record.records import CellWord, Check, Figure, Kind, Measurement, Record, Verdict, write
from tests.extras.nights.drift import nightly

ONE_LINE = "</script><img src=x onerror=alert(1)>\"'`&{{7*7}}\u202e"
"""What a stack may be called in a record: no more is read than names of one line."""
HOSTILE = f"{ONE_LINE}\x1b[31m"
TODAY = date(2026, 8, 1)
SUITES = ("smoke", "operators", "models", "timer")
STACKS = ("cpu", "cuda", "dcu", "xpu")


def suites(stack: str, day: date, verdict: Verdict = Verdict.PASSED, host: str = "box", **facts: Figure) -> Record:
    """Return a run of all suites in which the last check of `models` ends so."""
    checks = [
        Check(
            f"{suite}/part::check{number}",
            Verdict.PASSED,
            "4 of 4 are right",
            0.5,
            {},
            Kind.SUITE,
            suite,
            f"check{number}",
        )
        for suite in SUITES
        for number in range(4)
    ]
    checks[11] = replace(checks[11], verdict=verdict, reason="error 0.5 exceeds the bound 0.1")
    row = Measurement(
        "gemm-float32", "tiny", "float32", 1, "gemm", "s/TFLOP", 2.0, [1.9, 2.0, 2.1, 2.0, 2.0, 2.05], "", "1"
    )
    told: dict[str, Figure] = {
        "host": host,
        "stack": stack,
        "verified on": stack,
        "commit": "c" * 40,
        "pinned": True,
        "suites": "smoke",
        **facts,
    }
    worst = verdict if verdict.exit_code else Verdict.PASSED
    return Record("verify", stack, f"{day}T03:00:00.000+00:00", 60.0, worst, told, checks, [row])


def more_figures(record: Record, count: int, seed: int) -> Record:
    """Return a night with so many figures, each with noise of its own about the first one's seconds."""
    dice, rows = random.Random(seed), list(record.measurements)
    for number in range(1, count):
        own = dice.gauss(0, 0.005)
        for row in record.measurements:
            side = Measured(row.figures["side"])
            shift = number / 10 + (own if side is Measured.TODAY else 0.0)
            samples = tuple(one * math.exp(shift + dice.gauss(0, 0.002)) for one in row.samples)
            key = FigureKey(f"gemm-{number:03}", "tiny", row.unit, "1")
            rows.append(side_row(key, side, samples))
    return replace(record, measurements=rows)


def store(folder: Path, count: int, figures: int = 1, until: date = TODAY) -> Path:
    """Write so many nights until a day, with steps of code and driver and a gate that confirmed the first, and return the folder."""
    story = nightly.Story(count, code=(count // 2, 0.06), driver=(count * 3 // 4, 0.04))
    records = [more_figures(one, figures, number) for number, one in enumerate(nightly.told(story))]
    if count > 40:
        first = count // 2
        records.append(nightly.gate(first + 1, nightly.commit(first - 1)[:12], nightly.commit(first)[:12], 1.06))
    shift = until - (nightly.BEGAN + timedelta(days=count - 1)).date()
    return kept(folder, [later(one, shift) for one in records])


def later(record: Record, shift: timedelta) -> Record:
    """Return a record as if it had begun so much later."""
    when = datetime.fromisoformat(record.started) + shift
    return replace(record, started=when.astimezone(timezone.utc).isoformat(timespec="milliseconds"))


def kept(folder: Path, records: Sequence[Record]) -> Path:
    """Write records where a store finds them, beside those that are there."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, one in enumerate(records, len(list(folder.iterdir()))):
        write(one, folder / f"{number:04}.record.json")
    return folder


def order(folder: Path, today: date = TODAY, days: int = 14) -> build.SiteOrder:
    """Return the order of a site of these records."""
    return build.SiteOrder((folder,), STACKS, SUITES, today, days)


def hostile(folder: Path) -> Path:
    """Write records whose every text is what a page must never obey."""
    records = [
        replace(one, provenance={**one.provenance, "host": HOSTILE, "driver.nvidia-smi": f"{HOSTILE}{number // 30}"})
        for number, one in enumerate(nightly.told(nightly.Story(60)))
    ]
    records = [
        replace(
            one,
            measurements=[
                replace(row, workload=HOSTILE, dtype=HOSTILE, unit=HOSTILE, note=HOSTILE) for row in one.measurements
            ],
        )
        for one in records
    ]
    records += [replace(records[-1], provenance={**records[-1].provenance, "disturbed": HOSTILE})]
    run = suites(ONE_LINE, TODAY, Verdict.FAILED, HOSTILE, **{HOSTILE: HOSTILE})
    checks = [
        Check(f"{HOSTILE}/x::{HOSTILE}", Verdict.FAILED, HOSTILE, 1.0, {"repro": HOSTILE}, Kind.SUITE, HOSTILE, HOSTILE, HOSTILE),
        Check(HOSTILE, Verdict.FAILED, HOSTILE, 1.0, {"ratio": 2.0, "ratio, low": 1.0, "ratio, high": 3.0, "minimum effect": 0.05},
              Kind.CELL, HOSTILE, HOSTILE, HOSTILE, CellWord.SLOWER),
    ]  # fmt: skip
    runs = [replace(run, verb=verb, checks=checks, logs=[HOSTILE]) for verb in ("verify", "gate", "bench")]
    kept(folder, [*records, *runs, replace(runs[0], started="2026-12-31T00:00:00+00:00")])
    last = max(folder.iterdir())
    last.write_text(last.read_text(encoding="utf-8").replace("2026-12-31", "2026-13-41"), encoding="utf-8")
    return folder


class Elements(HTMLParser):
    """Every element of a page with its attributes, and all of its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str]]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep an element."""
        self.found.append((tag, {name: value or "" for name, value in attrs}))

    def handle_data(self, data: str) -> None:
        """Keep text."""
        self.text += data

"""What tests of repeatable work share: a setting on the CPU, made of plain values, and blocks of runs of which some are left out."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from stackproof.base.toml import Table
from stackproof.device.devices import HOST
from stackproof.workloads.work import Setting, Work


def setting(preset: str = "tiny", **parameters: Any) -> Setting:
    return Setting(HOST, preset, Table(Path("benchmarks.toml"), parameters))


def block(work: Work, runs: int, without: Collection[int] = ()) -> None:
    work.begin(runs)
    for number in range(runs):
        if number not in without:
            work.run()
    work.verify(runs)

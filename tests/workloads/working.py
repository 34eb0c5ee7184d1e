"""What tests of repeatable work share: a setting on the CPU, made of plain values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from stackproof.base.toml import Table
from stackproof.device.devices import HOST
from stackproof.workloads.work import Setting, Work


def setting(preset: str = "tiny", **parameters: Any) -> Setting:
    return Setting(HOST, preset, Table(Path("benchmarks.toml"), parameters))


def looked_at(work: Work) -> None:
    assert work.begin_spot_check()
    work.run()
    work.end_spot_check()

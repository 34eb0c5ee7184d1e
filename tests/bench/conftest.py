"""What tests of measuring share: the CPU's stack, a device whose calibration is taken as done, and work that tells what it was asked."""

from __future__ import annotations

import time
from typing import Any

import pytest

from stackproof.bench import engine
from stackproof.bench.subjects import Subject
from stackproof.device.devices import HOST
from stackproof.device.kinds import Device
from stackproof.record.checks import CheckFailed
from stackproof.record.records import Figure
from stackproof.stack.stacks import Stack
from stackproof.workloads.work import Setting, Work


def subject_of(
    stack: Stack, kind: str = "spin", unit: str = "s/sample", needs: tuple[str, ...] = (), **parameters: Any
) -> Subject:
    rows = {"tiny": parameters, "full": parameters}
    return Subject("own-subject", "3", kind, unit, "a subject of a test", ("fast",), needs, rows, stack)


class Spin(Work):
    """Takes a given time a run, and notes what happened to it, in order."""

    seconds = 1e-3
    wrong = ""
    spoilt = ""
    worth = {"sample": 4.0, "TFLOP": 1e-6}  # noqa: RUF012 - never written
    log: list[str] = []  # noqa: RUF012 - one log for all, cleared by the fixture

    def __init__(self, setting: Setting) -> None:
        with setting.parameters:
            pass
        self.dtype = "float32"
        self.arithmetic = "float32"
        Spin.log.append("built")

    def prove(self) -> str:
        Spin.log.append("proved")
        if Spin.wrong:
            raise CheckFailed(Spin.wrong)
        return "a spin is right"

    def run(self) -> None:
        Spin.log.append("run")
        until = time.perf_counter() + Spin.seconds
        while time.perf_counter() < until:
            pass

    def begin(self, runs: int, compared: bool = True) -> None:
        """Begin a block."""

    def verify(self, runs: int) -> None:
        if Spin.spoilt:
            raise CheckFailed(Spin.spoilt)
        self.facts = {"spins": Spin.log.count("run")}

    def close(self) -> None:
        Spin.log.append("closed")


@pytest.fixture
def spin(monkeypatch: pytest.MonkeyPatch) -> type[Spin]:
    """The kind of work `spin`, on a host whose clock is taken as proved."""

    def calibrated(_: Device) -> dict[str, Figure]:
        Spin.log.append("calibrated")
        return {"calibration.factor": 2.0}

    monkeypatch.setattr(Spin, "log", [])
    monkeypatch.setattr(engine, "kinds", lambda: {"spin": Spin})
    monkeypatch.setattr(engine, "calibrate", calibrated)
    return Spin


__all__ = ["HOST", "Spin", "subject_of"]

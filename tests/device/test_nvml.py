"""The energy counter of an NVIDIA card, from the driver's own library; here a library that says what a test wants."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

import pytest

from stackproof.device import nvml


def library(**codes: int) -> SimpleNamespace:
    """Return a library whose functions end with these codes, 0 unless said otherwise; its card has used 1234 mJ."""

    def energy(card: Any, counted: Any) -> int:
        ctypes.cast(counted, ctypes.POINTER(ctypes.c_ulonglong))[0] = 1234
        return codes.get("energy", 0)

    return SimpleNamespace(
        nvmlInit_v2=lambda: codes.get("init", 0),
        nvmlDeviceGetHandleByUUID=lambda uuid, card: 0 if uuid == b"GPU-1" else 6,
        nvmlDeviceGetTotalEnergyConsumption=energy,
        nvmlShutdown=lambda: 0,
    )


def test_it_is_what_the_counter_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda name: library())
    assert nvml.millijoules("GPU-1") == 1234


@pytest.mark.parametrize(("uuid", "codes"), [("GPU-2", {}), ("GPU-1", {"energy": 3}), ("GPU-1", {"init": 9})])
def test_a_card_that_does_not_tell_is_an_error(
    monkeypatch: pytest.MonkeyPatch, uuid: str, codes: dict[str, int]
) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda name: library(**codes))
    with pytest.raises(OSError, match="NVML answers with error"):
        nvml.millijoules(uuid)

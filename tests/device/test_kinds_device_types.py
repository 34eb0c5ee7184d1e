"""What can be done with a device: its own counters, its own queue, and the device that was current stays current."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from stackproof.device.kinds import Accelerator, EventStopwatch, Host, HostStopwatch, Memory


class FakeModule:
    """A test double of `torch.xpu` with two cards; not an accelerator."""

    def __init__(self) -> None:
        self.at = 0
        self.waited: list[Any] = []

    @contextmanager
    def device(self, index: int) -> Iterator[None]:
        before, self.at = self.at, index
        try:
            yield
        finally:
            self.at = before

    def synchronize(self) -> None:
        self.waited.append(self.at)

    def memory_allocated(self, index: int) -> int:
        return index << 30

    def memory_reserved(self, index: int) -> int:
        return index << 31

    def max_memory_allocated(self, index: int) -> int:
        return index * 3 << 30

    def get_device_properties(self, index: int) -> SimpleNamespace:
        return SimpleNamespace(name=f"Card {index}", total_memory=8 << 30, driver_version="1.6.33578")


@pytest.fixture
def cards(monkeypatch: pytest.MonkeyPatch) -> FakeModule:
    module = FakeModule()
    monkeypatch.setattr(torch, "get_device_module", lambda kind: module)
    return module


def test_synchronize_waits_for_its_own_card(cards: FakeModule) -> None:
    Accelerator("xpu", 1).synchronize()
    assert ([1], 0) == (cards.waited, cards.at)


def test_current_is_restored_after_an_error(cards: FakeModule) -> None:
    with pytest.raises(ValueError, match="inside"), Accelerator("xpu", 1).current():
        raise ValueError("inside")
    assert cards.at == 0


def test_memory_is_in_bytes_and_of_that_card(cards: FakeModule) -> None:
    memory = Accelerator("xpu", 1).memory()
    assert Memory(1 << 30, 2 << 30, 3 << 30, 6 << 30, 8 << 30) == memory


def test_driver_has_every_name_that_is_there(cards: FakeModule) -> None:
    facts = Accelerator("xpu", 0).driver()
    assert facts["properties.driver_version"] == "1.6.33578"
    assert "level zero" not in facts


@pytest.mark.parametrize(
    ("properties", "identity"),
    [
        ({"pci_domain_id": 0, "pci_bus_id": 0x18, "pci_device_id": 0, "uuid": "GPU-1"}, "0000:18:00.0"),
        ({"uuid": "GPU-1"}, "GPU-1"),
        ({}, ""),
    ],
)
def test_a_card_is_told_apart_by_its_address_else_its_uuid(
    monkeypatch: pytest.MonkeyPatch, properties: dict[str, object], identity: str
) -> None:
    module = SimpleNamespace(get_device_properties=lambda index: SimpleNamespace(**properties))
    monkeypatch.setattr(torch, "get_device_module", lambda kind: module)
    assert (identity, "") == (Accelerator("cuda", 1).bus_id(), Host("cpu", 0).bus_id())


def test_host_memory_follows_an_allocation() -> None:
    host = Host("cpu", 0)
    before = host.memory().allocated
    block = torch.ones(16 << 20)
    grown = host.memory().allocated - before
    assert block.numel() * 4 <= grown + (4 << 20)


class Event:
    """A test double of `torch.cuda.Event` that says a quarter of a second passed."""

    log: list[str] = []  # noqa: RUF012 - shared on purpose, emptied by the test

    def __init__(self, enable_timing: bool) -> None:
        assert enable_timing

    def record(self) -> None:
        self.log.append("record")

    def synchronize(self) -> None:
        self.log.append("wait")

    def elapsed_time(self, other: Event) -> float:
        return 250.0


def test_the_host_stopwatch_measures_wall_time() -> None:
    watch, began = HostStopwatch(), time.perf_counter()
    watch.start()
    watch.stop()
    assert 0 <= watch.seconds() <= time.perf_counter() - began


def test_event_time_is_in_seconds_on_its_own_card() -> None:
    Event.log = log = []

    @contextmanager
    def current() -> Iterator[None]:
        log.append("enter")
        yield
        log.append("leave")

    watch = EventStopwatch(Event, current)
    watch.start()
    watch.stop()
    assert watch.seconds() == 0.25
    assert log == ["enter", "leave", "enter", "record", "leave", "enter", "record", "leave", "wait"]

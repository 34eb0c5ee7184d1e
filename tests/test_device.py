"""The seam over devices: strict strings, and the same operations on every kind; accelerators stand in as doubles."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
import torch

from stackproof import device
from stackproof.errors import Refusal, StackUnavailableError


class FakeModule:
    """A test double of `torch.xpu` with two cards; not an accelerator."""

    def __init__(self) -> None:
        self.at, self.visited, self.waited = 0, [], []

    def device_count(self) -> int:
        """Two cards."""
        return 2

    @contextmanager
    def device(self, index: int) -> Iterator[None]:
        """Make a card current and restore the other."""
        before, self.at = self.at, index
        self.visited.append(index)
        try:
            yield
        finally:
            self.at = before

    def set_device(self, index: int) -> None:
        """Make a card current for good."""
        self.at = index

    def synchronize(self) -> None:
        """Note which card was waited for."""
        self.waited.append(self.at)

    def memory_allocated(self, index: int) -> int:
        """A GiB on card 1."""
        return index << 30

    def memory_reserved(self, index: int) -> int:
        """Two GiB on card 1."""
        return index << 31

    def max_memory_allocated(self, index: int) -> int:
        """Three GiB on card 1."""
        return index * 3 << 30

    def get_device_properties(self, index: int) -> SimpleNamespace:
        """What the driver says of a card."""
        return SimpleNamespace(name=f"Card {index}", total_memory=8 << 30, driver_version="1.6.33578")


@pytest.fixture
def cards(monkeypatch: pytest.MonkeyPatch) -> FakeModule:
    """Two stand-in cards of type xpu."""
    module = FakeModule()
    monkeypatch.setattr(torch, "get_device_module", lambda kind: module)
    return module


@pytest.mark.parametrize(("text", "index"), [("xpu", 0), ("xpu:0", 0), ("xpu:1", 1)])
def test_a_device_string_names_one_card(cards: FakeModule, text: str, index: int) -> None:
    """A type alone is its first card; an index is that card."""
    assert device.parse(text, "xpu").torch == torch.device("xpu", index)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("xpu：1", "full-width colon (U+FF1A); type it as 'xpu:1'"),
        ("xpu:0,1", "names several devices where one is meant; write 'xpu:0'"),
        ("xpu:9", "does not exist: 2 visible; choose xpu:0 to xpu:1"),
        ("cuda:0", "is not of this stack, which uses 'xpu'"),
        ("xpuu:0", "there is no device type 'xpuu' (did you mean 'xpu'?)"),
        ("1", "names no type; write 'xpu:1'"),
        ("", "is not a device"),
        ("xpu:", "is not a device"),
        ("xpu:01", "is not a device"),
        ("xpu:-1", "is not a device"),
        ("XPU:1", "is not a device"),
        (" xpu:1", "is not a device"),
        ("xpu:1\n", "is not a device"),
    ],
)
def test_anything_else_is_refused_with_its_own_sentence(cards: FakeModule, text: str, words: str) -> None:
    """What silently meant card 0 for the first users (requirements.md A2) is refused by name."""
    with pytest.raises(Refusal) as refusal:
        device.parse(text, "xpu")
    assert words in str(refusal.value)


def test_no_device_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """A type without a visible card has no default."""
    monkeypatch.setattr(torch, "get_device_module", lambda kind: SimpleNamespace(device_count=lambda: 0))
    with pytest.raises(StackUnavailableError, match="sees no 'xpu' device"):
        device.default("xpu")
    with pytest.raises(Refusal, match="no 'xpu' device is visible"):
        device.parse("xpu:0", "xpu")


def test_a_driver_that_cannot_be_asked_is_not_called_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    """What torch said is told: it is the cause, and "no device" is not (requirements.md C4)."""

    def ask() -> int:
        raise NameError("name 'amdsmi' is not defined")

    monkeypatch.setattr(torch, "get_device_module", lambda kind: SimpleNamespace(device_count=ask))
    with pytest.raises(StackUnavailableError, match="'cuda' devices failed: NameError: name 'amdsmi' is not defined"):
        device.default("cuda")


def test_an_unknown_type_is_an_error_not_a_default() -> None:
    """A typo in a stack does not become the CPU."""
    with pytest.raises(Refusal, match="there is no device type 'cupu'"):
        device.count("cupu")


def test_the_cpu_is_one_device() -> None:
    """The CPU counts one, spells itself without an index, and may be written with it."""
    (host,) = device.visible("cpu")
    assert (str(host), host.torch, host) == ("cpu", torch.device("cpu"), device.parse("cpu:0", "cpu"))


def test_synchronize_waits_for_its_own_card(cards: FakeModule) -> None:
    """Waiting for card 1 while card 0 is current waits for card 1, and card 0 stays current."""
    device.visible("xpu")[1].synchronize()
    assert ([1], 0) == (cards.waited, cards.at)


def test_current_is_restored_after_an_error(cards: FakeModule) -> None:
    """The previous card is current again, also when the block raises."""
    with pytest.raises(ValueError, match="inside"), device.visible("xpu")[1].current():
        raise ValueError("inside")
    assert cards.at == 0


def test_memory_is_in_bytes_and_of_that_card(cards: FakeModule) -> None:
    """Counters are those of the card asked, in bytes; without mem_get_info free is total less reserved."""
    memory = device.visible("xpu")[1].memory()
    assert device.Memory(1 << 30, 2 << 30, 3 << 30, 6 << 30, 8 << 30) == memory


def test_driver_has_every_name_that_is_there(cards: FakeModule) -> None:
    """Versions that a build lacks are left out, not guessed."""
    facts = device.visible("xpu")[0].driver()
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
    """As lspci writes it; torch 2.4 on HIP knows neither. The CPU is one device and has none."""
    module = SimpleNamespace(get_device_properties=lambda index: SimpleNamespace(**properties))
    monkeypatch.setattr(torch, "get_device_module", lambda kind: module)
    assert (identity, "") == (device.Card("cuda", 1).bus_id(), device.HOST.bus_id())


def test_host_memory_follows_an_allocation() -> None:
    """64 MiB that are written to appear in the process's memory."""
    host = device.default("cpu")
    before = host.memory().allocated
    block = torch.ones(16 << 20)
    grown = host.memory().allocated - before
    assert block.numel() * 4 <= grown + (4 << 20)


def test_only_the_seam_names_device_types() -> None:
    """No module beside device.py compares with a device type (design.md, rule 1)."""
    from stackproof import ROOT

    words = [f'"{kind}"' for kind in ("cuda", "xpu", "hip")]
    offenders = [
        f"{path.name}: {line.strip()}"
        for path in (ROOT / "src").rglob("*.py")
        if path.name != "device.py"
        for line in path.read_text(encoding="utf-8").splitlines()
        if any(f"== {word}" in line or f"!= {word}" in line for word in words)
    ]
    assert offenders == []


def test_a_registered_device_type_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """A type that an extension registered with torch needs no line here."""
    monkeypatch.setattr(torch._C, "_get_privateuse1_backend_name", lambda: "npu")
    assert device.kinds()["npu"] is device.Card

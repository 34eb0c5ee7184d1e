"""The seam over devices: strict strings, and the same operations on every kind; accelerators stand in as doubles."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from stackproof.base.errors import Refusal, StackUnavailableError
from stackproof.device import devices
from stackproof.device.names import require_of


@pytest.fixture
def cards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "get_device_module", lambda kind: SimpleNamespace(device_count=lambda: 2))


@pytest.mark.parametrize(("text", "index"), [("xpu", 0), ("xpu:0", 0), ("xpu:1", 1)])
def test_a_device_string_names_one_card(cards: None, text: str, index: int) -> None:
    assert devices.parse(text, "xpu").torch == torch.device("xpu", index)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("xpu：1", "is not one device; write a type and an index, such as 'xpu:0'"),
        ("xpu:0,1", "is not one device"),
        ("xpu:9", "does not exist; choose one of xpu:0, xpu:1"),
        ("cuda:0", "is not of this stack, which uses 'xpu'"),
        ("xpuu:0", "is not of this stack, which uses 'xpu'"),
        ("1", "is not one device"),
        ("", "is not one device"),
        ("xpu:", "is not one device"),
        ("xpu:01", "is not one device"),
        ("xpu:-1", "is not one device"),
        ("XPU:1", "is not one device"),
        (" xpu:1", "is not one device"),
        ("xpu:1\n", "is not one device"),
    ],
)
def test_anything_else_is_refused_with_its_own_sentence(cards: None, text: str, words: str) -> None:
    with pytest.raises(Refusal) as refusal:
        devices.parse(text, "xpu")
    assert words in str(refusal.value)


def test_no_device_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "get_device_module", lambda kind: SimpleNamespace(device_count=lambda: 0))
    with pytest.raises(StackUnavailableError, match="sees no 'xpu' device"):
        devices.default("xpu")
    with pytest.raises(Refusal, match="no 'xpu' device is visible"):
        devices.parse("xpu:0", "xpu")


def test_a_driver_that_cannot_be_asked_is_not_called_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    def ask() -> int:
        raise NameError("name 'amdsmi' is not defined")

    monkeypatch.setattr(torch, "get_device_module", lambda kind: SimpleNamespace(device_count=ask))
    with pytest.raises(StackUnavailableError, match="'cuda' devices failed: NameError: name 'amdsmi' is not defined"):
        devices.default("cuda")


def test_an_unknown_type_is_an_error_not_a_default() -> None:
    with pytest.raises(Refusal, match="there is no device type 'cupu'"):
        devices.count("cupu")


def test_the_cpu_is_one_device() -> None:
    (host,) = devices.visible("cpu")
    assert (str(host), host.torch, host) == ("cpu", torch.device("cpu"), devices.parse("cpu:0", "cpu"))


def test_only_the_seam_names_device_types() -> None:
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
    monkeypatch.setattr(torch._C, "_get_privateuse1_backend_name", lambda: "npu")
    assert devices.kinds()["npu"] is devices.Accelerator


@pytest.mark.parametrize("text", ["xpu", "xpu:0", "xpu:9"])
def test_a_name_that_can_be_is_none_of_its_concern(text: str) -> None:
    require_of(text, "xpu")

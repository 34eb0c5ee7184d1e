"""Placement's rules on two stand-in cards whose memory is a ledger: right, and wrong in each of the ways that were seen."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from stackproof.device.kinds import Accelerator, Device, Memory
from stackproof.probes import placement
from stackproof.record.checks import CheckFailed
from stackproof.stack import stacks

COUNTED: dict[int, int] = {}
SIZE = 4 << 20


class Ledger(Accelerator):
    """A test double of a card; `torch` is where it claims to be. Not an accelerator."""

    def memory(self) -> Memory:
        return Memory(COUNTED.get(self.index, 0), 0, 0, 0, 0)

    def synchronize(self) -> None: ...


class Claim:
    """A tensor that says where it is."""

    def __init__(self, index: int, total: float = 1 << 20) -> None:
        self.device, self.total = torch.device("xpu", index), total

    def __add__(self, other: Any) -> Claim:
        return self

    def sum(self) -> Claim:
        return self

    def item(self) -> float:
        return self.total

    def __eq__(self, other: object) -> Any:
        return torch.ones(1) == other


class Module:
    """A test double of `torch.xpu` with two cards, streams and events."""

    def __init__(self, *, sticks: bool = False, stream_index: int | None = None, restores: bool = True) -> None:
        self.at, self.sticks, self.wrong, self.restores = 0, sticks, stream_index, restores
        self.stream_at: Any = "default"

    def current_device(self) -> int:
        return self.at

    @contextmanager
    def device(self, index: int) -> Iterator[None]:
        """Make a card current; a faulty one stays."""
        before, self.at = self.at, index
        yield
        self.at = self.at if self.sticks else before

    def Stream(self) -> Any:  # noqa: N802 - torch's name
        return SimpleNamespace(device=torch.device("xpu", self.at if self.wrong is None else self.wrong))

    def current_stream(self) -> Any:
        return self.stream_at

    @contextmanager
    def stream(self, stream: Any) -> Iterator[None]:
        """Make a stream current; a faulty one stays."""
        before, self.stream_at = self.stream_at, stream
        yield
        self.stream_at = before if self.restores else stream

    def Event(self) -> Any:  # noqa: N802 - torch's name
        return SimpleNamespace(record=lambda: None, synchronize=lambda: None, query=lambda: True)


CARDS = (Ledger("xpu", 0), Ledger("xpu", 1))


def use(monkeypatch: pytest.MonkeyPatch, module: Module) -> None:
    monkeypatch.setattr(torch, "get_device_module", lambda kind: module)


def made(says: int, counted: int, total: float = 1 << 20) -> dict[str, Any]:
    def make() -> Claim:
        COUNTED[counted] = COUNTED.get(counted, 0) + SIZE
        return Claim(says, total)

    return {"device='xpu:1'": make}


def test_work_that_lands_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, Module())
    assert placement.lands(CARDS[1], CARDS, made(1, 1)) == 1


@pytest.mark.parametrize(
    ("says", "counted", "total", "words"),
    [
        (0, 0, 1 << 20, "device='xpu:1': the tensor is on xpu:0, not on xpu:1"),
        (1, 0, 1 << 20, "memory of xpu:0 grew by 4194304 bytes, 0 were expected"),
        (1, 1, 5.0, "1048576 ones sum to 5"),
    ],
    ids=["trains on card 0", "says card 1 and takes card 0", "computes nothing"],
)
def test_work_that_lands_elsewhere_is_caught(
    monkeypatch: pytest.MonkeyPatch, says: int, counted: int, total: float, words: str
) -> None:
    use(monkeypatch, Module())
    with pytest.raises(CheckFailed) as failure:
        placement.lands(CARDS[1], CARDS, made(says, counted, total))
    assert words in str(failure.value)


def test_a_current_device_that_moved_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    module = Module(sticks=True)
    use(monkeypatch, module)
    words = "a block: the current device was 0 and is 1 afterwards"
    with pytest.raises(CheckFailed, match=words), placement.unmoved(CARDS[1], "a block"), CARDS[1].current():
        pass


class Ones:
    """What a card would give for a tensor of ones."""

    device = torch.device("xpu", 1)

    def __eq__(self, other: object) -> Any:
        return torch.tensor(True)


@pytest.mark.parametrize(
    ("module", "words"),
    [
        (Module(stream_index=0), "a stream made while it is current belongs to card 0"),
        (Module(restores=False), "the stream is still current after its block"),
        (Module(), ""),
    ],
    ids=["another card's stream", "a stream that stays", "right"],
)
def test_streams(monkeypatch: pytest.MonkeyPatch, module: Module, words: str) -> None:
    use(monkeypatch, module)
    monkeypatch.setattr(torch, "ones", lambda *_, **__: Ones())
    if not words:
        placement.queues(CARDS[1])
        return
    with pytest.raises(CheckFailed, match=words):
        placement.queues(CARDS[1])


@pytest.mark.parametrize(
    ("outer", "index", "value"), [("", 1, "1"), ("2,3", 1, "3"), ("0.1, 1.0", 0, "0.1"), ("2", 1, "1")]
)
def test_a_mask_within_a_mask(outer: str, index: int, value: str) -> None:
    assert placement.mask(outer, index) == value


CHILD = {"value": "1", "count": 1, "identity": {"name": "B60", "uuid": "b"}, "sum": 1 << 20}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"count": 2}, "under ZE_AFFINITY_MASK=1 a process sees 2 cards, one was expected"),
        ({"identity": {"name": "B60", "uuid": "a"}}, "sees another card than xpu:1: {'uuid': 'a'}"),
        ({"sum": 3}, "1048576 ones sum to 3"),
    ],
    ids=["ignored", "the wrong card", "computes nothing"],
)
def test_a_variable_that_shows_something_else_is_caught(change: dict[str, Any], words: str) -> None:
    stack = stacks.load("xpu")
    expected = {"name": "B60", "uuid": "b"}
    placement.only_that_card(stack, CARDS[1], expected, CHILD)
    with pytest.raises(CheckFailed) as failure:
        placement.only_that_card(stack, CARDS[1], expected, {**CHILD, **change})
    assert words in str(failure.value)


def test_a_child_gets_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {}
    monkeypatch.setattr(
        placement.children, "ask", lambda *words, **options: given.update(options, words=words) or {"count": 1}
    )
    monkeypatch.delenv("ZE_AFFINITY_MASK", raising=False)
    assert placement.seen_by_child(stacks.load("xpu"), CARDS[1], 5) == {"value": "1", "count": 1}
    assert (given["environment"], given["words"][1]) == ({"ZE_AFFINITY_MASK": "1"}, "xpu")


def test_the_child_reports_itself(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    module = SimpleNamespace(get_device_properties=lambda index: SimpleNamespace(uuid="u", total_memory=5))
    use(monkeypatch, module)  # type: ignore[arg-type]
    monkeypatch.setattr("sys.argv", ["-c", "cpu", "math"])
    placement.report()
    answer = json.loads(capsys.readouterr().out)
    assert (answer["count"], answer["sum"], answer["identity"]["uuid"]) == (1, 1 << 20, "u")


def test_every_spelling_lands_on_the_cpu() -> None:
    from stackproof.device.devices import HOST

    cards: tuple[Device, ...] = (replace(HOST),)
    assert placement.lands(HOST, cards, placement.spellings(HOST)) == 13

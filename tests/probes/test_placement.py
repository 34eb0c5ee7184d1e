"""What a process under a visibility variable is asked, and that every spelling lands on the host; the drill plants the rest."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from stackproof.device.kinds import Accelerator, Device
from stackproof.probes import placement
from stackproof.record.checks import CheckFailed
from stackproof.stack import stacks

CARD = Accelerator("xpu", 1)


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
    placement.only_that_card(stack, CARD, expected, CHILD)
    with pytest.raises(CheckFailed) as failure:
        placement.only_that_card(stack, CARD, expected, {**CHILD, **change})
    assert words in str(failure.value)


def test_a_child_gets_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {}
    monkeypatch.setattr(
        placement.children, "ask", lambda *words, **options: given.update(options, words=words) or {"count": 1}
    )
    monkeypatch.delenv("ZE_AFFINITY_MASK", raising=False)
    assert placement.seen_by_child(stacks.load("xpu"), CARD, 5) == {"value": "1", "count": 1}
    assert (given["environment"], given["words"][1]) == ({"ZE_AFFINITY_MASK": "1"}, "xpu")


def test_the_child_reports_itself(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    module = SimpleNamespace(get_device_properties=lambda index: SimpleNamespace(uuid="u", total_memory=5))
    monkeypatch.setattr(torch, "get_device_module", lambda kind: module)
    monkeypatch.setattr("sys.argv", ["-c", "cpu", "math"])
    placement.report()
    answer = json.loads(capsys.readouterr().out)
    assert (answer["count"], answer["sum"], answer["identity"]["uuid"]) == (1, 1 << 20, "u")


def test_every_spelling_lands_on_the_cpu() -> None:
    from stackproof.device.devices import HOST

    cards: tuple[Device, ...] = (replace(HOST),)
    assert placement.lands(HOST, cards, placement.spellings(HOST)) == 13

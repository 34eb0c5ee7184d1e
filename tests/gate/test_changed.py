"""Equal to the bit, equal within rounding, or CHANGED: what two fingerprints say of each other. Without torch."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from stackproof.gate import changed
from stackproof.gate.changed import compare
from stackproof.record.records import CellWord

_SCALAR = {"shape": [], "digest": "a", "norm": 2.0, "sketch": [2.0] * 8}
_VECTOR = {"shape": [3], "digest": "a", "norm": 1.0, "sketch": [1.0, -1.0] * 4}
BASE: dict[str, Any] = {
    "settings": {"lr of group 0": 0.1}, "worth": {"sample": 4.0}, "dtype": "float32",
    "groups": {
        "data": {"tokens": {"shape": [3], "digest": "a"}}, "loss": {"loss": _SCALAR},
        "gradient": {"w": _VECTOR, "tiny": {**_VECTOR, "norm": 1e-20, "sketch": [1e-20] * 8}},
        "timed": {"result of run 1": _VECTOR, "size of the change of run 1": _SCALAR}
    }
}  # fmt: skip


def _moved(group: str, name: str, share: float) -> dict[str, Any]:
    """Return the base with one tensor moved by a share of its norm."""
    head: dict[str, Any] = json.loads(json.dumps(BASE))
    one = head["groups"][group][name]
    one["digest"], one["sketch"] = "b", [value + share * one["norm"] for value in one["sketch"]]
    return head


def test_equal_sides_are_equal_to_the_bit() -> None:
    assert compare(BASE, json.loads(json.dumps(BASE))).sentence().startswith("SAME to the bit")


@pytest.mark.parametrize(
    ("group", "name", "share"),
    [("loss", "loss", 1e-12), ("gradient", "w", 1e-10), ("gradient", "tiny", 1.0), ("timed", "result of run 1", 1e-5)],
)
def test_rounding_is_the_same(group: str, name: str, share: float) -> None:
    found = compare(BASE, _moved(group, name, share))
    assert not found.changed
    assert found.sentence().startswith("SAME within rounding, 1 of them")


@pytest.mark.parametrize(
    ("group", "name", "share"),
    [("loss", "loss", 1e-6), ("gradient", "w", 1e-7), ("timed", "result of run 1", 0.01), ("loss", "loss", math.nan)],
)
def test_more_than_rounding_is_changed(group: str, name: str, share: float) -> None:
    found = compare(BASE, _moved(group, name, share))
    assert found.changed
    assert found.sentence().startswith("CHANGED ")


def test_causes_come_before_effects() -> None:
    head = _moved("loss", "loss", 0.1)
    head["groups"]["data"]["tokens"]["digest"] = "b"
    said = compare(BASE, head).sentence()
    assert said.startswith("CHANGED the data are not the same")
    assert said.endswith("so do: loss")
    head["settings"]["lr of group 0"] = 0.2
    assert "the settings are not the same: lr of group 0 is 0.2 and was 0.1" in compare(BASE, head).sentence()


def test_what_only_one_side_has_is_changed() -> None:
    for change in ({"w": None}, {"new": _VECTOR}, {"w": {**_VECTOR, "shape": [4]}}):
        head = json.loads(json.dumps(BASE))
        head["groups"]["gradient"] |= change
        head["groups"]["gradient"] = {name: one for name, one in head["groups"]["gradient"].items() if one}
        assert compare(BASE, head).changed
    head = json.loads(json.dumps(BASE))
    head["settings"]["new of group 0"] = True
    assert not compare(BASE, head).changed


def test_what_an_older_side_does_not_tell_is_no_change() -> None:
    head = json.loads(json.dumps(BASE))
    head["groups"] |= {"prediction": {"in evaluation": _VECTOR}, "buffer": {"note": _VECTOR}}
    assert not compare(BASE, head).changed
    base = json.loads(json.dumps(BASE))
    base["groups"]["buffer"] = {"mean": _VECTOR}
    assert not compare(base, head).changed
    base["groups"]["buffer"]["note"] = {**_VECTOR, "digest": "b", "norm": 2.0, "sketch": [2.0] * 8}
    assert [one.group for one in compare(base, head).differences] == ["buffer"]


def test_units_of_work_are_compared_exactly() -> None:
    assert changed.units({"optimiser steps": 1000}, {"optimiser steps": 1000}) == ""
    assert changed.units({"optimiser steps": 1000}, {"optimiser steps": 999}) == "optimiser steps: 1000 -> 999"
    assert "none" in changed.units({"optimiser steps": 3}, {})


_STEADY = [[3.0, 2.0, 1.0]] * 6
_NOISY = [[1.0, 2.0 + 0.01 * number] for number in range(6)]


@pytest.mark.parametrize(
    ("base", "head", "within", "word"),
    [
        (_STEADY, _STEADY, 0.0, CellWord.SAME),
        (_STEADY, [[3.0, 2.0, 1.0001]] * 6, 0.0, CellWord.CHANGED),
        (_STEADY, [[3.0, 2.0, 1.0001]] * 6, 0.01, CellWord.SAME),
        (_STEADY, [[3.0, 2.0]] * 6, 0.01, CellWord.CHANGED),
        (_STEADY, [[]] * 6, 0.0, CellWord.CHANGED),
        ([[math.nan]] * 6, [[math.nan]] * 6, 0.0, CellWord.CHANGED),
        (_STEADY, [[3.0, 2.0, 1.0], [3.0, 2.0]], 0.0, CellWord.NOT_JUDGED),
        (_NOISY, _NOISY[::-1], 0.0, CellWord.NOT_JUDGED),
        (_NOISY, [[1.0, value + 1] for _, value in _NOISY], 0.0, CellWord.CHANGED),
        (_NOISY[:3], [[1.0, value + 1] for _, value in _NOISY[:3]], 0.0, CellWord.NOT_JUDGED),
    ],
)
def test_figures_are_compared(base: changed.Series, head: changed.Series, within: float, word: CellWord) -> None:
    found, reason = changed.compare_figures(base, head, within)
    assert found is word
    assert reason.startswith(word.value) or word is CellWord.NOT_JUDGED


def test_the_first_value_that_differs_is_named() -> None:
    _, reason = changed.compare_figures(_STEADY, [[3.0, 2.2, 2.0]] * 6)
    assert "value 2 of 3 is 2.2 and was 2; the largest difference is 50 %" in reason

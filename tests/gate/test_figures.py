"""Figures of two commands: the same to the digit, changed, or varying by themselves."""

from __future__ import annotations

import math

import pytest

from stackproof.gate import figures
from stackproof.record.records import CellWord

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
def test_figures_are_compared(base: figures.Series, head: figures.Series, within: float, word: CellWord) -> None:
    found = figures.compare(base, head, within)
    assert found.word is word
    assert found.reason.split()[0] in (word.value, "not")


def test_the_first_value_that_differs_is_named() -> None:
    found = figures.compare(_STEADY, [[3.0, 2.2, 2.0]] * 6)
    assert "value 2 of 3 is 2.2 and was 2;" in found.reason
    assert found.worst == pytest.approx(0.5)

"""Texts are found in bytes wherever they are, whichever byte of theirs the log makes rare."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stackproof.triage.search import Plan

TEXTS = [
    b"NCCL WARN",
    b"NCCL WARN Duplicate",
    b"WARN",
    b"'loss': 0.0",
    b"it/s]",
    b"out of memory",
    b"-> 5",
    b"aab",
    b"aaab",
]


def found(plan: Plan, data: bytes) -> set[bytes]:
    """Return all texts that a plan finds in the data."""
    return {text for _, _, texts in plan.rows(data, 0, len(data), whole) for text in texts}


def whole(data: bytes, _place: int) -> tuple[int, int]:
    """Take all for one line."""
    return 0, len(data)


@pytest.mark.parametrize("sample", [b"", b"NCCL WARN " * 50, b"aab" * 99, bytes(range(256)) * 4])
def test_every_text_is_found_whatever_the_sample_made_rare(sample: bytes) -> None:
    data = b"xx " + b" | ".join(TEXTS) + b" yy"
    assert found(Plan(TEXTS, sample), data) == set(TEXTS)


@settings(max_examples=200, deadline=None, database=None)
@given(st.lists(st.binary(min_size=3, max_size=6), min_size=1, max_size=12), st.binary(max_size=300), st.randoms())
def test_finds_just_what_is_there(texts: list[bytes], data: bytes, draw: random.Random) -> None:
    planted = data + b"".join(draw.sample(texts, k=min(3, len(texts))))
    assert found(Plan(texts, data), planted) == {text for text in texts if text in planted}


def test_a_text_across_a_cut_is_found_once() -> None:
    data = b"...needle..."
    plan = Plan([b"needle"], b"")
    for cut in range(len(data)):
        parts = [*plan.rows(data, 0, cut, whole), *plan.rows(data, cut, len(data), whole)]
        assert [texts for _, _, texts in parts] == [(b"needle",)]


def test_no_texts_find_nothing() -> None:
    assert found(Plan([], b"abc"), b"abc") == set()

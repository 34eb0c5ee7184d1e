"""Texts are found in bytes wherever they are."""

from __future__ import annotations

import random

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
    return {text for _, texts in plan.places(data) for text in texts}


def test_every_text_is_found() -> None:
    data = b"xx " + b" | ".join(TEXTS) + b" yy"
    plan = Plan(TEXTS)
    for part in (
        data,
        data[1:],
        *(data[n:] for n in range(4, 40, 7)),
    ):  # also where a text begins before the data, and again
        assert found(plan, part) == {text for text in TEXTS if text in part}


def test_of_hundreds_of_texts_with_one_anchor_few_are_tried() -> None:
    plan = Plan([b"%c%cError: " % (first, second) for first in range(97, 123) for second in range(97, 123)])
    assert found(plan, b"loss: 1.0 " * 99 + b"zaError: ") == {b"zaError: "}
    assert sum(map(len, plan._fitting.values())) < 99


@settings(max_examples=200, deadline=None, database=None)
@given(st.lists(st.binary(min_size=3, max_size=6), min_size=1, max_size=12), st.binary(max_size=300), st.randoms())
def test_finds_just_what_is_there(texts: list[bytes], data: bytes, draw: random.Random) -> None:
    planted = data + b"".join(draw.sample(texts, k=min(3, len(texts))))
    assert found(Plan(texts), planted) == {text for text in texts if text in planted}


def test_no_texts_find_nothing() -> None:
    assert found(Plan([]), b"abc") == set()

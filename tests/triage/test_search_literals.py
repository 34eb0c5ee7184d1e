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


def test_every_text_is_found() -> None:
    data = b"xx " + b" | ".join(TEXTS) + b" yy"
    plan = Plan(TEXTS)
    for part in (data[n:] for n in range(40)):  # also where a text begins before the data, and again
        assert plan.held(part) == sorted(text for text in TEXTS if text in part)


@settings(max_examples=200, deadline=None, database=None)
@given(st.lists(st.binary(min_size=3, max_size=6), min_size=1, max_size=12), st.binary(max_size=300), st.randoms())
def test_finds_just_what_is_there(texts: list[bytes], data: bytes, draw: random.Random) -> None:
    planted = data + b"".join(draw.sample(texts, k=min(3, len(texts))))
    assert set(Plan(texts).held(planted)) == {text for text in texts if text in planted}


def test_no_texts_find_nothing() -> None:
    assert Plan([]).held(b"abc") == []

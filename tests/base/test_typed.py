"""The words of a call: kept while it runs, without what only says where something is written."""

from __future__ import annotations

import pytest

from stackproof.base import typed


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["night", "--stack", "cpu", "--only", "gemm-float32"], "night --stack cpu --only gemm-float32"),
        (["verify", "--json", "/home/me/x.json", "--preset=full", "--results=/home/me"], "verify --preset=full"),
        (["night", "--continue", "--locked", "--site", "out"], "night"),
        (["watch", "--stack", "cpu", "--", "train", "--token", "secret"], "watch --stack cpu"),
        (["gate", "--env", "A=b c; rm -rf ~"], "gate --env 'A=b c; rm -rf ~'"),
    ],
)
def test_words_are_kept_without_places(given: list[str], words: str) -> None:
    with typed.kept(given):
        assert typed.words() == words
    assert typed.words() == ""


def test_a_call_that_fails_leaves_no_words() -> None:
    with pytest.raises(ValueError, match="no"), typed.kept(["night"]):
        raise ValueError("no")
    assert typed.words() == ""

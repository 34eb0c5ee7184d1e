"""Refusals carry the exit codes of the contracts, and suggestions name the nearest word or nothing."""

from __future__ import annotations

import pytest

from stackproof.base.errors import EnvironmentMismatchError, Refusal, StackUnavailableError, suggestion


@pytest.mark.parametrize(("kind", "code"), [(Refusal, 2), (StackUnavailableError, 3), (EnvironmentMismatchError, 4)])
def test_exit_codes_are_those_of_the_contracts(kind: type[Refusal], code: int) -> None:
    assert kind("x").exit_code == code
    assert issubclass(kind, Refusal)


@pytest.mark.parametrize(
    ("word", "nearest"),
    [
        ("xpuu", "xpu"),
        ("xpu-natve", "xpu-native"),
        ("dcuu", "dcu"),
        ("CUDA", "cuda"),
        ("cup", "cpu"),
        ("cdu", "dcu"),
        ("xup", "xpu"),
        ("kitchen", ""),
    ],
)
def test_suggestion_names_the_nearest_word_or_nothing(word: str, nearest: str) -> None:
    said = suggestion(word, ["cpu", "cuda", "dcu", "xpu", "xpu-native"])
    assert said == (f" (did you mean '{nearest}'?)" if nearest else "")


def test_suggestion_without_known_words() -> None:
    assert suggestion("x", iter(())) == ""

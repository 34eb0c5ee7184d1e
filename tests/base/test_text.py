"""What comes from outside is shown as what it is, wherever it is shown."""

from __future__ import annotations

import pytest

from stackproof.base import text
from stackproof.base.text import MOST, as_typed, indented, is_visible, plain


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain words, a\ttab\nand a line", "plain words, a\ttab\nand a line"),
        ("öäü 中文 ± µs", "öäü 中文 ± µs"),
        ("\x1b[2Jgone", "\\x1b[2Jgone"),
        ("\x9b31mred", "\\x9b31mred"),
        ("over\rwritten\x08", "over\\x0dwritten\\x08"),
        ("passed\u202edeliaf", "passed\\u202edeliaf"),
        ("\u2066isolated\u2069", "\\u2066isolated\\u2069"),
        ("zero\u200bwidth\ufeff", "zero\\u200bwidth\\ufeff"),
        ("two\u2028lines\u2029", "two\\u2028lines\\u2029"),
        ("tags\U000e0041", "tags\\U000e0041"),
        ("half\udc80", "half\\udc80"),
        ("blank\u3164", "blank\\u3164"),
    ],
)
def test_what_deceives_is_written_out(text: str, shown: str) -> None:
    assert plain(text) == shown


def test_a_line_stays_one_line() -> None:
    assert plain("a\nPASSED\tb", lines=False) == "a\\x0aPASSED\\x09b"


def test_marks_do_not_pile_up() -> None:
    shown = plain("e" + "\u0301" * 1000)
    assert shown.count("\u0301") == 8
    assert plain("e\u0301") == "e\u0301"


def test_endless_text_is_cut_and_says_so() -> None:
    shown = plain("x" * 10_000_000)
    assert len(shown) < MOST + 100
    assert shown.endswith(f"[cut: {10_000_000 - MOST} more characters]")
    assert plain("x" * MOST) == "x" * MOST


@pytest.mark.parametrize("text", ["x" * 200, "e\u0301" * 100])
def test_to_say_that_a_text_is_cut_takes_no_more_than_it_leaves_out(text: str) -> None:
    for most in range(150, 200):
        shown = plain(text, most)
        assert len(shown) <= len(text) and (shown == text or shown.startswith(f"{text[:most]} [cut: {200 - most} more"))


@pytest.mark.parametrize(
    ("pattern", "typed"),
    [
        ("*::*[[]gemm-float32]", "gemm-float32"),
        ("*[[]my-*]", "*[my-*]"),
        ("*::*[[]*measured[[]training-*]", "*measured[training-*"),
        ("own/a::shape[[]3]", "own/a::shape[3]"),
        ("own/a::*", "own/a::*"),
    ],
)
def test_a_pattern_is_shown_as_it_was_typed(pattern: str, typed: str) -> None:
    assert as_typed(pattern) == typed


def test_no_further_line_passes_for_one_of_ours() -> None:
    assert indented("wrong\nPASSED  cpu: 20 passed\n  ! torch\n") == "wrong\n    PASSED  cpu: 20 passed\n  ! torch\n"
    assert indented("wrong\r\u2028\nPASSED\x1b[2J") == "wrong\\x0d\\u2028\n    PASSED\\x1b[2J"


@pytest.mark.parametrize("text", ["e" + "\u0301" * 8000, "\x1b" * 8000, "\U000e0041" * 8000])
def test_what_is_written_out_does_not_grow_beyond_the_limit(text: str) -> None:
    shown = plain(text)
    assert len(shown) < MOST + 60
    assert " more characters]" in shown


@pytest.mark.parametrize("text", ["", "  \n\t", "\u200b\u2060", "\u3164 \u2800", "\u0301", "\x1b\x00", "\u202e"])
def test_what_does_not_show_says_nothing(text: str) -> None:
    assert not is_visible(text)
    assert is_visible(f"{text}\u4e2d")


@pytest.mark.parametrize(
    ("unit", "seconds", "expected"),
    [
        ("s/sample", 0.25, (4.0, "samples/s")),
        ("s/token", 0.001, (1000.0, "tokens/s")),
        ("s/iteration", 2.0, (0.5, "it/s")),
        ("s/GB", 0.1, (10.0, "GB/s")),
        ("s/TFLOP", 0.002, (500.0, "TFLOP/s")),
        ("bytes", 5.0, (5.0, "bytes")),
        ("s/GB", 0.0, (0.0, "s/GB")),
    ],
)
def test_seconds_are_shown_as_rates(unit: str, seconds: float, expected: tuple[float, str]) -> None:
    figure, word = text.rate(seconds, unit)
    assert figure == pytest.approx(expected[0])
    assert word == expected[1]


@pytest.mark.parametrize("unit", text.RATES)
def test_slower_is_a_lower_rate(unit: str) -> None:
    assert text.rate(2.0, unit)[0] < text.rate(1.0, unit)[0]


def test_plain_seconds_stay() -> None:
    assert text.rate(2.0, "s") == (2.0, "s")


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(2.5, "2.50 s"), (0.0125, "12.50 ms"), (4.2e-6, "4.20 us"), (5e-9, "5.00 ns"), (0.0, "0.00 ns")],
)
def test_seconds_are_told_in_a_fitting_part(seconds: float, words: str) -> None:
    assert text.shown(seconds, "s") == words

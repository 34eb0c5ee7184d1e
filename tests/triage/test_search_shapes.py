"""Looking at shapes finds every line that looking at lines would, and stops where lines do not repeat."""

from __future__ import annotations

import io
import random

from hypothesis import given, settings
from hypothesis import strategies as st

from stackproof.triage.logs import Window, windows
from stackproof.triage.search import Plan, Shapes


def window(data: bytes) -> Window:
    """Return the data as one window."""
    (found,) = windows(io.BytesIO(data))
    return found


def lines_found(shapes: Shapes, data: bytes, text: bytes) -> int:
    """Return how many lines with the text lie in the ranges."""
    return sum(data[begin:end].count(text) for begin, end in shapes.ranges(window(data)))


@settings(max_examples=100, deadline=None, database=None)
@given(
    st.lists(st.sampled_from([b"step 12", b"exit 9", b"exit 19", b"a\rexit 9", b"", b"\xff\x00", b"exit"]), max_size=60)
)
def test_no_line_with_a_text_is_missed(lines: list[bytes]) -> None:
    """Digits in the text do not matter for finding the line, nor do carriage returns; twice the same window is the same again."""
    data = b"\n".join(lines)
    shapes = Shapes(Plan([b"exit 9"], data), data)
    for _ in range(2):
        assert lines_found(shapes, data, b"exit 9") == data.count(b"exit 9")


def test_repeated_lines_are_passed_over() -> None:
    """A log of one shape is looked at once: no part of it needs to be read."""
    data = b"".join(b"step %d of 100000\n" % n for n in range(1000))
    assert list(Shapes(Plan([b"Traceback"], data), data).ranges(window(data))) == []


def test_lines_that_never_repeat_are_read_directly() -> None:
    """Where every line is new, the next windows are given whole: shapes would only cost time."""
    draw = random.Random(1)
    data = b"".join(bytes(draw.choices(b"abcdefgh", k=30)) + b"\n" for _ in range(1000))
    shapes = Shapes(Plan([b"Traceback"], data), data)
    list(shapes.ranges(window(data)))
    assert list(shapes.ranges(window(data))) == [(0, len(data))]

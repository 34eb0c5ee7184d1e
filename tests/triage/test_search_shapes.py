"""Looking at shapes finds every line that looking at lines would."""

from __future__ import annotations

import io
import random

from hypothesis import given, settings
from hypothesis import strategies as st

from stackproof.triage.logs import Window, windows
from stackproof.triage.search import Shapes


def window(data: bytes) -> Window:
    """Return the data as one window."""
    (found,) = windows(io.BytesIO(data))
    return found


def held(shapes: Shapes, data: bytes, wanted: bool = True) -> list[tuple[bytes, tuple[bytes, ...]]]:
    """Return the lines that hold texts, and which."""
    return [(data[begin:end], texts) for begin, end, texts in shapes.lines(window(data), lambda *_: wanted)]


TEXTS = (b"exit 9", b"step 1", b"exit", b"exceeded")
ADDRESSES = [b"quota 12345678", b"quota exceeded", b"quota 0x7f00ab12cd34", b"quota succeeded"]


@settings(max_examples=100, deadline=None, database=None)
@given(
    st.lists(
        st.sampled_from([*ADDRESSES, b"step 12", b"exit 9", b"exit 19", b"a\rexit 9", b"", b"\xff\x00", b"exit"]),
        max_size=60,
    )
)
def test_every_line_with_a_text_is_found_with_all_its_texts(lines: list[bytes]) -> None:
    data = b"\n".join(lines)
    parts = data.replace(b"\r", b"\n").split(b"\n")
    wanted = [(part, {text for text in TEXTS if text in part}) for part in parts]
    shapes = Shapes(TEXTS)
    for _ in range(2):
        assert [(part, set(texts)) for part, texts in held(shapes, data)] == [row for row in wanted if row[1]]


def test_repeated_lines_are_passed_over() -> None:
    data = b"".join(b"step %d of 100000\n" % n for n in range(1000))
    assert held(Shapes([b"Traceback"]), data) == []


def test_lines_that_nobody_wants_are_passed_over() -> None:
    assert held(Shapes(TEXTS), b"step 1 and exit 9\n", wanted=False) == []


def test_new_lines_among_many_known_ones_are_passed_over() -> None:
    draw = random.Random(2)
    prose = [bytes(draw.choices(b"abcdefgh", k=30)) for _ in range(1000)]
    data = b"\n".join(
        b"%s\nstep %d of 100000 is done, on to the next one of them" % (line, n) for n, line in enumerate(prose)
    )
    shapes = Shapes([b"Traceback"])
    assert held(shapes, data) == held(shapes, data) == []


def test_lines_that_differ_in_addresses_alone_are_searched_once_and_all_found() -> None:
    draw = random.Random(3)
    lines = [b"comm 0x%x rank %d - exit 9" % (draw.getrandbits(48) | 1 << 44, n) for n in range(50)]
    shapes = Shapes(TEXTS)
    assert [line for line, _ in held(shapes, b"\n".join(lines))] == lines

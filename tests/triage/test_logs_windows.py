"""A stream comes in windows of bounded size, whole, in order, cut at ends of lines; a damaged gzip gives what it can."""

from __future__ import annotations

import gzip
import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stackproof.triage import logs
from stackproof.triage.logs import Unzipped


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows of a few hundred bytes."""
    monkeypatch.setattr(logs, "CHUNK", 256)
    monkeypatch.setattr(logs, "AHEAD", 64)
    monkeypatch.setattr(logs, "BEHIND", 32)


def read(data: bytes) -> list[logs.Window]:
    """Return all windows."""
    return list(logs.windows(io.BytesIO(data)))


@settings(max_examples=100, deadline=None, database=None)
@given(st.lists(st.binary(max_size=400)))
def test_windows_are_the_whole_stream_once(lines: list[bytes]) -> None:
    data = b"\n".join(lines)
    found = read(data)
    assert b"".join(window.data[window.start : window.end] for window in found) == data
    assert [window.last for window in found] == [False] * (len(found) - 1) + [True]
    for window in found:
        begin = window.offset + window.start
        assert data[begin : begin + 9].startswith(window.data[window.start : window.start + 9])
        assert window.line == 1 + data[:begin].count(b"\n")


def test_a_line_is_not_cut_and_has_what_follows_in_sight() -> None:
    data = b"".join(b"line %03d %s\n" % (n, b"x" * (n % 50)) for n in range(200))
    found = read(data)
    assert len(found) > 5
    assert all(window.data[window.end - 1 : window.end] == b"\n" for window in found)
    assert all(len(window.data) - window.end >= 64 for window in found[:-2])
    assert max(len(window.data) for window in read(b"x" * 100_000)) < 1000


def test_empty_stream_is_one_empty_window() -> None:
    (window,) = read(b"")
    assert (window.start, window.end, window.last) == (0, 0, True)


def unzip(data: bytes, size: int = 100) -> tuple[bytes, str]:
    """Return what a gzip stream gives in pieces, and what is wrong with it."""
    stream = Unzipped(io.BytesIO(data))
    parts = []
    while part := stream.read(size):
        assert len(part) <= size
        parts.append(part)
    return b"".join(parts), stream.damage


TEXT = b"".join(b"step %d loss %d\n" % (n, n * n) for n in range(2000))


def test_gzip_comes_back_whole_also_in_several_members() -> None:
    assert unzip(gzip.compress(TEXT)) == (TEXT, "")
    assert unzip(gzip.compress(TEXT) + gzip.compress(b"more") + b"\0" * 512) == (TEXT + b"more", "")


@pytest.mark.parametrize("keep", [2, 9, 40, 500, -1])
def test_gzip_that_is_cut_short_gives_its_beginning(keep: int) -> None:
    text, damage = unzip(gzip.compress(TEXT)[:keep])
    assert TEXT.startswith(text)
    assert damage == "is cut short"


def test_gzip_that_is_damaged_says_so() -> None:
    packed = bytearray(gzip.compress(TEXT))
    packed[len(packed) // 2] ^= 0xFF
    text, damage = unzip(bytes(packed))
    assert damage.startswith(("is damaged", "is cut short"))
    assert len(text) <= len(TEXT)
    text, damage = unzip(gzip.compress(TEXT) + b"garbage")
    assert (text, damage[:10]) == (TEXT, "is damaged")


@settings(max_examples=100, deadline=None, database=None)
@given(st.binary(max_size=200))
def test_any_bytes_after_the_magic_end(data: bytes) -> None:
    unzip(logs.GZIP + data)


def test_a_bomb_is_unpacked_in_small_pieces() -> None:
    text, damage = unzip(gzip.compress(b"\0" * 1_000_000), size=4096)
    assert (len(text), damage) == (1_000_000, "")

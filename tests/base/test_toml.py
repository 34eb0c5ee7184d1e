"""Strict tables: each refusal names the file, the key and what is allowed, in one sentence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from stackproof.base.errors import Refusal
from stackproof.base.toml import Table, read_toml

Reader = Callable[[Table], object]


def consume(path: Path, text: str, read: Reader) -> object:
    """Write the text, read it with a table, and leave the table's block."""
    path.write_text(text, encoding="utf-8")
    with Table.load(path) as table:
        return read(table)


REFUSED: dict[str, tuple[str, Reader, list[str]]] = {
    "missing": ("", lambda t: t.take("title", str), ["'title' is missing", "a string"]),
    "slip of a required key": (
        'tittle = "x"',
        lambda t: t.take("title", str),
        ["'title' is missing", "is 'tittle' meant?"],
    ),
    "wrong type": ("title = 5", lambda t: t.take("title", str), ["'title' is 5", "a string"]),
    "true is no number": ("n = true", lambda t: t.take("n", int), ["'n' is True", "a whole number"]),
    "a number is not true": ("b = 1", lambda t: t.take("b", bool), ["'b' is 1", "true or false"]),
    "a fraction is not whole": ("n = 1.5", lambda t: t.take("n", int), ["'n' is 1.5", "a whole number"]),
    "not allowed": (
        'w = "floot32"',
        lambda t: t.take("w", str, allowed=["float32", "int8"]),
        ["'w' is 'floot32'", "did you mean 'float32'?", "allowed: 'float32', 'int8'"],
    ),
    "a string is not a list": ('l = "x"', lambda t: t.strings("l"), ["'l' is 'x'", "a list"]),
    "element of a list": ("l = ['a', 5]", lambda t: t.strings("l"), ["'l' is 5", "a string"]),
    "element that is not allowed": (
        "l = ['a', 'b']",
        lambda t: t.strings("l", allowed=["a"]),
        ["'l' is 'b'", "allowed: 'a'"],
    ),
    "value of a mapping": ("m = {A = 1}", lambda t: t.mapping("m"), ["'m.A' is 1", "a string"]),
    "a list is no mapping": ("m = []", lambda t: t.mapping("m"), ["'m' is []", "a table"]),
    "unknown key": (
        "deivce = 1\ndevice = 2",
        lambda t: t.take("device", int),
        ["'deivce' is not a known key", "did you mean 'device'?", "allowed: device"],
    ),
    "row that is no table": ("rows = [1]", lambda t: t.tables("rows"), ["'rows' is 1", "a table"]),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusal_names_file_key_and_what_is_allowed(tmp_path: Path, name: str) -> None:
    """One sentence, no more lines, that can be acted upon."""
    text, read, words = REFUSED[name]
    path = tmp_path / "stack.toml"
    with pytest.raises(Refusal) as caught:
        consume(path, text, read)
    said = str(caught.value)
    assert said.startswith(f"{path}: ")
    assert [word for word in words if word not in said] == []
    assert "\n" not in said


def test_keys_of_inner_tables_are_named_with_their_place(tmp_path: Path) -> None:
    """The key of a row or a sub-table is written with the path to it."""
    path = tmp_path / "t.toml"
    path.write_text("[[host]]\nwhat = 'a'\n[[host]]\nwhat = 1\n[a]\nb = 1\n", encoding="utf-8")
    table = Table.load(path)
    rows = table.tables("host")
    assert rows[0].take("what", str) == "a"
    with pytest.raises(Refusal, match=r"'host\[1\]\.what' is 1"):
        rows[1].take("what", str)
    with pytest.raises(Refusal, match=r"'a\.b' is not a known key; allowed: c$"), table.table("a") as inner:
        inner.take("c", int, 1)


def test_good_values_come_back_with_their_types(tmp_path: Path) -> None:
    """Defaults are given for absent keys, whole numbers serve as numbers, lists become tuples."""

    def read(table: Table) -> tuple[object, ...]:
        return (
            table.take("s", str),
            table.take("f", float),
            table.take("zero", int, 0),
            table.take("empty", str, ""),
            table.strings("l"),
            table.strings("none", []),
            table.mapping("m"),
            table.tables("rows"),
        )

    found = consume(tmp_path / "t.toml", "s = 'x'\nf = 2\nl = ['a']\n[m]\nA = 'b'\n", read)
    assert found == ("x", 2.0, 0, "", ("a",), (), {"A": "b"}, [])
    assert isinstance(found, tuple)
    assert type(found[1]) is float


def test_an_error_inside_the_block_is_not_hidden(tmp_path: Path) -> None:
    """Leftover keys are not complained of when something else went wrong first."""
    with pytest.raises(ZeroDivisionError):
        consume(tmp_path / "t.toml", "left = 1", lambda t: 1 // 0)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"title = \n", "not valid TOML"),
        (b"a = 1\na = 2\n", "not valid TOML"),
        (b"title = '\xff\xfe'\n", "not valid TOML"),
        (b"a = " + b"[" * 5000, "not valid TOML"),
    ],
    ids=["broken", "key twice", "not UTF-8", "nested without end"],
)
def test_broken_file_is_refused_with_its_name(tmp_path: Path, content: bytes, words: str) -> None:
    """Whatever the bytes are, the answer is a sentence with the file's name."""
    path = tmp_path / "stack.toml"
    path.write_bytes(content)
    with pytest.raises(Refusal, match=words) as caught:
        read_toml(path)
    assert str(path) in str(caught.value)


def test_line_of_the_break_is_named(tmp_path: Path) -> None:
    """The parser's line and column are passed on."""
    path = tmp_path / "stack.toml"
    path.write_text("a = 1\nb == 2\n", encoding="utf-8")
    with pytest.raises(Refusal, match="line 2, column"):
        read_toml(path)


def test_unreadable_file_is_refused(tmp_path: Path) -> None:
    """A missing file and a folder in its place get a sentence each."""
    with pytest.raises(Refusal, match="No such file"):
        read_toml(tmp_path / "absent.toml")
    with pytest.raises(Refusal, match="cannot be read"):
        read_toml(tmp_path)

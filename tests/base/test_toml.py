"""Strict tables: each refusal names the file, the key and what is allowed, in one sentence."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest

from stackproof.base.errors import Refusal
from stackproof.base.toml import INLINE, Key, OneOf, Parsed, Table, Wrong, read_toml


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"title = \n", "not valid TOML"),
        (b"a = 1\na = 2\n", "not valid TOML"),
        (b"title = '\xff\xfe'\n", "is not UTF-8 .byte 9 is 0xff.; save it as UTF-8"),
        (b"a = " + b"[" * 5000, "not valid TOML"),
        (b"a = " + b"9" * 5000, "not valid TOML"),
    ],
    ids=["broken", "key twice", "not UTF-8", "nested without end", "a number without end"],
)
def test_broken_file_is_refused_with_its_name(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "stack.toml"
    path.write_bytes(content)
    with pytest.raises(Refusal, match=words) as caught:
        read_toml(path)
    assert str(path) in str(caught.value)


def test_a_mark_that_editors_of_windows_leave_is_no_break(tmp_path: Path) -> None:
    path = tmp_path / "stack.toml"
    path.write_bytes(b"\xef\xbb\xbftitle = 1\n")
    assert read_toml(path) == {"title": 1}


def test_line_of_the_break_is_named(tmp_path: Path) -> None:
    path = tmp_path / "stack.toml"
    path.write_text("a = 1\nb == 2\n", encoding="utf-8")
    with pytest.raises(Refusal, match="line 2, column"):
        read_toml(path)


def test_unreadable_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="No such file"):
        read_toml(tmp_path / "absent.toml")
    with pytest.raises(Refusal, match="is a folder"):
        read_toml(tmp_path)


@dataclass(frozen=True)
class Budget:
    """What stands in the same table as the row itself."""

    noise: float
    least: int = 3


@dataclass(frozen=True)
class Inner:
    """A row of an array."""

    word: Literal["floor", "ceiling"]
    level: Literal["low", "high"] = "low"


@dataclass(frozen=True)
class Outer:
    """Every kind of annotation that a table may need."""

    name: str
    count: int
    share: float
    due: datetime.date
    words: Annotated[tuple[str, ...], OneOf(("a", "b"))]
    pair: tuple[int, int]
    pattern: re.Pattern[str]
    span: Annotated[int, Parsed(int)]
    budget: Annotated[Budget, INLINE]
    inner: Inner
    called: Annotated[str, Key("class")]
    rows: tuple[Inner, ...]
    free: Mapping[str, float] = field(default_factory=dict)
    bound: Mapping[Annotated[str, OneOf(("first", "last"))], int] = field(default_factory=dict)
    anything: Any = None
    maybe: float | None = None
    flag: bool = False

    def __post_init__(self) -> None:
        if self.count < 1:
            raise Wrong("count", f"is {self.count}; it must be 1 or more")


WHOLE = """
name = "x"
count = 2
share = 1
due = 2027-01-31
words = ["a"]
pair = [1, 2]
pattern = "a+"
span = "7"
noise = 0.5
class = "y"
inner = {word = "floor"}
rows = [{word = "floor"}, {word = "ceiling", level = "high"}]
free = {a = 1}
bound = {first = 1}
"""


def as_outer(path: Path, text: str) -> Outer:
    """Read the text as a row."""
    path.write_text(text, encoding="utf-8")
    return Table.load(path).row(Outer)


def test_a_table_becomes_the_dataclass_that_its_annotations_say(tmp_path: Path) -> None:
    found = as_outer(tmp_path / "t.toml", WHOLE)
    assert (found.name, found.count, found.share, found.due) == ("x", 2, 1.0, datetime.date(2027, 1, 31))
    assert (found.words, found.pair, found.span, found.called) == (("a",), (1, 2), 7, "y")
    assert found.pattern.fullmatch("aaa")
    assert found.budget == Budget(0.5)
    assert found.inner == Inner("floor")
    assert found.rows == (Inner("floor"), Inner("ceiling", "high"))
    assert (dict(found.free), found.anything, found.maybe, found.flag) == ({"a": 1.0}, None, None, False)
    assert type(found.share) is float


SPOILT: dict[str, tuple[str, str, str]] = {
    "missing": ('name = "x"\n', "", "'name' is missing; it must be a string"),
    "slip": ('name = "x"', 'named = "x"', "'name' is missing (is 'named' meant?); it must be a string"),
    "missing list": ('words = ["a"]\n', "", "'words' is missing; it must be a list"),
    "missing table": ('inner = {word = "floor"}\n', "", "'inner' is missing; it must be a table"),
    "missing pattern": ('pattern = "a+"\n', "", "'pattern' is missing; it must be a string"),
    "wrong type": ("count = 2", "count = 2.5", "'count' is 2.5; it must be a whole number"),
    "true is no number": ("share = 1", "share = true", "'share' is True; it must be a number"),
    "element": ('["a"]', '["a", "c"]', "'words' is 'c'"),
    "element's type": ('["a"]', '["a", 3]', "'words' is 3; it must be a string"),
    "NUL": ('"x"', '"x\\u0000"', "'name' is 'x\\x00'; no name, path or variable can hold a NUL"),
    "list for a word": ('"x"', '["x"]', "'name' is ['x']; it must be a string"),
    "too few": ("[1, 2]", "[1]", "'pair' is [1]; it must be a list of 2"),
    "no expression": ('"a+"', '"("', "'pattern' is '(', which is not a regular expression"),
    "unparsed": ('"7"', '"seven"', "'span' invalid literal"),
    "number for a text": ('span = "7"', "span = 7", "'span' is 7; it must be a string"),
    "inline": ("noise = 0.5", 'noise = "loud"', "'noise' is 'loud'; it must be a number"),
    "inner": ('{word = "floor"}\nrows', '{word = "floot"}\nrows', "'inner.word' is 'floot' (did you mean 'floor'?)"),
    "inner unknown": ('{word = "floor"}\nrows', '{word = "floor", x = 1}\nrows', "'inner.x' is not a known key"),
    "row": (
        'level = "high"',
        'level = "hihg"',
        "'rows[1].level' is 'hihg' (did you mean 'high'?); allowed: 'low', 'high'",
    ),
    "row is no table": ('[{word = "floor"},', "[5,", "'rows' is 5; it must be a table"),
    "mapping": ("{a = 1}", '{a = "b"}', "'free.a' is 'b'; it must be a number"),
    "key of a mapping": (
        "{first = 1}",
        "{fist = 1}",
        "'bound.fist' is not a known key (did you mean 'first'?); allowed: first",
    ),
    "unknown": (
        'name = "x"',
        'name = "x"\nnmae = 1',
        "'nmae' is not a known key (did you mean 'name'?); allowed: anything",
    ),
    "together": ("count = 2", "count = 0", "'count' is 0; it must be 1 or more"),
    "renamed": ('class = "y"', "class = 1", "'class' is 1; it must be a string"),
}


@pytest.mark.parametrize("name", SPOILT)
def test_a_row_is_refused_as_a_table_is(tmp_path: Path, name: str) -> None:
    old, new, words = SPOILT[name]
    assert WHOLE.count(old) >= 1
    path = tmp_path / "t.toml"
    with pytest.raises(Refusal) as caught:
        as_outer(path, WHOLE.replace(old, new, 1))
    assert str(caught.value).startswith(f"{path}: {words}")
    assert "\n" not in str(caught.value)


def test_given_fields_are_not_looked_for(tmp_path: Path) -> None:
    path = tmp_path / "t.toml"
    path.write_text("least = 5\n", encoding="utf-8")
    assert Table.load(path).row(Budget, noise=0.25) == Budget(0.25, 5)
    path.write_text("noise = 0.5\n", encoding="utf-8")
    with pytest.raises(Refusal, match="'noise' is not a known key"):
        Table.load(path).row(Budget, noise=0.25)

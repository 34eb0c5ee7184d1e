"""Strict reading of TOML: a table becomes a dataclass by its annotations.

Every refusal names the file, the key and what is allowed.
"""

from __future__ import annotations

import dataclasses
import datetime
import difflib
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import MISSING, dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from types import NoneType, TracebackType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from stackproof.base import files
from stackproof.base.errors import Refusal, suggestion

if sys.version_info >= (3, 11):
    import tomllib
else:
    try:
        import tomli as tomllib
    except ModuleNotFoundError as missing:  # a vendor's bare container
        raise SystemExit("stackproof reads TOML: on Python 3.10 run `python -m pip install tomli` first") from missing

T = TypeVar("T")

_WORDS: dict[type, str] = {
    datetime.date: "a date such as 2027-01-31",
    str: "a string",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    dict: "a table",
    list: "a list",
}


@dataclass(frozen=True)
class OneOf:
    """The words that are allowed; a function where they stand in another file."""

    words: Collection[Any] | Callable[[], Collection[Any]]

    @property
    def allowed(self) -> Collection[Any]:
        return self.words() if callable(self.words) else self.words


@dataclass(frozen=True)
class Parsed:
    """What becomes of a text; `parse` raises `ValueError` with what is wrong, such as "is 'x'; it must be a version range"."""

    parse: Callable[[str], Any]


@dataclass(frozen=True)
class Key:
    """What a field is called in the file."""

    name: str


INLINE = Key("")
PLACE = Key(".")
"""Marks a text that no file holds: where the row stands in it, such as `ending[3]`."""


@dataclass(frozen=True)
class Kinds:
    """The dataclasses that a table may become; its key `kind`, which each of them has as a field, says which."""

    named: Mapping[str, type]


class Wrong(ValueError):  # noqa: N818 - it becomes a refusal that names the file
    """What a dataclass holds cannot be so; raised by `__post_init__` with the key and why."""

    def __init__(self, key: str, why: str) -> None:
        super().__init__(key, why)
        self.key, self.why = key, why


@dataclass(frozen=True)
class _Field:
    name: str
    key: str
    hint: Any
    default: Callable[[], Any] | None


@cache
def _fields(kind: Any) -> tuple[_Field, ...]:
    hints = get_type_hints(kind, include_extras=True)
    return tuple(_field(field, hints[field.name]) for field in dataclasses.fields(kind) if field.init)


def _marks(hint: Any) -> dict[type, Any]:
    return {type(mark): mark for mark in getattr(hint, "__metadata__", ())}


def _field(field: dataclasses.Field[Any], hint: Any) -> _Field:
    default: Callable[[], Any] | None = None
    if field.default_factory is not MISSING:
        default = field.default_factory
    elif field.default is not MISSING:
        default = lambda: field.default  # noqa: E731
    elif _is_array_of_tables(hint):
        default = tuple
    return _Field(field.name, _marks(hint).get(Key, field).name, hint, default)


def _bare(hint: Any) -> Any:
    return hint.__origin__ if get_origin(hint) is Annotated else hint


def _is_array_of_tables(hint: Any) -> bool:
    bare = _bare(hint)
    return get_origin(bare) is tuple and dataclasses.is_dataclass(get_args(bare)[0])


def _lacking(
    kind: Any, values: Mapping[str, Any], prefix: str = "", words: Collection[str] = ()
) -> Iterator[tuple[str, str]]:
    """Yield what a table and the tables in it lack of a dataclass: each key, and what it must be."""
    for field in _fields(kind):
        if field.name in words or field.key == PLACE.name:
            continue
        if field.key == INLINE.name:
            yield from _lacking(field.hint.__origin__, values, prefix)
            continue
        hint, value = _without_none(_bare(field.hint)), values.get(field.key)
        absent = field.key not in values and not field.default
        within = list[tuple[str, str]]()
        if dataclasses.is_dataclass(hint) and (absent or isinstance(value, dict)):
            within = list(_lacking(hint, value or {}, f"{prefix}{field.key}."))
        if absent and not within:  # a table of which every key may be left out is still to be there
            within = [(f"{prefix}{field.key}", _WORDS.get(_raw(field.hint), "there"))]
        yield from within
        if _is_array_of_tables(hint) and isinstance(value, list):
            for number, row in enumerate(value):
                if isinstance(row, dict):
                    yield from _lacking(get_args(hint)[0], row, f"{prefix}{field.key}[{number}].")


def _raw(hint: Any) -> type:
    """Return what TOML must hold where a hint stands: text for a word or a pattern, a list for a tuple, a table for a dataclass."""
    origin = get_origin(hint)
    if origin is Annotated:
        marks = _marks(hint)
        return str if Parsed in marks else dict if Kinds in marks else _raw(hint.__origin__)
    if origin in (Union, UnionType):
        return _raw(_without_none(hint))
    if origin is tuple:
        return list
    if origin in (dict, Mapping) or dataclasses.is_dataclass(hint):
        return dict
    return hint if hint in _WORDS else str


def _is_enum(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, Enum)


def _without_none(hint: Any) -> Any:
    optional = get_origin(hint) in (Union, UnionType)
    return next(each for each in get_args(hint) if each is not NoneType) if optional else hint


def expression(flags: re.RegexFlag | int = 0) -> Parsed:
    """Return the mark of a regular expression that is compiled with these flags."""

    def compiled(text: str) -> re.Pattern[str]:
        try:
            return re.compile(text, flags)
        except re.error as error:
            raise ValueError(f"is {text!r}, which is not a regular expression ({error}); mend it") from error

    return Parsed(compiled)


def read_toml(path: Path) -> dict[str, Any]:
    """Return the table in `path`, or refuse with the file and line that is broken."""
    try:
        return tomllib.loads(files.read_text(path, "check that it exists and is readable"))
    except RecursionError as error:
        raise Refusal(
            f"{path}: is not valid TOML: it holds tables or lists nested hundreds deep; write it flat"
        ) from error
    except ValueError as error:
        slip = str(error) if isinstance(error, tomllib.TOMLDecodeError) else "a number of thousands of digits"
        raise Refusal(f"{path}: is not valid TOML ({slip}); mend that line") from error


def kept(path: Path, kind: type[T]) -> Callable[[], T]:
    """Return a function that loads a file as a dataclass once, and refuses a slip in it by key."""
    return cache(lambda: Table.load(path).row(kind))


def kept_rows(path: Path, key: str, kind: type[T]) -> Callable[[], tuple[T, ...]]:
    """Return a function that loads the array of tables that a file is, once."""

    def load() -> tuple[T, ...]:
        with Table.load(path) as table:
            return table.rows(key, kind)

    return cache(load)


class Table:
    """A TOML table, consumed strictly: leaving the `with` block refuses keys that nothing asked for."""

    def __init__(self, path: Path, values: dict[str, Any], prefix: str = "") -> None:
        self.path, self.prefix = path, prefix
        self._values = dict(values)
        self._known: list[str] = []

    @classmethod
    def load(cls, path: Path) -> Table:
        return cls(path, read_toml(path))

    def tables(self, key: str) -> list[Table]:
        """Return an array of tables; none when the key is absent."""
        self._known.append(key)
        rows = self._checked(key, self._values.pop(key, []), list, None)
        return [
            Table(self.path, self._checked(key, row, dict, None), f"{self.prefix}{key}[{n}].")
            for n, row in enumerate(rows)
        ]

    def row(self, kind: type[T], **fields: Any) -> T:
        """Return the whole table as a dataclass; the fields in `fields` are not looked for.

        What an annotation means in a file:

        - `str`, `int`, `float`, `bool`, `datetime.date`: that value; a whole number serves as a `float`.
        - `Literal["a", "b"]`, an `Enum`, `Annotated[str, OneOf(...)]`: one of these words.
        - `tuple[X, ...]`: a list; of a dataclass an array of tables, which may be absent. `tuple[X, X]`: a list of so many.
        - `Mapping[str, X]`: a table with keys of any name, or of those that `OneOf` allows. A dataclass: a table with these keys.
        - `re.Pattern[str]`: a regular expression. `Annotated[X, Parsed(parse)]`: a text that `parse` makes an X of.
        - `Annotated[X, Kinds(...)]`: a table whose `kind` says which dataclass it is. `Any`: whatever stands there.

        A field with a default may be absent; `Annotated[X, Key("name")]` gives it another name in the file, `Annotated[X, INLINE]`
        takes the keys of the dataclass X from the same table, `Annotated[str, PLACE]` is where the row stands. What fields must hold
        together is checked in `__post_init__`. A function in an annotation must have a name: annotations are evaluated where a
        `lambda` does not see the module.

        Raises:
            Refusal: a key is unknown, missing, of the wrong type or not allowed; or `__post_init__` said `Wrong`.
        """
        with self:
            return self._row(kind, fields)

    def rows(self, key: str, kind: type[T]) -> tuple[T, ...]:
        """Return an array of tables as dataclasses; none when the key is absent."""
        return tuple(row.row(kind) for row in self.tables(key))

    def _row(self, kind: type[T], fields: Mapping[str, Any]) -> T:
        self._require_keys(kind, fields)
        values = {field.name: self._read(field) for field in _fields(kind) if field.name not in fields}  # type: ignore[arg-type]
        try:
            return kind(**fields, **values)
        except Wrong as error:
            raise self.refuse(error.key, error.why) from error

    def _require_keys(self, kind: type, names: Collection[str]) -> None:
        """Refuse a table that lacks keys with all of them, those of its tables too, so that nobody has to come once for each."""
        lacking = list(_lacking(kind, self._values, "", names))
        if len(lacking) < 2:
            return  # a single one is refused in its turn
        first, of = lacking[0]
        several = ", ".join(f"'{self.prefix}{key}' ({words})" for key, words in lacking[1:])
        raise self.refuse(first, f"is missing{self._slip(first)}; it must be {of}; so are {several}")

    def _read(self, field: _Field) -> Any:
        if field.key == INLINE.name:
            return self._row(field.hint.__origin__, {})
        if field.key == PLACE.name:
            return self.prefix.removesuffix(".")
        if field.key not in self._values and field.default:
            self._known.append(field.key)
            return field.default()
        return self._made(field.key, self._value(field.key, field.hint), field.hint)

    def _value(self, key: str, hint: Any) -> Any:
        self._known.append(key)
        if key not in self._values:
            raise self.refuse(key, f"is missing{self._slip(key)}; it must be {_WORDS.get(_raw(hint), 'there')}")
        return self._values.pop(key)

    def _made(self, key: str, value: Any, hint: Any, allowed: Collection[Any] | None = None) -> Any:
        """Return a value as its hint says; `allowed`: the words that it may be, or that those in it may be."""
        origin, parts, marks = get_origin(hint), get_args(hint), _marks(hint)
        if hint is Any:
            return value
        if origin in (Union, UnionType):
            return self._made(key, value, _without_none(hint), allowed)
        if OneOf in marks:
            allowed = marks[OneOf].allowed
        if Parsed in marks or origin is re.Pattern:
            try:
                return marks.get(Parsed, expression()).parse(self._checked(key, value, str, allowed))
            except ValueError as error:
                raise self.refuse(key, str(error)) from error
        if origin is Annotated and Kinds not in marks:
            return self._made(key, value, hint.__origin__, allowed)
        if origin is Literal or _is_enum(hint):
            allowed = parts or [each.value for each in hint]
        if (raw := _raw(hint)) not in (list, dict):
            value = self._checked(key, value, raw, allowed)
            return hint(value) if _is_enum(hint) else value
        value = self._checked(key, value, raw, None)
        if origin is tuple:
            return self._several(key, value, parts, allowed)
        if origin in (dict, Mapping):
            names = _marks(parts[0]).get(OneOf)
            return {
                self._name(key, name, names): self._made(f"{key}.{name}", each, parts[1], allowed)
                for name, each in value.items()
            }
        with Table(self.path, value, f"{self.prefix}{key}.") as inner:
            if Kinds not in marks:
                return inner._row(hint, {})
            kinds = marks[Kinds].named
            kind = inner._checked("kind", inner._value("kind", str), str, tuple(kinds))
            return inner._row(kinds[kind], {"kind": kind})

    def _name(self, key: str, name: str, known: OneOf | None) -> str:
        """Return a key of a table with keys of any name, or refuse one that is not allowed."""
        if known is not None and name not in known.allowed:
            words = ", ".join(sorted(known.allowed))
            raise self.refuse(f"{key}.{name}", f"is not a known key{suggestion(name, known.allowed)}; allowed: {words}")
        return name

    def _several(self, key: str, values: list[Any], parts: tuple[Any, ...], allowed: Collection[Any] | None) -> Any:
        several = parts[-1] is Ellipsis
        hints = [parts[0]] * len(values) if several else list(parts)
        if len(values) != len(hints):
            raise self.refuse(key, f"is {values!r}; it must be a list of {len(parts)}")
        numbered = dataclasses.is_dataclass(parts[0])
        return tuple(
            self._made(f"{key}[{number}]" if numbered and isinstance(value, dict) else key, value, hint, allowed)
            for number, (value, hint) in enumerate(zip(values, hints, strict=True))
        )

    def refuse(self, key: str, why: str) -> Refusal:
        """Make (not raise) the refusal for one key."""
        return Refusal(f"{self.path}: '{self.prefix}{key}' {why}")

    def _slip(self, key: str) -> str:
        """Point at a key that is there and looks like the missing one."""
        near = difflib.get_close_matches(key, self._values, n=1, cutoff=0.8)
        return f" (is '{near[0]}' meant?)" if near else ""

    def _checked(self, key: str, value: Any, kind: type[T], allowed: Collection[T] | None) -> T:
        number = kind is float and type(value) is int
        narrower = isinstance(value, bool) is not (kind is bool) or isinstance(value, datetime.datetime)
        if not number and (not isinstance(value, kind) or narrower):  # Python calls a bool an int, and a time a date
            raise self.refuse(key, f"is {value!r}; it must be {_WORDS[kind]}")
        if isinstance(value, str) and "\0" in value:
            raise self.refuse(key, f"is {value!r}; no name, path or variable can hold a NUL")
        if allowed is not None and value not in allowed:
            words = ", ".join(repr(word) for word in allowed)
            raise self.refuse(key, f"is {value!r}{suggestion(str(value), map(str, allowed))}; allowed: {words}")
        return float(value) if number else value  # type: ignore[return-value]

    def __enter__(self) -> Table:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and self._values:
            key = next(iter(self._values))
            known = ", ".join(sorted(self._known))
            raise self.refuse(key, f"is not a known key{suggestion(key, self._known)}; allowed: {known}")

"""Strict reading of TOML tables: every refusal names the file, the key and what is allowed."""

from __future__ import annotations

import datetime
import difflib
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

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


def read_toml(path: Path) -> dict[str, Any]:
    """Return the table in `path`, or refuse with the file and line that is broken."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise Refusal(f"{path}: cannot be read ({error.strerror}); check that it exists and is readable") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Refusal(f"{path}: is not valid TOML ({error}); mend that line") from error


class Table:
    """A TOML table being consumed key by key; leaving the `with` block refuses keys that nothing took."""

    def __init__(self, path: Path, values: dict[str, Any], prefix: str = "") -> None:
        self.path, self.prefix = path, prefix
        self._values = dict(values)
        self._known: list[str] = []

    @classmethod
    def load(cls, path: Path) -> Table:
        """Open the file as a table."""
        return cls(path, read_toml(path))

    def take(self, key: str, kind: type[T], default: T | None = None, allowed: Sequence[T] | None = None) -> T:
        """Return the value of `key`; without a default the key is required."""
        self._known.append(key)
        if key not in self._values:
            if default is None:
                raise self.refuse(key, f"is missing{self._slip(key)}; it must be {_WORDS[kind]}")
            return default
        return self._checked(key, self._values.pop(key), kind, allowed)

    def strings(
        self, key: str, default: Sequence[str] | None = None, allowed: Sequence[str] | None = None
    ) -> tuple[str, ...]:
        """Return a list of strings as a tuple."""
        values = self.take(key, list, None if default is None else list(default))
        return tuple(self._checked(key, value, str, allowed) for value in values)

    def mapping(self, key: str, default: dict[str, str] | None = None) -> dict[str, str]:
        """Return a table of strings."""
        values = self.take(key, dict, default)
        return {name: self._checked(f"{key}.{name}", value, str, None) for name, value in values.items()}

    def table(self, key: str, default: dict[str, Any] | None = None) -> Table:
        """Return a sub-table, to be consumed with its own `with`."""
        return Table(self.path, self.take(key, dict, default), f"{self.prefix}{key}.")

    def tables(self, key: str) -> list[Table]:
        """Return an array of tables; none when the key is absent."""
        rows = self.take(key, list, [])
        return [
            Table(self.path, self._checked(key, row, dict, None), f"{self.prefix}{key}[{n}].")
            for n, row in enumerate(rows)
        ]

    def refuse(self, key: str, why: str) -> Refusal:
        """Make (not raise) the refusal for one key."""
        return Refusal(f"{self.path}: '{self.prefix}{key}' {why}")

    def _slip(self, key: str) -> str:
        """Point at a key that is there and looks like the missing one."""
        near = difflib.get_close_matches(key, self._values, n=1, cutoff=0.8)
        return f" (is '{near[0]}' meant?)" if near else ""

    def _checked(self, key: str, value: Any, kind: type[T], allowed: Sequence[T] | None) -> T:
        number = kind is float and type(value) is int
        if not number and (not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool)):
            raise self.refuse(key, f"is {value!r}; it must be {_WORDS[kind]}")
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
